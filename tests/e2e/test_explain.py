# SPDX-License-Identifier: Apache-2.0
"""tensord.explain; why recorded frames do not serve: the guard and what was there; and why programs
were compiled: the nearest and what differs."""

from __future__ import annotations

import base64
import functools
import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import tensord
import torch
import warm_python
from frame_processes import output, python
from real_daemon import RealDaemon, binary
from tensord.frames.store import store

pytestmark = pytest.mark.usefixtures("native_guards")


@pytest.fixture
def frames(tensord_daemon: RealDaemon, monkeypatch: pytest.MonkeyPatch) -> RealDaemon:
    monkeypatch.setenv("TENSORD_FRAMES", "1")
    store().__init__()  # type: ignore[misc]  # forgets what other tests fetched
    return tensord_daemon


def branches(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() * 2
    print("between")
    z = y.cos() + 1
    if z.sum() > 0:
        z = z * 3
    return z


def test_graphs_and_breaks_have_their_places_and_advice(frames: RealDaemon) -> None:
    said = tensord.explain(branches, torch.ones(4))
    assert [graph.operators for graph in said.graphs] == [2, 4, 1]
    assert [graph.programs for graph in said.graphs] == [1, 1, 1]
    printed, branch = said.breaks
    assert "print" in printed.explanation and printed.code == 'print("between")'
    assert f"{Path(__file__).name}:" in printed.place and printed.place.endswith(" in branches")
    assert any("print" in advice for advice in printed.advice)
    assert branch.reason == "a branch on a tensor's value" and branch.code == "if z.sum() > 0:"
    assert branch.advice
    names = [function.name.rpartition(".")[2] for function in said.functions]
    assert names[0] == "branches" and len(names) == 3
    text = str(said)
    assert "3 graphs" in text and "2 breaks" in text and "try: " in text
    shown = said._repr_html_()  # for notebooks: the same words, of which the code's are escaped
    assert shown.count("<details") == shown.count("</details>") == 3 + len(said.functions)
    for words in (printed.code, branch.reason, *names):
        assert html.escape(words) in shown


def scaled(x: torch.Tensor, by: int) -> torch.Tensor:
    return (x * by).relu()


def test_guards_and_what_is_served(frames: RealDaemon) -> None:
    x = torch.ones(3)
    (before,) = tensord.explain(scaled, x, 5).functions
    assert before.unrecorded == "" and before.stored is False
    assert any("by" in guard and "5" in guard for guard in before.guards)
    tensord.compile(scaled)(x, 5)
    (after,) = tensord.explain(scaled, x, 5).functions
    assert after.stored is True and after.misses == ()
    (other,) = tensord.explain(scaled, x, 6).functions
    assert other.stored is False
    (miss,) = other.misses
    assert "by" in miss and "5" in miss and miss.endswith("by is 6")


def test_explaining_records_and_serves_nothing(frames: RealDaemon) -> None:
    tensord.reset_stats()
    tensord.explain(lambda x: x.exp() - 1, torch.ones(3))
    stats = tensord.stats()
    assert stats["frames_recorded"] == stats["frames_served"] == stats["frames_captured"] == 0


def test_call_backs_are_named_and_keep_a_function_from_being_served(
    frames: RealDaemon,
) -> None:
    def chosen(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return torch.cond(y.sum() > 0, torch.cos, torch.exp, (y,)) + 1

    said = tensord.explain(chosen, torch.ones(3))
    ((reason,),) = [graph.call_backs for graph in said.graphs]
    assert "cond" in reason
    (function,) = said.functions
    assert function.unrecorded == "a graph has nodes that run in Python"
    assert "each process captures it: a graph has nodes" in str(said)


def test_options_of_the_compile(frames: RealDaemon) -> None:
    with pytest.raises(torch._dynamo.exc.Unsupported):
        tensord.explain(branches, torch.ones(4), compile_options={"fullgraph": True})


# -- misses -----------------------------------------------------------------------------------

_PROGRAM = """
import sys
import tensord
import torch

def scaled(x, by):
    return (x * by).relu()

tensord.compile(scaled)(torch.ones(int(sys.argv[1])), int(sys.argv[2]))
"""


def _explained(daemon: RealDaemon, *arguments: str) -> Any:
    done = subprocess.run(
        [str(binary("tensorctl")), "--address", daemon.address, *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout) if "--json" in arguments else done.stdout


def test_the_guard_that_failed_and_what_was_there(
    frames_daemon: RealDaemon, tmp_path: Path
) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    for size, by in (("3", "5"), ("3", "6"), ("4", "5")):
        output(python(frames_daemon, str(program), size, by, imported=warm_python.CAPTURE))
    misses = _explained(frames_daemon, "--json", "explain-miss")["misses"]
    found = {miss["found"] for miss in misses}
    assert "by is 6" in found
    assert "x is a Tensor of float32 [4], strides [1], on cpu" in found
    assert {miss["code"]["qualified_name"] for miss in misses} == {"scaled"}
    (of_by,) = [miss for miss in misses if miss["found"] == "by is 6"]
    assert "by" in of_by["guard"] and "5" in of_by["guard"]
    text = _explained(frames_daemon, "explain-miss")
    assert "scaled" in text and "by is 6" in text

    assert _explained(frames_daemon, "--json", "explain-miss", "-n", "1")["misses"].__len__() == 1
    assert "no frame" in _explained(frames_daemon, "explain-miss", "ab" * 16)

    output(python(frames_daemon, str(program), "9", "7", TENSORD_JOB="another"))
    of_job = _explained(frames_daemon, "--json", "explain-miss", "--job", "another")["misses"]
    assert of_job and {miss["caller"]["job"] for miss in of_job} == {"another"}
    assert "no frame" in _explained(frames_daemon, "explain-miss", "--job", "none")


_SIZES = """
import sys
import torch

compiled = torch.compile(lambda x: (x * 2).relu().sum(1), backend="tensord", dynamic=False)
compiled(torch.ones(int(sys.argv[1]), 4))
"""


def test_the_nearest_program_and_the_fields_that_differ(
    frames_daemon: RealDaemon, tmp_path: Path
) -> None:
    program = tmp_path / "sizes.py"
    program.write_text(_SIZES)
    run = functools.partial(python, frames_daemon, str(program), imported=warm_python.CAPTURE)
    before = _explained(frames_daemon, "--json", "stats")["misses"]
    output(run("3"))
    output(run("5", TENSORD_JOB="sized"))
    (miss,) = _explained(frames_daemon, "--json", "explain-miss", "--job", "sized")["programs"]
    assert miss["reason"] == "inputs" and miss["label"] == "inference"
    (differs,) = miss["differences"]
    assert differs == {
        "field": "inputs[0]",
        "wanted": "float32[5, 4] on cpu, strides [4, 1]",
        "stored": "float32[3, 4] on cpu, strides [4, 1]",
    }
    key = base64.b64decode(miss["key"]).hex()
    nearest = base64.b64decode(miss["nearest"]).hex()
    shown = _explained(frames_daemon, "explain-miss", key)
    assert f"{key[:12]}  program 'inference' of {miss['nodes']} operators: other inputs" in shown
    assert f"the nearest is {nearest[:12]}, with 100 % of its operators" in shown
    assert f"wanted  {differs['wanted']}" in shown and f"stored  {differs['stored']}" in shown
    assert re.search(rf"event=compile .*key={key[:12]} .*miss=inputs ", frames_daemon.log_text())

    counted = {one["reason"]: int(one["count"]) for one in before}
    now = _explained(frames_daemon, "--json", "stats")["misses"]
    grown = {one["reason"]: int(one["count"]) - counted[one["reason"]] for one in now}
    assert grown["inputs"] >= 1 and grown["options"] == 0
    assert sum(grown.values()) == 2
    assert re.search(r"^inputs +\d", _explained(frames_daemon, "stats"), re.M)
    assert "no program" in _explained(frames_daemon, "explain-miss", "ab" * 16)
