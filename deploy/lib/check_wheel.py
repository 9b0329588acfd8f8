# SPDX-License-Identifier: Apache-2.0
"""Whether a wheel deserves its tag, by what auditwheel finds in it:

    auditwheel show --json WHEEL | python deploy/lib/check_wheel.py TAG

Ends with 1, and says why, where it does not. Libraries of torch are no reason: they lie in another
wheel, and are loaded before anything that needs them.
"""

from __future__ import annotations

import json
import re
import sys
from typing import Any

TORCHS = re.compile(r"lib(c10|torch)(_\w+)?\.so")


def problems(found: dict[str, Any], tag: str) -> list[str]:
    """found: what `auditwheel show --json` prints."""
    wrong = []
    if found["sym_tag"] != tag:
        wrong.append(f"its symbols make it {found['sym_tag']}")
    wanted = found["policy_upgrades"].get(tag, {})
    for library in wanted.get("libs_to_eliminate", []):
        if not TORCHS.fullmatch(library):
            wrong.append(f"it needs {library}, which it does not bring")
    for library, symbols in wanted.get("blacklisted_symbols", {}).items():
        wrong.append(f"it uses {', '.join(symbols)} of {library}")
    if found["unsupported_isa"]:
        wrong.append("it needs more than the baseline of its processor")
    return wrong


def main() -> int:
    (tag,) = sys.argv[1:]
    found = json.load(sys.stdin)
    wrong = problems(found, tag)
    for problem in wrong:
        print(f"{found['wheel']} is not {tag}: {problem}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
