# SPDX-License-Identifier: Apache-2.0
"""The parts of the documents that follow from the sources are what docs/generate.py writes."""

from __future__ import annotations

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_documents_are_as_the_sources_say() -> None:
    command = [sys.executable, str(ROOT / "docs/generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"run docs/generate.py:\n{done.stdout}{done.stderr}"
