# SPDX-License-Identifier: Apache-2.0
"""The files that the checks look at."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Files of others, with licences and comments in their own ways, beside what we say of them.
OTHERS = "proto/third_party/"


def of_others(name: str) -> bool:
    """Whether the file of that name below the root is no text of ours."""
    return name.startswith(OTHERS) and name.endswith(".proto")


def tracked(*patterns: str, root: Path | None = None) -> list[Path]:
    """Files of a working tree that git knows or does not ignore, by git's patterns ("*.cc").

    root: the tree; ROOT where it is not given.
    """
    root = root or ROOT
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns],
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    paths = (root / name for name in listed.split("\0") if name)
    return sorted(path for path in set(paths) if path.is_file() and not path.is_symlink())
