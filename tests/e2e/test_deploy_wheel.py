# SPDX-License-Identifier: Apache-2.0
"""How old a host the package runs on: what is built needs no newer system than the wheel's tag says
(deploy/bundle.sh has auditwheel look at the wheel itself)."""

from __future__ import annotations

import re
import subprocess
import sys
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
