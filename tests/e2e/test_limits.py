# SPDX-License-Identifier: Apache-2.0
"""Limits of the daemon as a job and an operator see them: waiting, memory, keys, restarts."""

from __future__ import annotations

import socket
import stat
import subprocess
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import h2.config
import h2.connection
import h2.events
import pytest
import tensord
import torch
from compare import check
from real_daemon import RealDaemon, binary
from slow_compiler import slow_compiler, wait_for
from tensord import fallback
from tensord.wire import rpc, transport

WAIT_S = 60.0
MEBIBYTE = 1 << 20
COMPILE = "/tensord.v1.Compiler/CompileLarge"


def _run(factor: int) -> None:
    """Compiles and runs a function, and compares it with eager."""
    x = torch.randn(13, 17)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * factor).sum(-1)

    torch._dynamo.reset()
    check("result", torch.compile(function, backend="tensord")(x), function(x))


# -- time in the queue ----------------------------------------------------------------------------


@pytest.fixture
def busy(start: Callable[..., RealDaemon], tmp_path: Path) -> Iterator[RealDaemon]:
    """A daemon with one worker, which is at work until the test ends, and little patience."""
    slow = f"touch {tmp_path}/compiling; while ! [ -e {tmp_path}/done ]; do sleep 0.05; done"
    script = slow_compiler(tmp_path, slow)
    daemon = start(f"--cxx={script}", "--confine=off", "--workers=1", "--queue-seconds=1")
    thread = threading.Thread(target=_run, args=(2,))
    thread.start()
    wait_for((tmp_path / "compiling").exists, "a compile")
    yield daemon
    (tmp_path / "done").touch()
    thread.join(WAIT_S)


def test_who_waits_too_long_runs_in_eager(busy: RealDaemon) -> None:
    begin = time.monotonic()
    with pytest.warns(fallback.TensordWarning, match="queue_seconds"):
        _run(3)
    assert 1 <= time.monotonic() - begin < 20
    assert tensord.stats()["fallback_reasons"] == {"daemon overloaded": 1}
    stats = tensord.daemon_stats()
    assert (stats["waited_too_long"], stats["queued"], stats["in_flight"]) == (1, 0, 1)


def test_who_waits_too_long_is_told_when_strict(
    busy: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORD_STRICT", "1")
    with pytest.raises(Exception, match=r"RESOURCE_EXHAUSTED.*queue_seconds"):
        _run(3)


# -- memory ---------------------------------------------------------------------------------------


def _announce(path: Path, size: int) -> tuple[socket.socket, h2.connection.H2Connection]:
    """A call of CompileLarge that says it has `size` bytes, and sends none."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(WAIT_S)
    connection.connect(str(path))
    http = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    http.initiate_connection()
    headers = {
        ":method": "POST",
        ":scheme": "http",
        ":path": COMPILE,
        ":authority": "localhost",
        "te": "trailers",
        "content-type": "application/grpc",
        "tensord-request-bytes": str(size),
    }
    http.send_headers(1, list(headers.items()))
    connection.sendall(http.data_to_send())
    return connection, http


def _await_end(connection: socket.socket, http: h2.connection.H2Connection) -> None:
    while data := connection.recv(1 << 16):
        for event in http.receive_data(data):
            if isinstance(event, (h2.events.StreamEnded, h2.events.StreamReset)):
                return


def _holds(size: int) -> Callable[[], bool]:
    return lambda: tensord.daemon_stats()["request_bytes"] == size


def test_a_request_that_never_comes_gives_its_memory_back(
    start: Callable[..., RealDaemon],
) -> None:
    daemon = start("--request-memory=16MB", "--queue-seconds=3")
    silent, http = _announce(daemon.socket, 8 * MEBIBYTE)  # counted twice while it comes
    wait_for(_holds(16 * MEBIBYTE), "the room taken")
    # What is small is served meanwhile, what is large waits until the silent one is given up.
    _run(5)
    assert tensord.stats()["compiled"] == 1
    large = transport.Call(str(daemon.socket), COMPILE, b"\xff" * (4 * MEBIBYTE), WAIT_S)
    with pytest.raises(transport.CallError, match=r"INVALID_ARGUMENT: .* not a CompileRequest"):
        large.message()
    _await_end(silent, http)
    silent.close()
    wait_for(_holds(0), "the room given back")


def test_a_client_that_goes_makes_way(start: Callable[..., RealDaemon]) -> None:
    daemon = start("--request-memory=16MB")
    first, _ = _announce(daemon.socket, 8 * MEBIBYTE)
    wait_for(_holds(16 * MEBIBYTE), "the room taken")
    second, _ = _announce(daemon.socket, 6 * MEBIBYTE)  # waits
    time.sleep(0.2)
    second.close()
    first.close()
    wait_for(_holds(0), "the room given back")


def test_what_is_too_large_is_refused_before_it_comes(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    connection, http = _announce(daemon.socket, 65 * MEBIBYTE)
    _await_end(connection, http)
    connection.close()
    with pytest.raises(transport.CallError, match=r"RESOURCE_EXHAUSTED: .* too large; at most"):
        transport.Call(str(daemon.socket), COMPILE, b"x" * (65 * MEBIBYTE), WAIT_S).message()


# -- another signing key --------------------------------------------------------------------------


def test_a_signing_key_is_rotated_under_a_running_daemon(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    _run(2)
    subprocess.run(
        [str(binary("tensorctl")), "rotate-key", f"--store={daemon.store}"],
        check=True,
        timeout=WAIT_S,
    )
    _run(2)  # signed with the old key, which is listed
    _run(3)
    assert (tensord.stats()["hits"], tensord.stats()["compiled"]) == (1, 2)
    (daemon.store / "key.old").unlink()
    _run(3)
    assert tensord.stats()["hits"] == 2
    _run(2)
    assert tensord.stats()["compiled"] == 3
    assert tensord.stats()["fallbacks"] == 0


# -- a socket that outlives the daemon ------------------------------------------------------------


@pytest.fixture
def listening(clean: Path) -> Iterator[socket.socket]:
    """A socket as a service manager makes it, in place of the daemon."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as made:
        made.bind(str(clean / "s"))
        made.listen(128)
        yield made


def test_a_passed_socket_outlives_the_daemon(listening: socket.socket, clean: Path) -> None:
    daemon = RealDaemon(clean, passed=listening)
    try:
        _run(2)
        assert stat.S_IMODE(daemon.socket.stat().st_mode) == 0o600
        assert daemon.stop() == 0
        assert daemon.socket.exists()
        # Whoever calls now waits in the socket's queue for the next daemon.
        starter = threading.Timer(0.2, daemon.start)
        starter.start()
        _run(3)
        starter.join()
        stats = tensord.stats()
        assert (stats["compiled"], stats["fallbacks"]) == (2, 0)
        rpc.client().forget()
        assert rpc.client().hello().pid == daemon.process.pid
    finally:
        daemon.close()


@pytest.mark.long
def test_rolling_restarts_behind_a_passed_socket(listening: socket.socket, clean: Path) -> None:
    daemon = RealDaemon(clean, passed=listening)
    running = True

    def restart() -> None:
        serves_s = 0.3
        while running:
            time.sleep(serves_s)
            begun = time.monotonic()
            daemon.stop()
            daemon.start()
            # Where a start takes long, who asks for two seconds must find one that serves.
            serves_s = max(0.3, time.monotonic() - begun)

    thread = threading.Thread(target=restart)
    with warnings.catch_warnings():
        warnings.simplefilter("error", fallback.TensordWarning)
        thread.start()
        try:
            for factor in range(20):
                _run(factor + 10)
        finally:
            running = False
            thread.join()
            daemon.close()
    stats = tensord.stats()
    assert stats["fallbacks"] == 0, stats["fallback_reasons"]
    assert stats["compiled"] + stats["hits"] + stats["joined"] == 20
