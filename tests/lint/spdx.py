#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every source file begins with the licence: `SPDX-License-Identifier: Apache-2.0` in a comment, on
the first line, or on the second behind `#!`.

    tests/lint/spdx.py          lists the files without it, and ends with 1 when there are any
    tests/lint/spdx.py --fix    adds it
"""

from __future__ import annotations

import sys
from pathlib import Path

from files import ROOT, of_others, tracked

LICENCE = "SPDX-License-Identifier: Apache-2.0"
# How a comment begins, by the file's suffix, or by its name.
COMMENT = {
    ".cc": "//",
    ".h": "//",
    ".cu": "//",
    ".cuh": "//",
    ".def": "//",
    ".proto": "//",
    ".js": "//",
    ".py": "#",
    ".sh": "#",
    ".cmake": "#",
    ".toml": "#",
    ".yaml": "#",
    ".map": "#",
    "CMakeLists.txt": "#",
    "Containerfile": "#",
    ".ci/run": "#",
}


def comment_of(path: Path) -> str | None:
    """How a comment begins in `path`; None for what is no source file."""
    name = path.relative_to(ROOT).as_posix()
    if of_others(name):
        return None
    return COMMENT.get(name) or COMMENT.get(path.name) or COMMENT.get(path.suffix)


def place(lines: list[str]) -> int:
    """The number of the line that the licence belongs on."""
    return 1 if lines and lines[0].startswith("#!") else 0


def licensed(path: Path, comment: str) -> bool:
    lines = path.read_text().split("\n", 2)
    at = place(lines)
    return len(lines) > at and lines[at] == f"{comment} {LICENCE}"


def add(path: Path, comment: str) -> None:
    lines = path.read_text().split("\n")
    lines.insert(place(lines), f"{comment} {LICENCE}")
    path.write_text("\n".join(lines))


def main() -> int:
    fix = sys.argv[1:] == ["--fix"]
    if sys.argv[1:] and not fix:
        print(__doc__, file=sys.stderr)
        return 2
    missing = 0
    for path in tracked():
        comment = comment_of(path)
        if comment is None or path.stat().st_size == 0 or licensed(path, comment):
            continue
        if fix:
            add(path, comment)
            continue
        print(f"{path.relative_to(ROOT)}:1: the line '{comment} {LICENCE}' is missing")
        missing += 1
    if missing:
        print(f"{missing} files; tests/lint/spdx.py --fix adds the line")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
