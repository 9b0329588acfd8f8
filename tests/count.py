# SPDX-License-Identifier: Apache-2.0
"""Prints the closing line of a run, `N passed, N failed`, from JUnit reports.

    python tests/count.py STATUS REPORT...

STATUS is not 0 when something beside a single test went wrong. Ends with 1 when anything failed, a
report is missing, or no test ran.
"""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree


def main() -> int:
    broken, reports = sys.argv[1] != "0", sys.argv[2:]
    passed = failed = 0
    for report in reports:
        try:
            cases = list(ElementTree.parse(report).iter("testcase"))
        except (OSError, ElementTree.ParseError) as error:
            print(f"{report}: {error}")
            cases, broken = [], True
        for case in cases:
            skipped = case.find("skipped")
            # ctest says "notrun" of a test that skipped itself, and of one that did not start.
            reason = skipped.get("message", "") if skipped is not None else ""
            unstarted = case.get("status") == "notrun" and not reason.startswith("SKIP_")
            if case.find("failure") is not None or case.find("error") is not None or unstarted:
                failed += 1
            elif skipped is None:
                passed += 1
    if broken and not failed:
        failed = 1
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
