# SPDX-License-Identifier: Apache-2.0
"""Sockets and daemons that say nothing: what they may cost a job."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tensord
import torch
from compare import check
from listener import Listener, say_nothing
from real_daemon import RealDaemon
from slow_compiler import slow_compiler
from tensord.errors import DaemonSilentError, DaemonUnavailableError
from tensord.wire import rpc, transport

# Far below TENSORD_TIMEOUT_S, and above what is promised by what a busy machine may add.
LENIENT = 4.0


def _functions(count: int) -> list[Callable[[torch.Tensor], torch.Tensor]]:
    return [lambda x, i=i: torch.tanh(x * (i + 2)).sum(-1) for i in range(count)]


def _seconds_of_graphs(count: int) -> float:
    """Compiles and runs so many graphs, and compares them with eager."""
    x = torch.randn(13, 17)
    start = time.monotonic()
    for function in _functions(count):
        torch._dynamo.reset()
        check("result", torch.compile(function, backend="tensord")(x), function(x))
    return time.monotonic() - start


def _talk_nonsense(connection: socket.socket) -> None:
    connection.sendall(b"220 mail.example ESMTP ready\r\n" * 10)
    say_nothing(connection)


def _drip(connection: socket.socket) -> None:
    """A sound frame of settings, a byte at a time, for ever."""
    while True:
        for byte in b"\0\0\0\4\0\0\0\0\0":
            connection.sendall(bytes([byte]))
            time.sleep(0.02)


@pytest.fixture
def listener(clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    listeners = []

    def listen(serve: Callable[[socket.socket], None] | None) -> None:
        path = clean / "s"
        monkeypatch.setenv("TENSORD_ADDRESS", f"unix:{path}")
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listening.bind(str(path))
        listening.listen(8)
        listeners.append(Listener(listening, serve))
        rpc.client().forget()

    yield listen
    for listener in listeners:
        listener.close()
    rpc.client().forget()


@pytest.mark.parametrize("serve", [None, say_nothing, _talk_nonsense, _drip])
def test_a_socket_that_is_no_daemon(
    listener: Callable[..., None], serve: Callable[[socket.socket], None] | None
) -> None:
    """None: nobody even accepts. A second in all, however many graphs there are."""
    listener(serve)
    assert _seconds_of_graphs(1) < LENIENT
    assert _seconds_of_graphs(8) < LENIENT
    stats = tensord.stats()
    assert stats["compiled"] == 0
    assert stats["fallbacks"] == 9
    with pytest.raises(DaemonUnavailableError):
        rpc.client().hello()


def test_silence_is_remembered_after_a_second(listener: Callable[..., None]) -> None:
    listener(say_nothing)
    waited = []
    for _ in range(6):
        start = time.monotonic()
        with pytest.raises(DaemonSilentError, match=r"no sign of life for 0\.25 s"):
            rpc.client().hello()
        waited.append(time.monotonic() - start)
    assert sum(seconds > 0.2 for seconds in waited) == 4
    assert max(waited[4:]) < 0.2


def test_stopped_daemon_costs_two_seconds_once(
    start: Callable[..., RealDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It greeted, and was stopped before the graphs came."""
    daemon = start()
    rpc.client().hello()
    os.kill(daemon.process.pid, signal.SIGSTOP)
    try:
        seconds = _seconds_of_graphs(5)
    finally:
        os.kill(daemon.process.pid, signal.SIGCONT)
    assert seconds < 2 + LENIENT
    assert tensord.stats()["fallbacks"] == 5
    # It lives again, and is asked again once the circuit closes.
    monkeypatch.setattr(rpc, "UNAVAILABLE_MEMORY_S", 0.0)
    rpc.client().forget()
    tensord.reset_stats()
    _seconds_of_graphs(1)
    assert tensord.stats()["fallbacks"] == 0


def test_long_compile_of_a_living_daemon_may_take_its_time(
    start: Callable[..., RealDaemon], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four times as long as silence may last: pings are answered meanwhile."""
    monkeypatch.setattr(rpc, "_AT_WORK", transport.Heartbeat(silence_s=0.5, every_s=0.1))
    start(f"--cxx={slow_compiler(tmp_path, 'sleep 2')}", "--confine=off")
    assert _seconds_of_graphs(1) > 2
    assert tensord.stats()["compiled"] == 1
    assert tensord.stats()["fallbacks"] == 0


def test_daemon_that_knows_no_pings_is_not_asked(daemon) -> None:
    """The fake one's greeting does not speak of them, as an older daemon's."""
    rpc.client().hello()
    assert rpc.client().heartbeat() is None
    torch.compile(lambda x: (x * 2).relu(), backend="tensord")(torch.ones(2))
    assert tensord.stats()["compiled"] == 1
