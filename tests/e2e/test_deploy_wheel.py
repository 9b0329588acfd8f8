# SPDX-License-Identifier: Apache-2.0
"""How old a host the package runs on: what is built needs no newer system than the wheel's tag says
(deploy/bundle.sh has auditwheel look at the wheel itself); and what pip puts where."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import venv
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from real_daemon import ROOT, binary

sys.path.append(str(ROOT / "deploy" / "lib"))
import check_wheel

SCRIPT = (ROOT / "deploy" / "bundle.sh").read_text()
BUILT = (*map(binary, ("tensord", "tensord-worker", "tensorctl")),
         ROOT / "build" / "lib" / "libtensord_runtime.so")  # fmt: skip
# Of RHEL 9, as the policy manylinux_2_34 has them.
MOST = {"GLIBC": (2, 34), "GLIBCXX": (3, 4, 29), "CXXABI": (1, 3, 13), "GCC": (7, 0, 0)}


def libraries() -> set[Path]:
    """All that the programs and the runtime load and that a bundle brings along."""
    pattern = re.search(r"^HOST_LIBRARIES='(.*)'$", SCRIPT, re.M)
    assert pattern
    printed = subprocess.run(["ldd", *BUILT], check=True, capture_output=True, text=True).stdout
    found = re.findall(r"^\t(\S+) => (/\S+)", printed, re.M)
    return {Path(path).resolve() for name, path in found if not re.match(pattern[1], name)}


@cache
def needed(file: Path) -> dict[str, dict[tuple[int, ...], str]]:
    """By library of the system: the versions that the file needs, and a symbol of each."""
    printed = subprocess.run(
        ["objdump", "-T", file], check=True, capture_output=True, text=True
    ).stdout
    found: dict[str, dict[tuple[int, ...], str]] = {}
    for name, version, symbol in re.findall(
        r"\*UND\*.*\((GLIBC|GLIBCXX|CXXABI|GCC)_([0-9.]+)\) +(\S+)$", printed, re.M
    ):
        found.setdefault(name, {})[tuple(map(int, version.split(".")))] = symbol
    return found


@pytest.mark.parametrize("name", MOST)
def test_nothing_needs_a_newer_system(name: str) -> None:
    files = (*BUILT, *sorted(libraries()))
    assert any(needed(file).get(name) for file in files)
    late = {
        file.name: (version, symbol)
        for file in files
        for version, symbol in needed(file).get(name, {}).items()
        if version > MOST[name]
    }
    assert not late


def test_the_tag_is_the_documents() -> None:
    assert "MANYLINUX=manylinux_2_34_$(uname -m)\n" in SCRIPT
    document = (ROOT / "docs" / "deploying.md").read_text()
    assert set(re.findall(r"manylinux_(\w+?)_x86_64", document)) == {"2_34"}
    assert "glibc 2.34 and libstdc++ 3.4.29" in document


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({}, None),
        ({"sym_tag": "manylinux_2_35_x86_64"}, "manylinux_2_35_x86_64"),
        ({"unsupported_isa": True}, "baseline"),
        ({"libs_to_eliminate": ["libc10.so", "libtorch_python.so"]}, None),
        ({"libs_to_eliminate": ["libspdlog.so.1"]}, "libspdlog.so.1"),
        ({"blacklisted_symbols": {"libz.so.1": ["inflate"]}}, "inflate of libz.so.1"),
    ],
)
def test_what_auditwheel_finds_is_judged(found: dict[str, Any], words: str | None) -> None:
    tag = "manylinux_2_34_x86_64"
    given = {"wheel": "w", "sym_tag": tag, "unsupported_isa": False, "policy_upgrades": {}}
    upgrades = {k: v for k, v in found.items() if k not in given}
    given |= {k: v for k, v in found.items() if k in given}
    if upgrades:
        given["policy_upgrades"] = {tag: upgrades}
    wrong = check_wheel.problems(given, tag)
    assert (wrong == []) if words is None else (len(wrong) == 1 and words in wrong[0])


# -- what pip puts where ----------------------------------------------------------------------

# Stands for both programs: says how it was called, then does as it is told.
STAND_IN = """#!/bin/sh
case $1 in
  exit) echo "$@"; exit "$2" ;;
  wait) trap 'exit 42' TERM; echo $$; while :; do sleep 0.05; done ;;
  ignored) grep SigIgn /proc/self/status ;;
esac
"""
SHARED = ("man/man1/tensorctl.1", "man/man8/tensord.8", "bash-completion/completions/tensorctl",
          "zsh/site-functions/_tensord", "fish/vendor_completions.d/tensord.fish")  # fmt: skip


def run_pip(*arguments: str | Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment of its own with a wheel as deploy/bundle.sh makes it, but for its binaries."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    client = ROOT / "client"
    left_out = shutil.ignore_patterns("__pycache__", "bin", "lib", "_vendor", "prebuilt")
    shutil.copytree(client / "tensord", source / "tensord", ignore=left_out)
    for name in ("pyproject.toml", "setup.py"):
        shutil.copy(client / name, source)
    (source / "tensord" / "bin").mkdir()
    for name in ("tensord", "tensorctl", "tensord-worker"):
        program = source / "tensord" / "bin" / name
        program.write_text(STAND_IN)
        program.chmod(0o755)
    for name in SHARED:
        file = source / "share" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(name)
    run_pip("wheel", "--no-deps", "--no-build-isolation", "-w", folder, source)
    environment = folder / "environment"
    venv.create(environment, with_pip=False)
    (wheel,) = folder.glob("*.whl")
    run_pip("--python", environment, "install", "--no-deps", "--no-index", wheel)
    return environment


def call(environment: Path, name: str, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [environment / "bin" / name, *arguments], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("name", ["tensord", "tensorctl"])
def test_programs_are_on_the_path_and_give_their_exit_code(installed: Path, name: str) -> None:
    process = call(installed, name, "exit", "7", "--flag", "two words")
    assert process.communicate(timeout=30)[0] == "exit 7 --flag two words\n"
    assert process.returncode == 7


def test_a_program_takes_the_place_of_its_command(installed: Path) -> None:
    process = call(installed, "tensord", "wait")
    assert process.stdout is not None
    assert int(process.stdout.readline()) == process.pid
    process.terminate()
    assert process.wait(30) == 42
    printed, _ = call(installed, "tensorctl", "ignored").communicate(timeout=30)
    ignored = int(printed.split()[1], 16)
    assert not ignored & 1 << (signal.SIGPIPE - 1) and not ignored & 1 << (signal.SIGXFSZ - 1)


def test_manual_pages_and_completions_are_where_programs_look(installed: Path) -> None:
    for name in SHARED:
        assert (installed / "share" / name).read_text() == name


def test_a_package_without_programs_says_so(installed: Path, tmp_path: Path) -> None:
    elsewhere = "programs.__file__ = '/nowhere/a/b.py'"
    code = f"from tensord import programs; {elsewhere}; programs.tensorctl()"
    done = subprocess.run(
        [installed / "bin" / "python", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1 and done.stderr.startswith("tensorctl: this installation")


def test_the_bundle_has_these_pages_and_completions() -> None:
    for folder in {name.rpartition("/")[0] for name in SHARED}:
        assert folder.rpartition("/")[2] in SCRIPT, folder
    assert '"$share"' in SCRIPT.split('say "building the wheel"')[1]
