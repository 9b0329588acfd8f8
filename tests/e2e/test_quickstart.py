# SPDX-License-Identifier: Apache-2.0
"""What the quick start accepts and refuses, without its jobs (deploy/quickstart.py)."""

from __future__ import annotations

import copy
import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def quickstart() -> ModuleType:
    spec = importlib.util.spec_from_file_location("quickstart", ROOT / "deploy" / "quickstart.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["quickstart"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


class Job:
    """A finished job, as deploy/lib/jobs.py gives it."""

    def __init__(self, losses: list[float], **stats: Any) -> None:
        counters = {"graphs": 2, "compiled": 0, "kernels_compiled": 0, "fallbacks": 0}
        counters.update({"calls_in_eager": 0, "fallback_reasons": {}}, **stats)
        self.end = {"losses": losses, "steps_per_s": 1.0, "tensord": counters}


CURVE = [5.5 - 0.1 * i for i in range(30)]


def test_accepts_a_curve_within_the_tolerance(quickstart: ModuleType) -> None:
    near = [loss + 0.9 * quickstart.TOLERANCE for loss in CURVE]
    assert not quickstart.problems_of(quickstart.Row("a", [Job(near)], Job(CURVE)))


@pytest.mark.parametrize("at", [0, 15, 29])
def test_refuses_a_curve_that_leaves_eagers(quickstart: ModuleType, at: int) -> None:
    far = copy.copy(CURVE)
    far[at] += 1.1 * quickstart.TOLERANCE * quickstart.SMOOTH
    found = quickstart.problems_of(quickstart.Row("a", [Job(CURVE), Job(far)], Job(CURVE)))
    assert len(found) == 1 and "loss curve" in found[0]


def test_refuses_a_loss_that_is_not_a_number(quickstart: ModuleType) -> None:
    broken = [*CURVE[:-1], float("nan")]
    assert quickstart.problems_of(quickstart.Row("a", [Job(broken)], Job(CURVE)))


@pytest.mark.parametrize(
    "stats", [{"fallbacks": 1, "fallback_reasons": {"timeout": 1}}, {"calls_in_eager": 1}]
)
def test_refuses_a_fallback(quickstart: ModuleType, stats: dict[str, Any]) -> None:
    found = quickstart.problems_of(quickstart.Row("a", [Job(CURVE, **stats)], Job(CURVE)))
    assert len(found) == 1 and "fell back" in found[0]


@pytest.mark.parametrize(
    ("again", "shared", "problems"),
    [
        ([0], [2, 0, 0, 0], 0),
        ([0], [1, 1, 0, 0], 0),
        ([1], [2, 0, 0, 0], 1),  # the second run compiled
        ([0], [2, 1, 0, 0], 1),  # a graph was compiled twice
        ([0], [1, 0, 0, 0], 1),  # with an empty store, one was not compiled at all
    ],
)
def test_counts_compiles(
    quickstart: ModuleType, again: list[int], shared: list[int], problems: int
) -> None:
    rows = [
        quickstart.Row(name, [Job(CURVE, compiled=n) for n in counts])
        for name, counts in (("again", again), ("shared", shared))
    ]
    assert len(quickstart.problems_of_sharing(*rows, fresh_store=True)) == problems


def test_refuses_a_kernel_that_a_served_job_made(quickstart: ModuleType) -> None:
    again = quickstart.Row("again", [Job(CURVE, kernels_compiled=1)])
    shared = quickstart.Row("shared", [Job(CURVE, compiled=2)])
    assert quickstart.problems_of_sharing(again, shared, fresh_store=True)


@pytest.mark.parametrize("gpu", [False, True])
def test_uses_the_gpu_where_there_is_one(
    quickstart: ModuleType, monkeypatch: pytest.MonkeyPatch, gpu: bool
) -> None:
    monkeypatch.setattr(quickstart, "has_gpu", lambda: gpu)
    monkeypatch.setattr(sys, "argv", ["quickstart"])
    options = quickstart.parse()
    assert options.device == ("cuda" if gpu else "cpu")
    words = options.size.arguments(options.width)
    assert words[words.index("--width") + 1] == ("768" if gpu else "256")
    assert words[words.index("--heads") + 1] == ("12" if gpu else "4")
    monkeypatch.setattr(sys, "argv", ["quickstart", "--device", "cpu", "--width", "64"])
    assert quickstart.parse().width == 64


def test_example_trains_in_eager() -> None:
    command = [sys.executable, str(ROOT / "examples" / "train_gpt.py"), "--events"]
    command += ["--backend", "eager", "--steps", "2", "--width", "32", "--threads", "1"]
    command += ["--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["event"] for event in events] == ["start", "step", "step", "end"]
    assert len(events[-1]["losses"]) == 2 and 5.0 < events[1]["loss"] < 6.0
