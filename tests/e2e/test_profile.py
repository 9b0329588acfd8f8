# SPDX-License-Identifier: Apache-2.0
"""`tensord.profile` and `tensorctl profile`: where the time of compiled calls went."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensord
import torch
import warm_python
from compare import check
from frame_processes import output, python
from google.protobuf import json_format
from real_daemon import RealDaemon, binary
from tensord.bridge import run_times
from tensord.bridge.runtime import TensordRuntimeError
from tensord.cuda_graphs import graphed_program
from tensord.profiles import numbers, tell
from tensord.v1 import profile_pb2, requests_pb2
from tensord.wire import rpc
from tensord.wire.expressions import evaluate

Row = profile_pb2.ProfileRow
FLOAT = 4
HERE = Path(__file__).name

SERVED = """
import json, sys, torch, tensord
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 6))
compiled = tensord.compile(net)
def step(x):
    net.zero_grad()
    compiled(x).sum().backward()
profile = tensord.profile(step, torch.ones(8, 6), steps=3)
assert tensord.stats()["fallbacks"] == 0, tensord.stats()
steps = [row for row in profile.message.rows if row.kind != row.MEMORY]
print(json.dumps({"served": tensord.stats()["frames_served"],
                  "rows": sorted((row.name, row.runs) for row in steps),
                  "labels": sorted(program.label for program in profile.message.programs)}))
"""


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said once was not said yet."""
    monkeypatch.setattr(tell, "_said", set())


def tensorctl(daemon: RealDaemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [binary("tensorctl"), "--address", daemon.address, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def compiled(function: Callable[..., Any], **told: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="tensord", **told)


def steps(profile: Any, kind: int | None = None) -> list[Any]:
    return [row for row in profile.message.rows if kind in (None, row.kind)]


def planned(key: bytes) -> requests_pb2.ProgramDetail:
    return rpc.client().call("GetProgram", requests_pb2.GetProgramRequest(key_prefix=key))


def assert_adds_up(profile: Any) -> None:
    """No call took less than its parts."""
    message = profile.message
    for call, whole in enumerate(message.calls):
        within = sum(row.nanoseconds[call] for row in message.rows) + message.gaps[call]
        assert 0 < within <= whole
    by_name = dict(numbers.parts(message))
    assert [sum(times) for times in zip(*by_name.values(), strict=True)] == list(message.calls)


# -- what is measured -----------------------------------------------------------------------------


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(48, 96)
        self.down = torch.nn.Linear(96, 48)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = torch.nn.functional.gelu(self.up(x))
        return torch.softmax(self.down(wide) + x, -1)


def test_every_step_of_the_plan_once_a_call(here: RealDaemon) -> None:
    net = Net().eval()
    step = compiled(net)
    x = torch.randn(32, 48)
    with torch.no_grad():
        profile = tensord.profile(step, x, steps=4, warmup=1)
        check("result", step(x), net(x))
    message = profile.message
    assert message.function == "Net" and message.device.startswith("CPU, ")
    assert not message.on_gpu and message.copy_rate > 1e8
    assert len(message.calls) == 4 and not message.dropped_runs
    assert_adds_up(profile)
    (program,) = message.programs
    assert (program.label, program.runs) == ("inference", 4)
    detail = planned(program.key)
    launched = [f"kernel {s.launch.module}" for s in detail.artifact.steps if s.HasField("launch")]
    called = [s.call.op for s in detail.artifact.steps if s.HasField("call")]
    assert sorted(row.name for row in steps(profile, Row.KERNEL)) == sorted(launched)
    assert sorted(row.name for row in steps(profile, Row.LIBRARY_CALL)) == sorted(called)
    assert launched and called
    for row in (*steps(profile, Row.KERNEL), *steps(profile, Row.LIBRARY_CALL)):
        assert row.runs == 4 and all(row.nanoseconds), row
        assert row.operators and row.bytes_read and row.bytes_written
        assert message.lines[row.lines[0]].source.startswith(f"{HERE}:")
        assert detail.fusion.steps[row.step].HasField("kernel") == (row.kind == Row.KERNEL)
    assert any("_softmax" in row.operators for row in steps(profile, Row.KERNEL))
    texts = {line.text for line in message.lines}
    assert "return torch.softmax(self.down(wide) + x, -1)" in texts
    flops = {row.flops for row in steps(profile, Row.LIBRARY_CALL)}
    assert flops == {2 * 32 * 48 * 96}


def test_bytes_are_those_of_the_operands(here: RealDaemon) -> None:
    def function(x: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.tanh(x) + bias, -1)

    profile = tensord.profile(compiled(function), torch.randn(96, 80), torch.randn(80), warmup=1)
    (kernel,) = steps(profile, Row.KERNEL)
    assert kernel.bytes_read == (96 * 80 + 80) * FLOAT
    assert kernel.bytes_written == 96 * 80 * FLOAT
    assert kernel.flops == 0
    per_second = numbers.rate(kernel)
    seconds = sum(kernel.nanoseconds) / 1e9
    assert per_second == pytest.approx(5 * (2 * 96 * 80 + 80) * FLOAT / seconds)
    limit = numbers.limit(profile.message, kernel)
    assert limit == pytest.approx(per_second / profile.message.copy_rate)


def test_bytes_follow_the_sizes_of_the_calls(here: RealDaemon) -> None:
    step = compiled(lambda x: torch.tanh(x) * 2, dynamic=True)
    for rows in (16, 48, 112):
        profile = tensord.profile(step, torch.randn(rows, 24), steps=2, warmup=1)
        (kernel,) = steps(profile, Row.KERNEL)
        assert (kernel.bytes_read, kernel.bytes_written) == (rows * 24 * FLOAT,) * 2
    assert tensord.stats()["graphs"] == 1


def test_a_training_step_has_both_programs_and_the_same_gradients(here: RealDaemon) -> None:
    torch.manual_seed(3)
    net, x = Net(), torch.randn(32, 48)
    compiled_net = compiled(net)

    def step() -> None:
        net.zero_grad()
        compiled_net(x).square().sum().backward()

    step()
    wanted = [parameter.grad.clone() for parameter in net.parameters()]
    profile = tensord.profile(step, steps=3)
    for parameter, gradient in zip(net.parameters(), wanted, strict=True):
        assert torch.equal(parameter.grad, gradient)
    step()
    for parameter, gradient in zip(net.parameters(), wanted, strict=True):
        assert torch.equal(parameter.grad, gradient)
    assert_adds_up(profile)
    assert {p.label: p.runs for p in profile.message.programs} == {"forward": 3, "backward": 3}
    for number, program in enumerate(profile.message.programs):
        rows = [row for row in steps(profile) if row.program == number]
        launched = [s for s in planned(program.key).artifact.steps if s.HasField("launch")]
        assert len([row for row in rows if row.kind == Row.KERNEL]) == len(launched)
        lines = [profile.message.lines[line].source for row in rows for line in row.lines]
        assert lines and all(line.startswith(f"{HERE}:") for line in lines)


def test_what_no_program_did_is_outside(here: RealDaemon) -> None:
    first, second = compiled(torch.tanh), compiled(lambda x: torch.exp(x).sum(-1))

    def step(x: torch.Tensor) -> torch.Tensor:
        y = first(x)
        for _ in range(20):
            y = torch.sort(y).values  # of no program
        return second(second(y) + y)

    profile = tensord.profile(step, torch.randn(64, 64), steps=2, warmup=1)
    assert_adds_up(profile)
    assert sorted(program.runs for program in profile.message.programs) == [2, 4]
    outside = dict(numbers.parts(profile.message))[numbers.OUTSIDE]
    assert min(outside) > 0.3 * min(profile.message.calls)


def test_nothing_compiled_is_said(here: RealDaemon) -> None:
    profile = tensord.profile(torch.tanh, torch.randn(8), steps=1, warmup=0)
    assert "no compiled program ran" in str(profile)
    assert not profile.message.rows and len(profile.message.calls) == 1
    assert profile.message.copy_rate == 0  # of nothing


def test_a_step_of_some_calls_has_its_rate(here: RealDaemon) -> None:
    often, seldom = compiled(torch.tanh), compiled(lambda x: torch.exp(x) * 3)
    x, wide = torch.randn(64), torch.randn(256, 256)
    often(x), seldom(wide)
    with tensord.profiling("now and then") as profile:
        for call in range(5):
            often(x)
            if call == 3:
                seldom(wide)
            profile.step()
    kernels = steps(profile, Row.KERNEL)
    assert [row.runs for row in kernels] == [1, 5]  # the longer one is the first
    rare = kernels[0]
    assert numbers.median(rare.nanoseconds) == 0
    copied = numbers.limit(profile.message, rare)
    assert copied is not None and 0 < copied < 100


def test_programs_of_other_threads_are_parts(here: RealDaemon) -> None:
    step = compiled(lambda x: torch.tanh(x) * 7)
    x = torch.randn(50)
    step(x)

    def both() -> None:
        thread = threading.Thread(target=step, args=(x,))
        thread.start()
        step(x)
        thread.join()

    profile = tensord.profile(both, steps=3, warmup=1)
    assert [row.runs for row in steps(profile, Row.KERNEL)] == [6]


def test_nothing_is_timed_while_the_daemon_is_asked(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    call = rpc.Client.call

    def noticed(self: rpc.Client, method: str, *told: Any) -> Any:
        run_times.begin()  # an error while this process is profiled
        run_times.end()
        asked.append((method, graphed_program._suspended))
        return call(self, method, *told)

    step = compiled(lambda x: torch.tanh(x) + 8)
    x = torch.randn(40)
    step(x)
    monkeypatch.setattr(rpc.Client, "call", noticed)
    tensord.profile(step, x, steps=1)
    with tensord.profiling():
        step(x)
    assert asked == [("GetProgram", 0), ("PutProfile", 0)] * 2


def test_blocks_are_measured_by_their_steps(here: RealDaemon) -> None:
    step = compiled(lambda x: torch.tanh(x) + 5)
    x = torch.randn(40)
    step(x)
    with tensord.profiling("training") as profile:
        for _ in range(3):
            step(x)
            profile.step()
        step(x)  # behind the last step: no call
    assert profile.message.function == "training" and len(profile.message.calls) == 3
    assert [row.runs for row in steps(profile, Row.KERNEL)] == [3]
    with tensord.profiling() as whole:
        step(x), step(x)
    assert len(whole.message.calls) == 1 and steps(whole, Row.KERNEL)[0].runs == 2
    with pytest.raises(RuntimeError, match="for the block"):
        whole.step()


def test_what_cannot_be_measured_is_an_error(here: RealDaemon) -> None:
    step = compiled(lambda x: torch.tanh(x) + 6)
    x = torch.randn(40)
    for told in ({"steps": 0}, {"steps": 1001}, {"warmup": -1}):
        with pytest.raises(ValueError, match="calls are measured"):
            tensord.profile(step, x, **told)
    with pytest.raises(TypeError, match="a function or a module"):
        tensord.profile(5)
    with tensord.profiling(), pytest.raises(TensordRuntimeError, match="profiled already"):
        tensord.profile(step, x)

    def fails() -> None:
        step(x)
        raise KeyError("its own")

    with pytest.raises(KeyError, match="its own"):
        tensord.profile(fails)
    assert steps(tensord.profile(step, x, steps=1))  # and the next is measured


@pytest.mark.parametrize("bridge", ["native", "ctypes"])
def test_frames_that_are_served_are_measured(module_daemon: RealDaemon, bridge: str) -> None:
    more = {"TENSORD_FRAMES": "1", "TENSORD_NATIVE": "0" if bridge == "ctypes" else "1",
            "TENSORD_JOB": bridge}  # fmt: skip
    first, second = (
        json.loads(output(python(module_daemon, "-c", SERVED, imported=imported, **more)))
        for imported in (warm_python.CAPTURE, ("torch",))
    )
    assert second["served"] > 0
    assert first["rows"] == second["rows"] and first["labels"] == ["backward", "forward"]
    assert all(runs == 3 for _, runs in second["rows"])
    listed = json.loads(tensorctl(module_daemon, "--json", "profile").stdout)["profiles"]
    assert [one["caller"]["job"] for one in listed].count(bridge) == 2


# -- what is shown --------------------------------------------------------------------------------


def example() -> Any:
    step = compiled(lambda x: torch.softmax(x @ x.T, -1) * 3)
    return tensord.profile(step, torch.randn(56, 56), steps=3, warmup=1)


def test_a_profile_is_a_table_and_a_flame_graph(here: RealDaemon, tmp_path: Path) -> None:
    profile = example()
    text = str(profile)
    assert "3 calls of" in text and "a copy moves" in text and "kernels" in text
    kernel = steps(profile, Row.KERNEL)[0]
    assert f"{kernel.name} (" in text and f"{HERE}:" in text
    assert repr(profile).startswith("<Profile of ")
    read = json.loads(profile.to_json())
    assert len(read["rows"]) == len(profile.message.rows)
    assert "<table>" in profile._repr_html_() and kernel.name in profile._repr_html_()
    folded = profile.flame_graph(form="folded").splitlines()
    whole = sum(int(line.rpartition(" ")[2]) for line in folded)
    assert all(line.startswith(profile.message.function.replace(";", ",")) for line in folded)
    assert whole == numbers.median(profile.message.calls)
    file = tmp_path / "flame.json"
    scope = json.loads(profile.flame_graph(file))
    assert json.loads(file.read_text()) == scope
    assert sum(scope["profiles"][0]["weights"]) == whole
    with pytest.raises(ValueError, match="no form"):
        profile.flame_graph(form="svg")


def test_tensorctl_shows_the_same(here: RealDaemon, tmp_path: Path) -> None:
    profile = example()
    key = profile.message.programs[0].key.hex()
    shown = tensorctl(here, "profile", "--last")
    assert shown.returncode == 0, shown.stderr
    assert [line.split() for line in shown.stdout.splitlines()] == [
        line.split() for line in str(profile).splitlines()
    ]
    for which in ([key[:12]], ["--pid", str(os.getpid())], ["--last"]):
        said = tensorctl(here, "profile", *which, "--format", "json")
        assert json_format.Parse(said.stdout, profile_pb2.Profile()) == profile.message
    folded = tensorctl(here, "profile", key, "--format", "folded").stdout
    assert folded == profile.flame_graph(form="folded")
    file = tmp_path / "profile.json"
    wrote = tensorctl(here, "profile", "--last", "--format", "speedscope", "-o", str(file))
    assert "speedscope" in wrote.stdout and wrote.returncode == 0
    assert json.loads(file.read_text()) == json.loads(profile.flame_graph())
    file.unlink()
    unsaid = tensorctl(here, "profile", "--format", "speedscope", "-o", str(file))
    assert "speedscope" in unsaid.stdout and json.loads(file.read_text())["profiles"]
    written = tensorctl(here, "--json", "profile", "-o", str(file))
    assert "steps" in written.stdout and json.loads(file.read_text())["calls"]
    listed = tensorctl(here, "profile").stdout.splitlines()
    assert listed[1].split()[-1] == str(os.getpid()) and "CPU" in listed[1]


def test_tensorctl_says_what_is_wrong(here: RealDaemon, tmp_path: Path) -> None:
    example()
    unknown = tensorctl(here, "profile", "0" * 16)
    assert unknown.returncode == 1 and "no such profile" in unknown.stderr
    assert tensorctl(here, "profile", "0123").returncode == 2
    assert tensorctl(here, "profile", "--last", "--format", "svg").returncode == 2
    for wrong in (["--number", "0"], ["--pid", "0"], ["--json", "--last", "--format", "folded"]):
        assert tensorctl(here, "profile", *wrong).returncode == 2, wrong
    refused = tensorctl(here, "profile", "--last", "-o", str(tmp_path / "none" / "file"))
    assert refused.returncode == 1 and "cannot be written" in refused.stderr
    fresh = RealDaemon()
    try:
        assert "nothing was profiled" in tensorctl(fresh, "profile").stdout
        assert tensorctl(fresh, "profile", "--last").returncode == 1
    finally:
        fresh.close()


# -- daemons that do not take part ----------------------------------------------------------------


def test_an_older_daemon_is_told_nothing(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    step = compiled(lambda x: torch.tanh(x) + 9)
    step(torch.randn(20))
    monkeypatch.setattr(rpc.Client, "takes_profiles", lambda self: False)
    before = tensorctl(here, "--json", "profile").stdout
    with caplog.at_level(logging.WARNING, "tensord"):
        for _ in range(2):
            assert steps(tensord.profile(step, torch.randn(20), steps=1, warmup=0), Row.KERNEL)
    assert caplog.text.count("profiles stay in this process") == 1
    assert tensorctl(here, "--json", "profile").stdout == before


def test_the_next_daemon_takes_profiles_of_stored_programs(
    clean: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = RealDaemon()
    try:
        monkeypatch.setenv("TENSORD_ADDRESS", daemon.address)
        monkeypatch.setattr(rpc, "GREETING_SILENCE_S", 2.0)
        rpc.client().forget()
        step, x = compiled(lambda x: torch.tanh(x) + 12), torch.randn(20)
        step(x)
        daemon.stop()
        daemon.start()  # which this process asks for nothing
        rpc.client().forget()
        rpc.client().hello()
        assert steps(tensord.profile(step, x, steps=1, warmup=0), Row.KERNEL)
        (kept,) = json.loads(tensorctl(daemon, "--json", "profile").stdout)["profiles"]
        assert kept["caller"]["pid"] == os.getpid()
    finally:
        daemon.close()
        rpc.client().forget()


def test_without_a_daemon_steps_have_no_lines(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = compiled(lambda x: torch.tanh(x) + 11)
    x = torch.randn(20)
    step(x)
    monkeypatch.setenv("TENSORD_ADDRESS", f"unix:{here.folder}/nobody")
    profile = tensord.profile(step, x, steps=2, warmup=0)
    (kernel,) = steps(profile, Row.KERNEL)
    assert (kernel.name, kernel.runs, len(kernel.lines)) == ("kernel 0", 2, 0)
    assert kernel.bytes_read == 0 and numbers.limit(profile.message, kernel) is None
    assert "kernel 0" in str(profile)


def test_a_daemon_that_was_not_greeted_yet_is_told(
    here: RealDaemon, caplog: pytest.LogCaptureFixture
) -> None:
    step = compiled(lambda x: torch.tanh(x) + 10)
    step(torch.randn(20))
    rpc.client().forget()  # as after a call that broke off
    with caplog.at_level(logging.WARNING, "tensord"):
        profile = tensord.profile(step, torch.randn(20), steps=1, warmup=0)
    assert "profiles stay" not in caplog.text
    said = tensorctl(here, "profile", "--last", "--format", "json")
    assert json_format.Parse(said.stdout, profile_pb2.Profile()) == profile.message


def test_expressions_over_symbols() -> None:
    from tensord.v1 import graph_pb2

    def op(kind: str, *values: int) -> graph_pb2.SymExpr:
        made = graph_pb2.SymExpr()
        made.op.kind = graph_pb2.SymOp.Kind.Value(kind)
        for value in values:
            made.op.args.add(constant=value)
        return made

    for kind, values, result in (
        ("ADD", (1, 2, 3), 6), ("MUL", (2, 3, 4), 24), ("FLOOR_DIV", (-7, 2), -4),
        ("MOD", (-7, 3), 2), ("MIN", (4, 2, 3), 2), ("MAX", (4, 5), 5),
    ):  # fmt: skip
        assert evaluate(op(kind, *values), ()) == result
    assert evaluate(graph_pb2.SymExpr(symbol=1), (5, 7)) == 7
    assert evaluate(graph_pb2.SymExpr(), ()) == 0
    for wrong in (graph_pb2.SymExpr(symbol=2), op("FLOOR_DIV", 1, 0), op("ADD")):
        with pytest.raises(ValueError):
            evaluate(wrong, (5, 7))
