# SPDX-License-Identifier: Apache-2.0
"""Sockets and daemons that say nothing: what they may cost a job."""

from __future__ import annotations

import itertools
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensord
import torch
from compare import check
from listener import Listener, say_nothing
from real_daemon import RealDaemon
from slow_compiler import slow_compiler
from tensord.errors import DaemonSilentError, DaemonUnavailableError
from tensord.v1 import requests_pb2
from tensord.wire import endpoint, progress, rpc, transport, watch

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

from stores import Orders

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


class _Clock:
    """In place of the module `time`: it goes on by what somebody waits for, and by nothing else."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


# What comes, and how long after the last.
_Says = Iterator[tuple[float, bytes]]


class _ScriptedSocket:
    def __init__(self, clock: _Clock, says: _Says) -> None:
        self._clock, self._says = clock, says
        self._left_s, self._data = next(says)
        self._timeout_s = 0.0

    def settimeout(self, seconds: float) -> None:
        self._timeout_s = seconds

    def sendall(self, data: bytes) -> None:
        pass

    def recv(self, most: int) -> bytes:
        waited_s = min(self._left_s, self._timeout_s)
        self._clock.sleep(waited_s)
        self._left_s -= waited_s
        if self._left_s > 0:
            raise TimeoutError
        data = self._data
        self._left_s, self._data = next(self._says)
        return data

    def close(self) -> None:
        pass


class _ScriptedEndpoint(endpoint.UnixEndpoint):
    def __init__(self, clock: _Clock, says: _Says | None) -> None:
        super().__init__("/scripted")
        self._clock, self._says = clock, says

    def open(self, adopt: endpoint.Adopt, arm: Callable[[], None]) -> None:
        if self._says is None:
            raise BlockingIOError
        adopt(_ScriptedSocket(self._clock, self._says))  # type: ignore[arg-type]
        arm()


_BAD_SOCKETS: dict[str, Callable[[], _Says | None]] = {
    "a queue that is full": lambda: None,
    "silence": lambda: itertools.repeat((3600.0, b"")),
    "garbage": lambda: itertools.repeat((0.0, b"220 mail.example ESMTP ready\r\n")),
    "garbage, drop by drop": lambda: itertools.repeat((0.02, b"2")),
    "settings, drop by drop": lambda: (
        (0.02, bytes([byte])) for byte in itertools.cycle(b"\0\0\0\4\0\0\0\0\0")
    ),
    "settings, without end": lambda: itertools.repeat((0.001, b"\0\0\0\4\0\0\0\0\0")),
}


@pytest.mark.parametrize("says", _BAD_SOCKETS)
def test_what_a_bad_socket_may_cost(
    listener: Callable[..., None], monkeypatch: pytest.MonkeyPatch, says: str
) -> None:
    """A quarter of a second a graph and a second in all, by a clock that the client alone moves."""
    listener(None)
    clock = _Clock()
    monkeypatch.setattr(rpc, "time", clock)
    monkeypatch.setattr(transport, "time", clock)
    monkeypatch.setattr(rpc, "_endpoint", lambda _: _ScriptedEndpoint(clock, _BAD_SOCKETS[says]()))
    waited = []
    for _ in range(9):
        begun = clock.now
        with pytest.raises(DaemonUnavailableError):
            rpc.client().hello()
        waited.append(clock.now - begun)
    finest = 2 * transport._LEAST_WAIT_S  # of a wait
    assert max(waited) <= rpc.GREETING_SILENCE_S + finest
    assert sum(waited) <= rpc.MOST_SILENCE_S + 4 * finest
    assert waited[-1] == 0


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
    daemon.suspend()
    try:
        seconds = _seconds_of_graphs(5)
    finally:
        daemon.resume()
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


class _Said:
    """A call of WatchCompiles that has said so much since."""

    def __init__(self) -> None:
        self.silent_s: list[float] = []

    def arrived(self) -> list[bytes]:
        said, self.silent_s = self.silent_s, []
        updates = [requests_pb2.CompilesUpdate(silent_nanoseconds=int(s * 1e9)) for s in said]
        return [update.SerializeToString() for update in updates]

    def close(self) -> None:
        pass


@pytest.mark.parametrize("tells_silence", [True, False])
def test_how_a_daemon_is_judged_by_what_it_says(
    clean: Path, monkeypatch: pytest.MonkeyPatch, tells_silence: bool
) -> None:
    clock, said = _Clock(), _Said()
    monkeypatch.setattr(watch, "time", clock)
    monkeypatch.setattr(rpc.Client, "watch_compiles", lambda *_: said)
    with progress.line() as line, watch.watched(tells_silence, line) as ticker:
        assert ticker is not None and ticker.due == clock.now + progress.FIRST_S

        def tick(after_s: float, *silent_s: float) -> None:
            clock.sleep(after_s)
            said.silent_s = list(silent_s)
            ticker.tick()

        tick(1.0)  # asks
        tick(1.9)
        tick(1.9, 0.0)
        tick(1.9, 1.9)
        tick(60.0, 5.0, 0.0)  # it was stopped itself; the last word counts
        if not tells_silence:  # a daemon of before
            tick(60.0)
            tick(60.0, 60.0)
            return
        with pytest.raises(transport.SilentError, match="no progress for 2 s"):
            tick(0.2, 0.0, 2.1)
        tick(0.0, 0.0)
        with pytest.raises(transport.SilentError, match="no sign of life for 2 s"):
            tick(2.1)


@pytest.fixture
def disk(start: Callable[..., RealDaemon], clean: Path, tmp_path: Path) -> Iterator[Orders]:
    """Of a daemon that has compiled one graph and was started anew; calls on its files can hang."""
    orders = Orders(tmp_path / "orders", clean)
    # Within walls workers would not find the library that makes calls hang.
    daemon = start("--confine=off", **orders.environment)
    _seconds_of_graphs(1)
    daemon.stop()
    daemon.start()
    rpc.client().forget()
    tensord.reset_stats()
    yield orders
    orders.withdraw()


def test_a_daemon_whose_look_ups_hang_costs_three_seconds_once(
    disk: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It answers pings and greetings all the while."""
    disk.give("open", "hang", "/manifests/")
    with pytest.warns(UserWarning, match="shows no progress for 2 s"):
        seconds = _seconds_of_graphs(5)
    assert watch.SILENCE_S < seconds  # by the daemon, from when it began to look
    assert seconds < progress.FIRST_S + watch.SILENCE_S + LENIENT
    assert tensord.stats()["fallbacks"] == 5
    disk.withdraw()
    monkeypatch.setattr(rpc, "UNAVAILABLE_MEMORY_S", 0.0)
    rpc.client().forget()
    tensord.reset_stats()
    _seconds_of_graphs(1)
    assert (tensord.stats()["hits"], tensord.stats()["fallbacks"]) == (1, 0)


def test_a_look_up_that_is_slow_and_not_silent_is_waited_for(
    disk: Orders, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SILENCE_S", 60.0)
    monkeypatch.setattr(progress, "FIRST_S", 0.05)
    disk.give("open", "hang", "/manifests/")
    threading.Timer(1.0, disk.withdraw).start()
    assert _seconds_of_graphs(1) >= 1.0
    assert (tensord.stats()["hits"], tensord.stats()["fallbacks"]) == (1, 0)


def test_a_stop_ends_although_the_disk_hangs(
    start: Callable[..., RealDaemon],
    clean: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What jobs used is read and written at a stop, here by a thread that nothing interrupts."""
    orders = Orders(tmp_path / "orders", clean)
    daemon = start("--confine=off", "--stop-seconds=0", **orders.environment)
    monkeypatch.setenv("TENSORD_JOB", "train")
    _seconds_of_graphs(1)
    orders.give("open", "hang", "/jobs/")
    assert daemon.stop() == 0
    assert 'event=stopped why="something hangs' in daemon.log.read_text()
    orders.withdraw()


def test_what_is_found_is_not_watched(disk: Orders, monkeypatch: pytest.MonkeyPatch) -> None:
    """One call, as before there was a watch."""
    asked: list[str] = []
    begin = transport.Call.__init__

    def noted(call: transport.Call, server: Any, path: str, *more: Any) -> None:
        asked.append(path.rpartition("/")[2])
        begin(call, server, path, *more)

    monkeypatch.setattr(transport.Call, "__init__", noted)
    _seconds_of_graphs(1)
    assert tensord.stats()["hits"] == 1
    assert [name for name in asked if name in ("Compile", "WatchCompiles")] == ["Compile"]


def test_daemon_that_knows_no_pings_is_not_asked(daemon) -> None:
    """The fake one's greeting does not speak of them, as an older daemon's."""
    rpc.client().hello()
    assert rpc.client().heartbeat() is None
    torch.compile(lambda x: (x * 2).relu(), backend="tensord")(torch.ones(2))
    assert tensord.stats()["compiled"] == 1
