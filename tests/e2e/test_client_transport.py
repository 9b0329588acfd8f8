# SPDX-License-Identifier: Apache-2.0
"""The client's own gRPC calls against a server of grpcio, by a Unix socket and by TLS, and against
servers that are none."""

from __future__ import annotations

import os
import socket
import threading
import time
from concurrent import futures
from pathlib import Path

import grpc
import pytest
from certificates import Authority
from tensord.wire import transport
from tensord.wire.address import Address
from tensord.wire.tls import TlsEndpoint
from tensord.wire.transport import Call, CallError

pytestmark = pytest.mark.usefixtures("nothing_under_way")
_MIB = 1 << 20


def _echo(request: bytes, context: grpc.ServicerContext) -> bytes:
    return request


def _fail(request: bytes, context: grpc.ServicerContext) -> bytes:
    context.abort(grpc.StatusCode.INVALID_ARGUMENT, request.decode())


def _sleep(request: bytes, context: grpc.ServicerContext) -> bytes:
    cancelled = threading.Event()
    context.add_callback(cancelled.set)
    cancelled.wait(float(request))
    _sleep.cancelled = cancelled.is_set()
    return b""


_release = threading.Event()


def _hold(request: bytes, context: grpc.ServicerContext) -> bytes:
    _release.wait(20)
    return b""


def _count(request: bytes, context: grpc.ServicerContext):
    for i in range(int(request)):
        yield bytes([i % 256]) * _MIB


def _server() -> grpc.Server:
    server = grpc.server(
        futures.ThreadPoolExecutor(4), options=[("grpc.max_receive_message_length", -1)]
    )
    unary = {"Echo": _echo, "Fail": _fail, "Sleep": _sleep, "Hold": _hold}
    handlers = {n: grpc.unary_unary_rpc_method_handler(f) for n, f in unary.items()}
    handlers["Count"] = grpc.unary_stream_rpc_method_handler(_count)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("t.T", handlers),))
    return server


def _serve(path: str) -> grpc.Server:
    server = _server()
    server.add_insecure_port(f"unix:{path}")
    server.start()
    return server


def _serve_tls(folder: Path) -> tuple[grpc.Server, int]:
    shown = Authority(folder).issue("server")
    pair = (shown.key.read_bytes(), shown.path.read_bytes())
    server = _server()
    port = server.add_secure_port("127.0.0.1:0", grpc.ssl_server_credentials([pair]))
    server.start()
    return server, port


@pytest.fixture(scope="module", params=["unix", "tls"])
def server(request, tmp_path_factory):
    """Says where a call goes; each has an endpoint of its own."""
    folder = tmp_path_factory.mktemp("server")
    with pytest.MonkeyPatch.context() as environment:
        if request.param == "unix":
            server = _serve(str(folder / "s"))
            yield lambda: str(folder / "s")
        else:
            server, port = _serve_tls(folder)
            environment.setenv("TENSORD_TLS_CA", str(folder / "ca.crt"))
            yield lambda: TlsEndpoint(Address(None, True, "localhost", port))
    server.stop(None).wait()


def call(server, method: str, message: bytes = b"", timeout_s: float = 30.0) -> Call:
    where = server if isinstance(server, str) else server()
    return Call(where, f"/t.T/{method}", message, timeout_s)


@pytest.mark.parametrize("size", [0, 1, 16384 - 5, 65535, 65536, 3 * _MIB + 1, 40 * _MIB])
def test_messages_of_every_size(server, size):
    message = os.urandom(size)
    assert call(server, "Echo", message).message() == message
    assert not transport._open_sockets


def test_a_stream_longer_than_any_window(server):
    received = list(call(server, "Count", b"40").messages())
    assert [len(m) for m in received] == [_MIB] * 40
    assert [m[0] for m in received] == list(range(40))
    with pytest.raises(CallError, match="2 messages where one was due"):
        call(server, "Count", b"2").message()


@pytest.mark.parametrize("text", ["node `mul_3`: 5 arguments, 2 are due", "größer 100 %\nnext", ""])
def test_status_and_message(server, text):
    with pytest.raises(CallError) as caught:
        call(server, "Fail", text.encode()).message()
    assert (caught.value.code, caught.value.details) == ("INVALID_ARGUMENT", text)


def test_unknown_method(server):
    with pytest.raises(CallError, match="UNIMPLEMENTED"):
        call(server, "Nothing").message()


def test_deadline(server):
    start = time.monotonic()
    with pytest.raises(CallError, match="DEADLINE_EXCEEDED"):
        call(server, "Sleep", b"30", timeout_s=0.3).message()
    assert time.monotonic() - start < 10


def test_a_closed_call_is_cancelled(server):
    _sleep.cancelled = False
    sleeping = call(server, "Sleep", b"30")
    time.sleep(0.2)
    sleeping.close()
    deadline = time.monotonic() + 10
    while not _sleep.cancelled and time.monotonic() < deadline:
        time.sleep(0.02)
    assert _sleep.cancelled


def test_looking_does_not_wait(server):
    """TLS has records, at its start say, that are of no message."""
    _release.clear()
    held = call(server, "Hold")
    try:
        for _ in range(25):
            assert held.arrived() == []  # what waits comes back with the message
            assert not held.answered()
            time.sleep(0.02)
    finally:
        _release.set()
    assert held.message() == b""


def test_what_arrives_is_taken_at_once(server):
    """More of it than a record of TLS has."""
    counting = call(server, "Count", b"20")
    received: list[bytes] = []
    deadline = time.monotonic() + 20
    while len(received) < 20 and time.monotonic() < deadline:
        received += counting.arrived()
        time.sleep(0.01)
    assert [m[0] for m in received] == list(range(20))
    with pytest.raises(CallError, match="OK"):
        while time.monotonic() < deadline:
            counting.arrived()
    counting.close()


def test_calls_side_by_side(server):
    calls = [call(server, "Echo", bytes([i]) * 100_000) for i in range(8)]
    for i, one in enumerate(calls):
        assert one.message() == bytes([i]) * 100_000


def test_a_server_that_ends_answers_what_it_has_begun(tmp_path: Path):
    path = str(tmp_path / "s")
    server = _serve(path)
    calls = [call(path, "Sleep", b"1") for _ in range(3)]
    time.sleep(0.3)
    stopped = server.stop(30)
    assert [one.message() for one in calls] == [b""] * 3
    assert stopped.wait(30)


def test_nobody_there(tmp_path: Path):
    with pytest.raises(CallError, match=r"UNAVAILABLE.*No such file"):
        call(str(tmp_path / "none"), "Echo")


def _ask(path: str, answer: bytes) -> None:
    """A call to a server that says nothing else, whatever it is asked."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()

        def serve():
            connection, _ = listener.accept()
            with connection:
                connection.recv(1 << 16)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            call(path, "Echo", b"x", timeout_s=10).message()
        finally:
            thread.join()


_SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


def test_a_server_that_takes_no_more_calls(tmp_path: Path):
    goaway = bytes((0, 0, 8, 7, 0, 0, 0, 0, 0, *[0] * 8))  # of no stream
    with pytest.raises(transport.GoingError, match=r"UNAVAILABLE.*shutting down"):
        _ask(str(tmp_path / "s"), _SETTINGS + goaway)


@pytest.mark.parametrize(
    "answer",
    [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 64, os.urandom(256)],
    ids=["closes", "http1", "zeros", "random"],
)
def test_not_a_grpc_server(tmp_path: Path, answer: bytes):
    with pytest.raises(CallError, match="UNAVAILABLE"):
        _ask(str(tmp_path / "s"), answer)
    assert not transport._open_sockets
