# SPDX-License-Identifier: Apache-2.0
"""Frames of processes without the native extension: recorded and served, and said by whom."""

from __future__ import annotations

import json
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

import pytest
import tensord
import warm_python
from frame_processes import output, python, run_cases
from frame_runner import case_names
from real_daemon import RealDaemon, binary
from tensord import _native
from tensord._native import build
from tensord.wire.caller import caller

HERE = Path(__file__).resolve().parent
FILES = [HERE / f"served_{what}.py" for what in ("functions", "effects", "views", "modules")]
# Of each kind of graph, guard and bytecode one.
CASES = [
    "dictionary", "function_mode", "in_place", "kinds_of_arguments", "graph_break", "closure",
    "sizes_that_change", "views_of_a_result", "inference", "training", "two_losses", "autocast",
    "tied_weights", "buffers_changed",
]  # fmt: skip
WITHOUT_COMPILER = "python, because there is no C++ compiler"


@pytest.fixture(scope="module")
def first(native_guards: None, frames_daemon: RealDaemon) -> Any:
    return run_cases(
        frames_daemon, FILES, only=CASES, imported=warm_python.CAPTURE, bridge="python"
    )["cases"]  # fmt: skip


@pytest.fixture(scope="module")
def next_ones(first: Any, frames_daemon: RealDaemon) -> dict[str, Any]:
    return {
        bridge: run_cases(frames_daemon, FILES, only=CASES, bridge=bridge)["cases"]
        for bridge in ("native", "python")
    }


def test_there_are_such_cases() -> None:
    assert {*CASES} <= {name for file in FILES for name in case_names(file)}


@pytest.mark.parametrize("case", CASES)
def test_it_records(first: Any, case: str) -> None:
    assert first[case]["error"] == "" and first[case]["frames_unrecorded"] == {}
    assert first[case]["frames_recorded"] >= 1


@pytest.mark.parametrize("bridge", ["native", "python"])
@pytest.mark.parametrize("case", CASES)
def test_what_it_recorded_is_served(next_ones: dict[str, Any], case: str, bridge: str) -> None:
    said = next_ones[bridge][case]
    assert said["error"] == "" and said["fallback_reasons"] == {}
    assert said["frames_served"] >= 1 and said["frames_captured"] == 0, said
    assert said["imported"] == []


# -- what is said of it ---------------------------------------------------------------------------


@pytest.fixture
def nothing_built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A host on which the extension is not there, as if no process had loaded it."""
    monkeypatch.setenv("TENSORD_NATIVE_CACHE", str(tmp_path))
    monkeypatch.setattr(build, "PREBUILT", tmp_path)
    monkeypatch.setattr(_native, "_module", None)
    monkeypatch.setattr(_native, "_obstacle", build.obstacle)


@pytest.mark.parametrize(("without", "said"), [
    ("compiler", WITHOUT_COMPILER),
    ("headers", "python, because Python's headers are not installed"),
    ("nothing", "python, because the native extension is not built yet"),
])  # fmt: skip
def test_a_process_says_what_it_lacks(
    nothing_built: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, without: str, said: str
) -> None:
    monkeypatch.setattr(build, "compiler", lambda: None if without == "compiler" else "c++")
    paths = {**sysconfig.get_paths(), "include": str(tmp_path)}
    if without != "headers":
        (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_paths", lambda *_, **__: paths)
    assert _native.bridge() == said
    assert tensord.stats()["bridge"] == said and caller().bridge == said


def test_a_build_that_failed_is_said(
    nothing_built: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"{build.key()}.failed").touch()
    assert "could not be built: python -m tensord._native.build" in _native.bridge()
    monkeypatch.setenv("TENSORD_NATIVE", "0")
    assert _native.bridge() == "python, because TENSORD_NATIVE is 0"


def test_a_process_that_has_it_says_so(native_guards: None) -> None:
    assert _native.bridge() == "native"


ASKS = """
import tensord, torch
tensord.compile(lambda x: x + 1)(torch.ones(3))
print(tensord.stats()["bridge"])
"""


def test_the_daemon_says_what_its_jobs_have(native_guards: None, frames_daemon: RealDaemon) -> None:
    said = [
        output(python(frames_daemon, "-c", ASKS, TENSORD_JOB="bridges", **more)).strip()
        for more in ({}, {"TENSORD_NATIVE": "0"})
    ]
    assert said == ["native", "python, because TENSORD_NATIVE is 0"]

    def tensorctl(*words: str) -> str:
        command = [binary("tensorctl"), "--address", frames_daemon.address, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    processes = json.loads(tensorctl("--json", "job", "bridges"))["processes"]
    assert sorted(one["caller"]["bridge"] for one in processes) == said
    status = tensorctl("status")
    assert all(one in status for one in said)
    assert all(one in tensorctl("job", "bridges") for one in said)
