# SPDX-License-Identifier: Apache-2.0
"""Daemons of earlier versions, which answer UNIMPLEMENTED to what came after them: whoever asks is
served as before, and only who asked for it hears of it. All versions with each other:
tests/faults/versions.py."""

from __future__ import annotations

import subprocess
import time
import warnings
from typing import Any

import grpc
import pytest
import tensord
import torch
from compare import check
from real_daemon import binary
from tensord.v1 import requests_pb2
from tensord.wire import progress, rpc, transport


def _compile(factor: int) -> None:
    """A function that nothing else has; neither a warning nor a fallback comes of it."""
    torch._dynamo.reset()
    x = torch.randn(7)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = torch.compile(lambda x: x * factor, backend="tensord")
        for _ in range(2):
            check("result", compiled(x), x * factor)
    assert tensord.stats()["fallbacks"] == 0


def _asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The methods that this process calls from now on."""
    asked: list[str] = []
    begin = transport.Call.__init__

    def noted(call: transport.Call, server: Any, path: str, *more: Any) -> None:
        asked.append(path.rpartition("/")[2])
        begin(call, server, path, *more)

    monkeypatch.setattr(transport.Call, "__init__", noted)
    return asked


@pytest.mark.parametrize("where", ["a terminal", "a log"])
def test_one_that_does_not_know_how_far_compiles_are(
    daemon: Any,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    where: str,
) -> None:
    """It is asked once a wait, nothing is shown, and the wait is as long as the compile."""
    monkeypatch.setattr(progress, "FIRST_S", 0.05)
    monkeypatch.setattr(progress, "EVERY_S", 0.02)
    if where == "a terminal":
        monkeypatch.setenv("TENSORD_PROGRESS", "1")
    asked = _asked(monkeypatch)
    daemon.delay_s = 0.5
    begun = time.monotonic()
    with caplog.at_level("INFO", "tensord"):
        _compile(71)
    assert time.monotonic() - begun < daemon.delay_s + 5.0
    assert asked.count("WatchCompiles") == 1 and asked.count("Compile") == 1
    assert capfd.readouterr().err == ""
    assert not [record for record in caplog.records if "waits for" in record.message]


def test_one_that_keeps_no_spans_is_sent_none(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = _asked(monkeypatch)
    _compile(73)
    _compile(74)
    assert set(asked) == {"Hello", "Compile"}


@pytest.mark.parametrize("method", ["PutSpans", "GetTraces", "FindFrames"])
def test_what_it_does_not_know_is_an_error_of_that_call(daemon: Any, method: str) -> None:
    request = getattr(requests_pb2, f"{method}Request")()
    with pytest.raises(tensord.TensordError, match="UNIMPLEMENTED"):
        rpc.client().call(method, request)
    _compile(79)


@pytest.mark.parametrize(
    "words", [["in-flight"], ["trace", "--last"], ["jobs"], ["frames"], ["top", "--once"], ["ui"]]
)
def test_tensorctl_says_that_the_daemon_is_another_version_s(daemon: Any, words: list[str]) -> None:
    command = [str(binary("tensorctl")), f"--address=unix:{daemon.path}", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("tensorctl: ") and "does not know this question" in done.stderr
    assert daemon.path in done.stderr and done.stderr.count("\n") == 1
    assert grpc.StatusCode.UNIMPLEMENTED.name not in done.stderr
