# SPDX-License-Identifier: Apache-2.0
"""The units of deploy/systemd as systemd's own tools see them."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from real_daemon import ROOT, binary

UNITS = ROOT / "deploy" / "systemd"
EXPOSURE = 2.0  # of 10, below which systemd-analyze calls a service OK

needs_systemd = pytest.mark.skipif(
    shutil.which("systemd-analyze") is None or not Path("/lib/systemd/system").is_dir(),
    reason="systemd is not installed",
)


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """The root of a host with systemd's own units, the daemon, and both kinds of units."""
    shutil.copytree("/lib/systemd/system", tmp_path / "usr/lib/systemd/system", symlinks=True)
    units = tmp_path / "etc/systemd/system"
    for folder in ("system", "user"):
        shutil.copytree(UNITS / folder, units, dirs_exist_ok=True)
    program = tmp_path / "usr/local/bin/tensord"
    program.parent.mkdir(parents=True)
    shutil.copy(binary(), program)
    return tmp_path


def analyze(host: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["systemd-analyze", "--man=no", f"--root={host}", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@needs_systemd
@pytest.mark.parametrize("name", ["tensord@alice", "tensord"])
def test_systemd_takes_the_units(host: Path, name: str) -> None:
    assert analyze(host, "verify", f"{name}.socket", f"{name}.service") == ""


@needs_systemd
def test_what_is_wrong_would_be_seen(host: Path) -> None:
    unit = host / "etc/systemd/system/tensord@.service"
    unit.write_text(unit.read_text() + "NoSuchSetting=yes\n")
    assert "NoSuchSetting" in analyze(host, "verify", "tensord@alice.service")


def test_the_end_of_a_service_leaves_its_users_shared_memory() -> None:
    """Jobs of the user have theirs there; with RemoveIPC= it would go when the service does."""
    assert "RemoveIPC" not in (UNITS / "system" / "tensord@.service").read_text()


@needs_systemd
def test_the_systems_service_is_confined(host: Path) -> None:
    said = analyze(host, "security", "--offline=true", "tensord@alice.service")
    found = re.search(r"exposure level for tensord@alice\.service: ([\d.]+)", said)
    assert found and float(found[1]) < EXPOSURE, said[-300:]


@needs_systemd
def test_walls_of_a_users_own_are_as_high(host: Path) -> None:
    """As far as such a manager can be asked to; whether it does is seen on a host alone."""
    drop_in = host / "etc/systemd/system/tensord.service.d"
    drop_in.mkdir()
    shutil.copy(UNITS / "user" / "walls.conf", drop_in)
    # The analysis takes a unit without a user for root's, which one of a user's manager never is.
    (drop_in / "user.conf").write_text("[Service]\nUser=alice\n")
    assert analyze(host, "verify", "tensord.service") == ""
    said = analyze(host, "security", "--offline=true", "tensord.service")
    found = re.search(r"exposure level for tensord\.service: ([\d.]+)", said)
    assert found and float(found[1]) < EXPOSURE, said[-300:]


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*/*.service")), ids=lambda unit: unit.name)
def test_the_daemon_takes_its_command_line(unit: Path) -> None:
    (line,) = re.findall(r"^ExecStart=/usr/local/bin/tensord(.*)$", unit.read_text(), re.MULTILINE)
    arguments = line.replace("%i", "alice").split()
    done = subprocess.run(
        [binary(), "--print-config", *arguments],
        capture_output=True, text=True, timeout=60, check=False,
        env={"XDG_CONFIG_HOME": "/nonexistent"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    sockets = re.findall(
        r"^ListenStream=(.*)$", unit.with_suffix(".socket").read_text(), re.MULTILINE
    )
    if arguments:
        assert f"--address=unix:{sockets[0].replace('%i', 'alice')}" in arguments
    else:  # where jobs look by themselves
        assert sockets == ["%t/tensord/tensord.sock"]
