# SPDX-License-Identifier: Apache-2.0
"""A frame never serves another program than was captured: changes between two processes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warm_python
from changed_objects import PROGRAMS as OBJECTS
from changed_programs import PROGRAMS as FUNCTIONS_AND_CLASSES
from frame_processes import run_cases
from real_daemon import RealDaemon

PROGRAMS = {**FUNCTIONS_AND_CLASSES, **OBJECTS}


@pytest.fixture(scope="module", params=["native", "python"])
def runs(
    request: pytest.FixtureRequest,
    native_guards: None,
    frames_daemon: RealDaemon,
    tmp_path_factory: pytest.TempPathFactory,
) -> list[Any]:
    """What three processes saw: of the programs as they were, changed, and as they were again; with
    the native extension and without. The second bridge records nothing that the first has."""
    folder = tmp_path_factory.mktemp("programs")
    said = []
    for changed in (False, True, False):
        files: list[Path] = []
        for name, program in PROGRAMS.items():
            files.append(folder / f"program_{name}.py")
            files[-1].write_text(program.version(changed))
        seen = run_cases(frames_daemon, files, imported=warm_python.CAPTURE, bridge=request.param)
        said.append(seen["cases"])
    return said


@pytest.mark.long
@pytest.mark.parametrize("name", PROGRAMS)
def test_changed_program(runs: list[Any], name: str) -> None:
    before, changed, after = (run[f"program_{name}"] for run in runs)
    assert before["error"] == "" and changed["error"] == "" and after["error"] == ""
    assert before["fallback_reasons"] == changed["fallback_reasons"] == {}
    if not PROGRAMS[name].same_numbers:
        assert before["eager"] != changed["eager"], "nothing has changed"
    assert before["eager"] == after["eager"]
    # What could be recorded is served again, and nothing else is captured.
    if not before["frames_unrecorded"]:
        assert after["frames_served"] >= 1 and after["frames_captured"] == 0, after
