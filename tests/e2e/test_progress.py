# SPDX-License-Identifier: Apache-2.0
"""What a job shows and does while its programs are compiled."""

from __future__ import annotations

import logging
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tensord
import torch
from compare import check
from real_daemon import RealDaemon, binary
from slow_compiler import Gate, wait_for
from tensord.v1 import requests_pb2
from tensord.wire import progress, rpc


@pytest.fixture
def gate(
    tmp_path: Path, start: Callable[..., RealDaemon], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Gate]:
    monkeypatch.setattr(rpc, "GREETING_SILENCE_S", 2.0)  # other tests keep the machine busy
    gate = Gate(tmp_path, start)
    yield gate
    gate.open()


def function(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * 3).sum(-1)


# -- wait: eager ----------------------------------------------------------------------------------


def test_calls_run_in_eager_until_the_program_is_there(gate: Gate) -> None:
    compiled = torch.compile(function, backend="tensord", options={"wait": "eager"})
    x = torch.randn(13, 17)
    for _ in range(5):
        check("before", compiled(x), function(x))
    assert tensord.stats()["calls_before_programs"] == 5
    assert tensord.stats()["compiled"] == 0
    gate.open()
    wait_for(lambda: (compiled(x), tensord.stats()["compiled"])[1], "the switch")
    before = tensord.stats()["calls_before_programs"]
    for _ in range(5):
        check("after", compiled(x), function(x))
    assert tensord.stats()["calls_before_programs"] == before
    assert tensord.stats()["fallbacks"] == 0


def test_training_goes_on_over_the_switch(gate: Gate) -> None:
    """Forward and backward switch each by itself, and draw the same numbers on either side."""
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 6))
    twin = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 6))
    twin.load_state_dict(net.state_dict())

    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = net(x)
        return y, torch.nn.functional.dropout(y, 0.5)

    compiled = torch.compile(step, backend="tensord", options={"wait": "eager"})

    def trains() -> None:
        x = torch.randn(32, 6)
        leaf, other = x.clone().requires_grad_(), x.clone().requires_grad_()
        y, dropped = compiled(leaf)
        kept = (dropped != 0).float() * 2
        check("dropout", dropped, y * kept)
        (dropped.square().sum() + y.sum()).backward()
        expected = twin(other)
        ((expected * kept).square().sum() + expected.sum()).backward()
        check("gradient of the input", leaf.grad, other.grad)
        for one, two in zip(net.parameters(), twin.parameters(), strict=True):
            # Sums over the rows, whose terms cancel in some elements and not in all.
            largest = max(1.0, two.grad.abs().max().item())
            check("gradient of a parameter", one.grad, two.grad, magnitude=largest)
            one.grad = two.grad = None

    for _ in range(3):
        trains()
    assert tensord.stats()["calls_before_programs"] == 6
    gate.open()
    wait_for(lambda: (trains(), tensord.stats()["compiled"])[1] == 2, "the switch")
    before = tensord.stats()["calls_before_programs"]
    trains()
    assert tensord.stats()["calls_before_programs"] == before


def test_a_program_that_cannot_come_is_a_fallback(gate: Gate) -> None:
    compiled = torch.compile(function, backend="tensord", options={"wait": "eager"})
    x = torch.randn(3, 5)
    check("before", compiled(x), function(x))
    gate.await_compiler()
    gate.daemon.process.kill()
    with pytest.warns(match="runs in eager"):
        wait_for(lambda: (compiled(x), tensord.stats()["fallbacks"])[1], "a fallback")
    check("after", compiled(x), function(x))


def test_a_daemon_that_is_followed_by_another_blocks_no_call(gate: Gate) -> None:
    compiled = torch.compile(function, backend="tensord", options={"wait": "eager"})
    x = torch.randn(5, 7)
    check("before", compiled(x), function(x))
    gate.await_compiler()
    gate.daemon.process.kill()
    gate.daemon.process.wait()
    gate.daemon.start()
    for _ in range(20):
        check("meanwhile", compiled(x), function(x))
        time.sleep(0.01)
    assert tensord.stats()["calls_before_programs"] == 21
    gate.open()
    wait_for(lambda: (compiled(x), tensord.stats()["compiled"])[1], "the switch")
    check("after", compiled(x), function(x))
    assert tensord.stats()["fallbacks"] == 0


def test_a_look_that_fails_is_a_wait(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = torch.compile(function, backend="tensord", options={"wait": "eager"})
    x = torch.randn(5, 9)
    check("before", compiled(x), function(x))
    monkeypatch.setattr(rpc.CompileCall, "answered", lambda self: 1 / 0)
    gate.open()
    check("after", compiled(x), function(x))
    assert tensord.stats()["compiled"] == 1


def test_other_words_are_refused() -> None:
    compiled = torch.compile(function, backend="tensord", options={"wait": "never"})
    with pytest.raises(Exception, match="'wait' is 'never'; it is one of 'program', 'eager'"):
        compiled(torch.ones(3))


# -- what is shown --------------------------------------------------------------------------------


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> Gate:
    """The line comes at once, and the gate opens once it has been shown for a while."""
    monkeypatch.setattr(progress, "FIRST_S", 0.05)
    show, shown = progress.Line.show, []

    def counts(self: progress.Line, update: requests_pb2.CompilesUpdate) -> None:
        show(self, update)
        shown.append(update)
        if len(shown) == 3:
            gate.open()

    monkeypatch.setattr(progress.Line, "show", counts)
    return gate


def test_a_bar_where_somebody_looks(
    soon: Gate, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TENSORD_PROGRESS", "1")
    x = torch.randn(13, 17)
    check("result", torch.compile(function, backend="tensord")(x), function(x))
    shown = capfd.readouterr().err
    assert re.search(r"tensord compiles +\d+% \|.{24}\| 00:0\d, 1 program, kernels 0 of 1", shown)
    assert shown.rstrip("\n").endswith("\r")  # the line is as it was


def test_quiet_where_there_is_no_terminal(
    soon: Gate, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    with caplog.at_level(logging.INFO, "tensord"):
        torch.compile(function, backend="tensord")(torch.randn(13, 17))
    assert capfd.readouterr().err == ""
    said = [record for record in caplog.records if "waits for" in record.message]
    assert [record.levelno for record in said] == [logging.INFO]
    assert "waits for 1 program" in said[0].message


@pytest.mark.parametrize("reason", ["another rank", "switched off"])
def test_nothing_where_nobody_looks(
    gate: Gate, monkeypatch: pytest.MonkeyPatch, reason: str
) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.0)
    if reason == "another rank":
        monkeypatch.setenv("RANK", "1")
        monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
        assert progress._bar() is None
    else:
        monkeypatch.setenv("TENSORD_PROGRESS", "0")
        with progress.line() as line:
            assert line is None


def test_tensorctl_lists_what_is_compiled(gate: Gate) -> None:
    compiled = torch.compile(function, backend="tensord", options={"wait": "eager"})
    compiled(torch.randn(13, 17))
    gate.await_compiler()

    def said(*flags: str) -> str:
        command = [binary("tensorctl"), f"--address={gate.daemon.address}", *flags, "in-flight"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    head, line = said().splitlines()
    assert head.split()[:4] == ["KEY", "LABEL", "NODES", "STAGE"]
    assert re.search(r"inference +\d +kernels +0 of 1 +15 % .* pid \d+$", line)
    assert '"stage": "KERNELS"' in said("--json")
    gate.open()
    wait_for(lambda: len(said().splitlines()) == 1, "the end of the compile")
