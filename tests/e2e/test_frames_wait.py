# SPDX-License-Identifier: Apache-2.0
"""options={"wait": "eager"} of functions that recorded frames serve: calls run in Python until the
frame's programs have come."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_python
from frame_processes import output, python
from real_daemon import RealDaemon
from slow_compiler import Gate

pytestmark = pytest.mark.usefixtures("native_guards")

_JOB = """
import functools, json, pathlib, sys, time
import torch
import tensord

how, gate, *more = sys.argv[1:]
fullgraph = "fullgraph" in more

def function(x, y):
    return torch.tanh(x @ y).sum(-1) * 2

if how == "torch":
    compile = functools.partial(torch.compile, backend="tensord")
else:
    compile = tensord.compile
compiled = compile(function, fullgraph=fullgraph, options={"wait": "eager"})
training = "training" in more
torch.manual_seed(0)
x, y = torch.randn(7, 5), torch.randn(5, 6, requires_grad=training)

def is_right():
    results = []
    for f in (compiled, function):
        result = f(x, y)
        if training:
            result.square().sum().backward()
            results.append(y.grad)
            y.grad = None
        results.append(result)
    half = len(results) // 2
    for one, other in zip(results[:half], results[half:]):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)

if "record" in more:
    is_right()
    while tensord.stats()["compiled"] < 1 + training:
        is_right()
    sys.exit()
if fullgraph:
    pathlib.Path(gate).touch()
for _ in range(3):
    is_right()
before = tensord.stats()
pathlib.Path(gate).touch()
deadline = time.monotonic() + 300
while not tensord.stats()["frames_served"]:
    is_right()
    assert time.monotonic() < deadline, "the frame never served"
switched = tensord.stats()["calls_before_programs"]
for _ in range(3):
    is_right()
assert tensord.stats()["calls_before_programs"] == switched
print(json.dumps([before, tensord.stats()]))
"""


@pytest.fixture
def run(tmp_path: Path, start: Callable[..., RealDaemon]) -> Callable[..., Any]:
    """Records the frame of a process with such arguments, forgets its programs, and says what
    another process had counted while the compiler waited, and at its end."""
    gate = Gate(tmp_path, start)

    def run(*arguments: str) -> tuple[dict[str, Any], dict[str, Any]]:
        how, *more = arguments
        job = ("-c", _JOB, how, str(gate.file), *more)
        told = {"TENSORD_FRAMES": "1", "TENSORD_STRICT": "1"}
        gate.open()
        output(python(gate.daemon, *job, "record", imported=warm_python.CAPTURE, **told))
        for folder in ("manifests", "kernels"):
            shutil.rmtree(gate.daemon.store / folder)
            (gate.daemon.store / folder).mkdir()
        gate.close()
        said = output(python(gate.daemon, *job, **told))
        before, after = json.loads(said.splitlines()[-1])
        assert before["frames_captured"] == after["frames_captured"] == 0
        assert after["frames_served"] == 1
        assert after["fallbacks"] == 0
        return before, after

    return run


@pytest.mark.parametrize("how", ["torch", "tensord"])
@pytest.mark.parametrize("training", [False, True])
def test_calls_run_in_python_until_the_programs_are_there(
    run: Callable[..., Any], how: str, training: bool
) -> None:
    before, after = run(how, *["training"] * training)
    assert before["calls_before_programs"] == 3
    assert before["frames_served"] == before["compiled"] == 0
    assert after["compiled"] == 1 + training


def test_a_whole_graph_is_waited_for_where_torch_wants_one(run: Callable[..., Any]) -> None:
    """torch raises where fullgraph is wanted and a call ran nothing that was compiled."""
    before, after = run("torch", "fullgraph")
    assert before["calls_before_programs"] == after["calls_before_programs"] == 0
    assert before["frames_served"] == before["compiled"] == 1
