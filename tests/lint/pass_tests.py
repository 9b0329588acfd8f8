#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Every pass over graphs and every part of the pass over loops has a test file of its name:
tests/unit/FOLDER/PASS_test.cc.

    tests/lint/pass_tests.py    lists the passes without one, and ends with 1 when there are any
"""

from __future__ import annotations

import re
import sys

from files import ROOT

# A list of passes in a source, how a line of it names one, and the folder of its tests.
LISTS = (
    ("compiler/rewrite/rewrite.cc", r'^\s*\{"(\w+)", \w+, Targets::', "rewrite"),
    ("compiler/pipeline.cc", r'\bpart\("(\w+)", \w+\)', "schedule"),
)


def missing() -> list[str]:
    """The test files that should be there."""
    wanted = []
    for source, pattern, folder in LISTS:
        names = re.findall(pattern, (ROOT / source).read_text(), re.MULTILINE)
        assert names, f"{source} lists no passes"
        wanted += [f"tests/unit/{folder}/{name}_test.cc" for name in names]
    return [path for path in wanted if not (ROOT / path).is_file()]


def main() -> int:
    paths = missing()
    for path in paths:
        print(f"{path}: a pass has no test file of its name")
    return 1 if paths else 0


if __name__ == "__main__":
    sys.exit(main())
