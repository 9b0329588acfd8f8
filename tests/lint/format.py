#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""C++ and CUDA are formatted as .clang-format says, by the version of tests/requirements.txt.

tests/lint/format.py          names the files that differ, and ends with 1 when there are any
tests/lint/format.py --fix    formats them
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
from pathlib import Path

from files import ROOT, tracked

PATTERNS = ("*.cc", "*.h", "*.cu", "*.cuh")


def clang_format() -> str:
    """The program, of the pinned version: another formats differently."""
    pinned = re.search(r"^clang-format==(\S+)", (ROOT / "tests/requirements.txt").read_text(), re.M)
    assert pinned is not None, "tests/requirements.txt pins no clang-format"
    program = str(Path(sysconfig.get_path("scripts")) / "clang-format")
    try:
        version = subprocess.run(
            [program, "--version"], check=True, capture_output=True, text=True
        ).stdout
    except OSError:
        version = "nothing"
    if f"version {pinned[1]}" not in version:
        sys.exit(
            f"{program} is {version.strip()}, clang-format {pinned[1]} is needed: "
            "pip install -r tests/requirements.txt"
        )
    return program


def main() -> int:
    fix = sys.argv[1:] == ["--fix"]
    if sys.argv[1:] and not fix:
        print(__doc__, file=sys.stderr)
        return 2
    files = [str(path) for path in tracked(*PATTERNS)]
    command = [clang_format(), "--style=file"]
    if fix:
        subprocess.run([*command, "-i", *files], check=True)
        return 0
    checked = subprocess.run(
        [*command, "--dry-run", "-Werror", *files], check=False, capture_output=True, text=True
    )
    differing = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", checked.stderr, re.M)))
    for name in differing:
        print(f"{Path(name).relative_to(ROOT)}: is not as clang-format writes it")
    if differing:
        print(f"{len(differing)} files; tests/lint/format.py --fix formats them")
    elif checked.returncode:
        print(checked.stderr)
    return checked.returncode


if __name__ == "__main__":
    sys.exit(main())
