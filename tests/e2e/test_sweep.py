# SPDX-License-Identifier: Apache-2.0
"""The sweep over PyTorch's operator database: that it passes what is right and sees what is not."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

SWEEP = Path(__file__).resolve().parents[1] / "sweep"
sys.path.append(str(SWEEP))

import document  # noqa: E402
import judge  # noqa: E402
from case_outcome import Outcome, cause  # noqa: E402


def sweep(results: Path, *arguments: str) -> tuple[int, str, dict[str, Any]]:
    """The exit code, what was printed, and the results by case."""
    command = [str(SWEEP.parent / "sweep.sh"), "--jobs", "1", "--results", str(results)]
    run = subprocess.run(
        [*command, *arguments], capture_output=True, text=True, check=False, timeout=500
    )
    lines = [json.loads(line) for line in results.read_text().splitlines()]
    return run.returncode, run.stdout + run.stderr, {line["case"]: line for line in lines}


def test_passes_fails_and_goes_on(tmp_path: Path) -> None:
    results = tmp_path / "results.jsonl"
    chosen = ("--ops", "^(exp|mm|cumsum)$", "--dtypes", "float32", "--variants", "samples")
    code, said, found = sweep(results, *chosen, "--spoil", "^exp$", "--grad", "--no-forward")
    assert code == 1, said
    wrong = {key for key, line in found.items() if line["counts"].get("wrong")}
    assert wrong == {"exp|float32|samples|gradient|static|cpu"}, said
    assert "too far off" in said and "2 passed, 1 failed" in said
    # What is there is not run again, unless it failed and that is asked for.
    code, said, _ = sweep(results, *chosen, "--again", "--no-forward")
    assert (code, "3 cases, 1 to run" in said) == (0, True), said
    code, said, found = sweep(results, *chosen, "--no-grad", "--ops", "^(mm|cumsum)$")
    assert code == 0, said
    assert found["mm|float32|samples|forward|static|cpu"]["how"]["kind"] == "library"
    assert found["mm|float32|samples|forward|static|cpu"]["how"]["calls"] == ["aten::mm.out"]


def test_calls_that_eager_rejects(tmp_path: Path) -> None:
    """No number is a matrix; and of max_unpool2d torch's tracing rejects layouts in other words."""
    results = tmp_path / "results.jsonl"
    code, said, found = sweep(results, "--ops", "^mm$", "--dtypes", "float32",
                              "--variants", "scalar", "--no-grad")  # fmt: skip
    assert code == 0, said
    assert set(found["mm|float32|scalar|forward|static|cpu"]["counts"]) == {"right"}
    code, said, found = sweep(results, "--ops", r"^nn\.functional\.max_unpool2d\.grad$", "--dtypes",
                              "float32", "--variants", "transposed", "--no-forward",
                              "--sample", "9")  # fmt: skip
    assert code == 0, said
    (name,) = set(found) - {"mm|float32|scalar|forward|static|cpu"}
    assert found[name]["counts"] == {"right": 1}


def test_a_process_that_dies_costs_its_case(tmp_path: Path) -> None:
    import pool

    died: list[dict[str, Any]] = []
    left = pool.run(
        ["no such entry|float32|samples|forward|static|cpu"], [], jobs=1, end=float("inf"),
        silence=60, done=died.append,
    )  # fmt: skip
    assert left == 0
    assert Counter(line["problems"][0]["category"] for line in died) == {"crash": 1}
    assert "KeyError" in died[0]["problems"][0]["message"]


# At samples 1 and 2 of each case eager loses the device; the compiled function does at 1 alone.
_LOSES_DEVICE = f"""
import sys
sys.path += {[str(SWEEP), str(SWEEP.parent / "tools")]!r}
from case_outcome import Outcome
from worker_pool import serve
lost = False
def handle(task, note):
    global lost
    assert not lost, "this process has no device"
    outcome = Outcome(task["case"])
    lost = "asserts" in task
    if lost:
        alike = task["asserts"] == 1
        outcome.add("right" if alike else "silent", task["asserts"], "" if alike else "nothing")
    else:
        for number in range(4):
            if number in (1, 2) and number not in task["without"]:
                lost = True
                return {{"asserts": number, "lost": True}}
            if number not in task["without"]:
                outcome.add("right", number)
    return {{"outcome": outcome.line(), "lost": lost}}
serve(handle)
"""


def test_a_sample_that_costs_the_device_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pool

    program = tmp_path / "worker.py"
    program.write_text(_LOSES_DEVICE)
    monkeypatch.setattr(pool, "PROGRAM", program)
    found: list[dict[str, Any]] = []
    pool.run(["a", "b"], [], jobs=1, end=float("inf"), silence=60, done=found.append)
    assert [line["case"] for line in found] == ["a", "b"]
    for line in found:
        assert line["counts"] == {"right": 3, "silent": 1}, line
        assert [problem["sample"] for problem in line["problems"]] == [2]


def _samples(*_: Any, **__: Any) -> Iterator[SimpleNamespace]:
    for first in (1.0, -1.0, 2.0):
        yield SimpleNamespace(
            input=torch.tensor([first]), args=(), kwargs={}, broadcasts_input=False,
            output_process_fn_grad=lambda value: value,
        )  # fmt: skip


_ASSERTION = RuntimeError("CUDA error: device-side assert triggered")


@pytest.mark.parametrize(
    ("compiled", "category"),
    [
        (_ASSERTION, "right"),
        (IndexError("index 7 is out of range"), "right"),
        (ValueError("no"), "refused"),
        (None, "silent"),
    ],
)
def test_the_compiled_function_loses_the_device_where_eager_does(
    monkeypatch: pytest.MonkeyPatch, compiled: Exception | None, category: str
) -> None:
    import execute
    from entries import Case, Entry

    lost: list[bool] = []

    def function(x: torch.Tensor) -> torch.Tensor:
        if x[0] < 0:
            lost.append(True)
            raise _ASSERTION
        return x + 1

    def call(*_: Any, **__: Any) -> list[Any]:
        if compiled is not None:
            raise compiled
        return []

    monkeypatch.setattr(execute, "device_is_lost", lambda _: bool(lost))
    entry = Entry(
        "f", "operators", SimpleNamespace(sample_inputs=_samples, get_op=lambda: function)
    )
    case = Case("f", "float32", "samples", False, False, "cpu")

    with pytest.raises(execute.DeviceLostError) as found:
        execute.Runner(entry, case, lambda _: None).run()
    assert found.value.sample == 1
    lost.clear()
    monkeypatch.setattr(execute.Runner, "_compiled", call)
    outcome = execute.Runner(entry, case, lambda _: None).fails_alike(1)
    assert outcome.counts == {category: 1}
    assert [problem.sample for problem in outcome.problems] == ([1] if category != "right" else [])

    def loses(*_: Any, **__: Any) -> list[Any]:
        lost.append(True)
        raise _ASSERTION

    lost.clear()
    monkeypatch.setattr(execute.Runner, "_compiled", loses)
    outcome = execute.Runner(entry, case, lambda _: None).run(without=[1])
    assert outcome.counts == {"crash": 1}, "where eager does not"


def no_reference() -> None:
    raise RuntimeError("none")


@pytest.mark.parametrize(
    ("ours", "word"),
    [
        (torch.tensor([1.0, 2.1, 3.0]), "too far off"),
        (torch.tensor([1.0, float("nan"), 3.0]), "too far off"),
        (torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64), "dtype"),
        (torch.tensor([1.0, 2.0]), "shape"),
        ((torch.tensor([1.0, 2.0, 3.0]), 1), "2 results"),
        (None, "NoneType"),
    ],
)
def test_a_difference_is_seen(ours: Any, word: str) -> None:
    eager = torch.tensor([1.0, 2.0, 3.0])
    assert judge.difference(eager.clone(), eager, no_reference, pointwise=True) == ""
    assert word in judge.difference(ours, eager, no_reference, pointwise=True)


def test_strides_are_compared_where_they_mean_something() -> None:
    eager = torch.zeros(3, 1, 4)
    same = torch.zeros(12).as_strided((3, 1, 4), (4, 7, 1))
    other = torch.zeros(4, 1, 3).permute(2, 1, 0)
    assert judge.difference(same, eager, no_reference, pointwise=True) == ""
    assert "strides" in judge.difference(other, eager, no_reference, pointwise=True)
    assert judge.difference(other, eager, no_reference, pointwise=True, strides=False) == ""


def test_float64_decides_where_eager_is_far_off() -> None:
    exact = torch.tensor([1.0], dtype=torch.float64)
    eager, ours = torch.tensor([1.001]), torch.tensor([0.9990])
    assert judge.difference(ours, eager, lambda: exact, pointwise=True) == ""
    worse = torch.tensor([1.003])
    assert "too far off" in judge.difference(worse, eager, lambda: exact, pointwise=True)


def test_overflow_on_the_way_to_a_number() -> None:
    exact = torch.tensor([-3.0e38], dtype=torch.float64)
    eager, ours = torch.tensor([float("nan")]), torch.tensor([float("inf")])
    assert judge.difference(ours, eager, lambda: exact, pointwise=False) == ""
    close, apart = torch.tensor([-3.000001e38]), torch.tensor([-3.1e38])
    assert judge.difference(close, eager, lambda: exact, pointwise=False) == ""
    assert "too far off" in judge.difference(apart, eager, lambda: exact, pointwise=False)
    infinite = torch.tensor([float("inf")], dtype=torch.float64)
    assert "too far off" in judge.difference(
        torch.tensor([1.0]), torch.tensor([float("inf")]), lambda: infinite, pointwise=False
    )
    assert "too far off" in judge.difference(-ours, ours, lambda: infinite, pointwise=False)


def test_causes_are_the_same_but_for_numbers() -> None:
    one = "wrong: at [3, 4] 0.25, eager -1.5e-3, node 'add_1' (aten::add)"
    two = "wrong: at [0, 11] 7.0, eager inf, node 'add_27' (aten::add)"
    assert cause(one) == cause(two)
    assert cause(one) != cause(one.replace("aten::add", "aten::mul"))


def test_a_document_keeps_what_the_results_say_nothing_of(tmp_path: Path) -> None:
    path = tmp_path / "operators.md"

    def sin_on(device: str, kind: str) -> dict[str, Outcome]:
        key = f"sin|float32|samples|forward|static|{device}"
        how = {"kind": kind, "launches": 1, "calls": []}
        return {key: Outcome(key, Counter(right=1), how=how)}

    document.write(sin_on("cuda", "library"), "2026-11-23", path)
    document.write(sin_on("cpu", "kernel"), "2026-11-29", path)
    cpu, cuda = path.read_text().split("\n## ")[1:]
    assert cpu.startswith("CPU\n\nSeen 2026-11-29.") and "| sin | kernel |  |" in cpu
    assert cuda.startswith("CUDA\n\nSeen 2026-11-23.") and "| sin | library |  |" in cuda
    document.write(sin_on("cuda", "kernels"), "2026-11-30", path)
    assert path.read_text().count("| sin |") == 2 and "| sin | kernels |  |" in path.read_text()
    with pytest.raises(ValueError, match="no forward case"):
        document.write({}, "2026-11-30", path)
