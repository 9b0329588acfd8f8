#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the golden cases: cases/FAMILY.json of each families/FAMILY.py, one case a line by name.

.venv/bin/python tests/golden/write.py [FAMILY...]
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import recorder

HERE = Path(__file__).parent
FAMILIES = sorted(path.stem for path in (HERE / "families").glob("*.py") if path.stem[0] != "_")


def make(family: str) -> dict[str, dict[str, Any]]:
    """The cases of a family by name."""
    made = recorder.start_family()
    importlib.import_module(f"families.{family}").cases()
    return dict(sorted(made.cases.items()))


def path_of(family: str) -> Path:
    return HERE / "cases" / f"{family}.json"


def main() -> None:
    for family in sys.argv[1:] or FAMILIES:
        lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in make(family).values())
        path_of(family).write_text(f"[\n{lines}\n]\n")
        print(f"{path_of(family).relative_to(HERE)}: {lines.count(chr(10)) + 1} cases")


if __name__ == "__main__":
    main()
