#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The numbers of base/version.h stand nowhere else with another value, and docs/versions.md and
CHANGELOG.md have their history up to the present one.
"""

from __future__ import annotations

import re
import sys

from files import ROOT, tracked

NAME = "base/version.h"
# What the client compares for itself, and what it is there.
SPOKEN = {"PROTOCOL": "kProtocolVersion", "FORMAT": "kFrameFormat"}
# Where the project's version stands in what is deployed.
DEPLOYED = {
    "deploy/container/Containerfile": r'(?:image\.version="|-t tensord:)([0-9.]+)',
    "deploy/kubernetes/chart/Chart.yaml": r'^(?:appVersion: "|version: )([0-9.]+)',
    "docs/deploying.md": r"tensord:([0-9][0-9.]*[0-9])",
}


def find(pattern: str, text: str, where: str) -> str:
    found = re.search(pattern, text, re.M)
    if found is None:
        sys.exit(f"{where}: nothing matches {pattern}")
    return found[1]


def history(section: str, document: str) -> str:
    """The last value in the first column of a section's table."""
    part = re.search(rf"^## {re.escape(section)}$(.*?)(?=^## |\Z)", document, re.M | re.S)
    rows = re.findall(r"^\| `?([0-9A-Z]+)`? \|", part[1], re.M) if part else []
    return rows[-1] if rows else "nothing"


def main() -> int:
    header = (ROOT / NAME).read_text()
    document = (ROOT / "docs/versions.md").read_text()
    wrong = []

    def same(where: str, value: str, expected: str) -> None:
        if value != expected:
            wrong.append(f"{where} has {value}, {NAME} has {expected}")

    project = find(r'define TENSORD_VERSION "(.*)"', header, NAME)
    version_py = (ROOT / "client/tensord/_version.py").read_text()
    same(
        "client/tensord/_version.py", find(r'^VERSION = "(.*)"', version_py, "_version.py"), project
    )
    changelog = (ROOT / "CHANGELOG.md").read_text()
    for where, pattern in DEPLOYED.items():
        for value in re.findall(pattern, (ROOT / where).read_text(), re.M) or ["nothing"]:
            same(where, value, project)
    same("CHANGELOG.md", find(r"^## \[?(\d+\.\d+\.\d+)", changelog, "CHANGELOG.md"), project)

    texts = {path: path.read_text() for path in tracked("client/*.py")}
    for name, constant in SPOKEN.items():
        expected = find(rf"{constant} = (\d+)", header, NAME)
        said = [
            (path, value)
            for path, text in texts.items()
            for value in re.findall(rf"^{name} = (\d+)", text, re.M)
        ]
        if len(said) != 1:
            wrong.append(f"the client says {name} = N in {len(said)} places, one is needed")
        for path, value in said:
            same(f"{name} of {path.relative_to(ROOT)}", value, expected)

    for constant in re.findall(r"constexpr \S+ (k\w+) =", header):
        value = find(rf'{constant} = "?([0-9A-Z]+)', header, NAME)
        same(
            f"the history of {constant} in docs/versions.md",
            history(f"`{constant}`", document),
            value,
        )
    for line in wrong:
        print(line)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
