# SPDX-License-Identifier: Apache-2.0
"""Stances, resets, limits, errors, threads, forks, and programs that change while they run: in a
process that captures, and in one that is served."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warm_python
from frame_processes import run_cases
from frame_runner import case_names
from real_daemon import RealDaemon

HERE = Path(__file__).resolve().parent
FILES = [HERE / "served_features.py", HERE / "changed_within.py"]
CASES = sorted(name for file in FILES for name in case_names(file))


@pytest.fixture(scope="module")
def runs(native_guards: None, frames_daemon: RealDaemon) -> dict[str, Any]:
    """What processes saw: the first, the next, one that names the backend, and one that has no
    native extension."""
    ways = {"first": "own", "next": "own", "by name": "name", "in Python": "own"}
    return {
        when: run_cases(
            frames_daemon, FILES, how, imported=warm_python.CAPTURE,
            bridge="python" if when == "in Python" else "native",
        )["cases"]
        for when, how in ways.items()
    }  # fmt: skip


@pytest.mark.parametrize("when", ["first", "next", "by name", "in Python"])
@pytest.mark.parametrize("case", CASES)
def test_case(runs: dict[str, Any], when: str, case: str) -> None:
    said = runs[when][case]
    assert said["error"] == ""
    assert said["fallback_reasons"] == {} and said["calls_in_eager"] == 0
    if when in ("next", "in Python"):
        assert said["frames_served"] >= 1
