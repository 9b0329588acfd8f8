# SPDX-License-Identifier: Apache-2.0
"""A next process runs what another has captured, without torch's Dynamo and AOTAutograd."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import warm_python
from frame_processes import run_cases
from frame_runner import case_names
from real_daemon import RealDaemon

HERE = Path(__file__).resolve().parent
FILES = [HERE / f"served_{what}.py" for what in ("functions", "effects", "views", "modules")]

# Right, but captured by every process: what their frames would need, no frame can say.
CAPTURED = {
    "views_that_may_be_copies": "may be a copy of what it is a view of",
    "views_of_symbolic_sizes": "a view of symbolic sizes",
    "drawn_seed": "keeps what torch.seed() drew",
    "whole_graph": "the capture raised Unsupported",  # as it has to
}
# Of torch's own classes, which torch.compile wraps in a function of Dynamo's; what asks Dynamo
# itself for something; and torch's optimizers and FlexAttention, which import it.
WITH_DYNAMO = {"module_of_torch", "size_marked_dynamic", "optimizer", "flex_attention"}
CASES = sorted(name for file in FILES for name in case_names(file))


@pytest.fixture(scope="module")
def first(native_guards: None, frames_daemon: RealDaemon) -> Any:
    return run_cases(frames_daemon, FILES, imported=warm_python.CAPTURE)["cases"]


@pytest.fixture(scope="module")
def second(first: Any, frames_daemon: RealDaemon) -> Any:
    served = run_cases(frames_daemon, FILES, without=[*CAPTURED, *WITH_DYNAMO])
    rest = run_cases(
        frames_daemon, FILES, only=[*CAPTURED, *WITH_DYNAMO], imported=warm_python.CAPTURE
    )
    return {**served["cases"], **rest["cases"]}


@pytest.fixture(scope="module")
def in_python(first: Any, frames_daemon: RealDaemon) -> Any:
    """A process without the native extension."""
    return run_cases(
        frames_daemon, FILES, without=[*CAPTURED, *WITH_DYNAMO], bridge="python"
    )["cases"]  # fmt: skip


@pytest.fixture(scope="module")
def by_name(first: Any, frames_daemon: RealDaemon) -> Any:
    return run_cases(frames_daemon, FILES, "name", imported=warm_python.CAPTURE)["cases"]


def _served(said: Any, case: str) -> None:
    assert said["error"] == ""
    assert said["fallback_reasons"] == {} and said["calls_in_eager"] == 0
    assert said["frames_served"] >= 1 or case in CAPTURED
    if case in CAPTURED:
        assert any(CAPTURED[case] in reason for reason in said["frames_unrecorded"]), said
    else:
        assert said["frames_captured"] == 0, said
    if case not in CAPTURED and case not in WITH_DYNAMO:
        assert said["imported"] == []


@pytest.mark.parametrize("case", CASES)
def test_first_process_is_right(first: Any, case: str) -> None:
    assert first[case]["error"] == ""
    assert first[case]["frames_captured"] + first[case]["frames_served"] >= 1
    assert case in CAPTURED or first[case]["frames_unrecorded"] == {}


@pytest.mark.parametrize("case", CASES)
def test_next_process_captures_nothing(second: Any, case: str) -> None:
    _served(second[case], case)


@pytest.mark.parametrize("case", sorted({*CASES} - CAPTURED.keys() - WITH_DYNAMO))
def test_next_process_needs_no_native_extension(in_python: Any, case: str) -> None:
    _served(in_python[case], case)


@pytest.mark.parametrize("case", CASES)
def test_backend_by_name_is_served_too(by_name: Any, case: str) -> None:
    said = by_name[case]
    _served({**said, "imported": []}, case)  # torch.compile itself imports Dynamo
