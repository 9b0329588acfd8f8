# SPDX-License-Identifier: Apache-2.0
"""The file of deploy/container, without a builder (tests/deploy/container.sh has one): both images
are set up alike, and what they say of the daemon is so."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import yaml
from real_daemon import ROOT, binary

FILE = ROOT / "deploy" / "container" / "Containerfile"
VALUES = ROOT / "deploy" / "kubernetes" / "chart" / "values.yaml"


def stages() -> dict[str, list[str]]:
    """The instructions of each stage, without comments, joined where a line goes on."""
    text = re.sub(r"^#.*\n", "", FILE.read_text(), flags=re.M)
    text = re.sub(r"\\\n *", "", text)
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if begin := re.match(r"FROM .* AS (\w+)$", line):
            instructions: list[str] = []
            found[begin[1]] = instructions
        elif line and found:
            instructions.append(line)
    return found


def settings(stage: str) -> dict[str, str]:
    """What an image says of how it is run, by instruction."""
    return {
        line.split()[0]: line.split(maxsplit=1)[1]
        for line in stages()[stage]
        if not line.startswith(("RUN", "COPY"))
    }


def test_both_images_are_set_up_alike() -> None:
    assert list(stages()) == ["parts", "minimal", "cpu", "cuda"]
    assert settings("cuda") == settings("cpu")


def test_the_user_is_the_charts() -> None:
    values = yaml.safe_load(VALUES.read_text())
    assert settings("cuda")["USER"] == f"{values['user']}:{values['group']}"
    (folders,) = [line for line in stages()["parts"] if "install -d" in line]
    assert "-m 0711 -o 1000 -g 1000 /parts/run/tensord /parts/var/lib/tensord" in folders


def test_the_daemon_finds_its_places(tmp_path: Path) -> None:
    environment = dict(pair.split("=", 1) for pair in settings("cuda")["ENV"].split())
    assert not [name for name in environment if name.startswith("TENSORD_")]
    done = subprocess.run(
        [binary(), "--print-config"], capture_output=True, text=True, timeout=60, check=True,
        env={**environment, "HOME": str(tmp_path)},
    )  # fmt: skip
    socket, store = json.loads(settings("cuda")["VOLUME"])
    assert f'"{socket}/tensord.sock"' in done.stdout and f'"{store}"' in done.stdout


def test_it_is_asked_for_its_health() -> None:
    found = re.fullmatch(
        r"--interval=30s --timeout=10s CMD (\[.*\])", settings("cuda")["HEALTHCHECK"]
    )
    assert found
    program, *arguments = json.loads(found[1])
    assert program == "/opt/tensord/bin/tensorctl"
    assert json.loads(settings("cuda")["ENTRYPOINT"]) == ["/opt/tensord/bin/tensord"]
    done = subprocess.run(
        [binary("tensorctl"), *arguments], capture_output=True, text=True, timeout=60, check=False,
        env={"XDG_RUNTIME_DIR": "/nonexistent"},
    )  # fmt: skip
    assert done.returncode == 3, done.stderr
    assert "/nonexistent/tensord/tensord.sock" in done.stderr


def test_what_is_copied_is_in_the_bundle() -> None:
    """A bundle is the context of a build."""
    script = (ROOT / "deploy" / "bundle.sh").read_text()
    copied = [line.split()[1] for line in stages()["parts"] if line.startswith("COPY")]
    assert copied == ["python/tensord/bin", "python/tensord/lib", "LICENSE"]
    assert "package=$bundle/python/tensord" in script and '"$root/LICENSE"' in script
    assert 'deploy/"{container,kubernetes' in script
