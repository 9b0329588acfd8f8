# SPDX-License-Identifier: Apache-2.0
"""What else may be at either end of a connection by TLS, and what it costs."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import ssl
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tensord
from listener import Listener, Serve, say_nothing
from real_daemon import RealDaemon
from tensord.errors import DaemonRefusedError, DaemonSilentError, DaemonUnavailableError
from tensord.v1 import requests_pb2
from tensord.wire import address, rpc
from tls_fixtures import (
    WAIT_S,
    Files,
    Settings,
    address_of,
    compile_one,
    port_of,
    refused,
)

pytest_plugins = ["tls_fixtures"]


def shake(port: int, version: ssl.TLSVersion, ca: Path) -> str | None:
    """The version of TLS that a client gets who has this one alone."""
    context = ssl.create_default_context(cafile=str(ca))
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.set_alpn_protocols(["h2"])
    context.minimum_version = context.maximum_version = version
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            return connection.version()


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_no_tls_before_1_2(start: Callable[..., RealDaemon], files: Files) -> None:
    port, ca = port_of(start(*files.flags("token"))), files.authority.path
    assert shake(port, ssl.TLSVersion.TLSv1_2, ca) == "TLSv1.2"
    assert shake(port, ssl.TLSVersion.TLSv1_3, ca) == "TLSv1.3"
    for old in (ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            shake(port, old, ca)


def listen(serve: Serve | None) -> tuple[Listener, int]:
    """And its port."""
    listening = socket.create_server(("127.0.0.1", 0))
    return Listener(listening, serve), listening.getsockname()[1]


def end_at_once(connection: socket.socket) -> None:
    pass


def talk_plainly(connection: socket.socket) -> None:
    connection.sendall(b"\0\0\0\4\0\0\0\0\0" * 3)  # settings of HTTP/2
    say_nothing(connection)


@pytest.mark.parametrize("serve", [None, say_nothing])
def test_a_silent_peer_costs_a_quarter_of_a_second(
    settings: Settings, serve: Callable[[socket.socket], None] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(rpc, "GREETING_SILENCE_S", 0.25)
    listener, port = listen(serve)
    settings.use(f"tls://127.0.0.1:{port}")
    start = time.monotonic()
    silences = []
    for _ in range(9):
        with pytest.raises(DaemonSilentError, match=r"no sign of life for 0\.25 s") as caught:
            rpc.client().hello()
        silences.append(caught.value)
    # A second in all, however many graphs there are: of the fourth silence the others hear.
    assert all(one is silences[3] for one in silences[3:])
    assert len({id(one) for one in silences}) == 4
    assert 0.8 < time.monotonic() - start < WAIT_S
    compile_one(6.0)
    assert tensord.stats()["fallbacks"] == 1
    listener.close()


def test_a_compile_waits_for_a_silent_handshake_as_for_a_connection(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not until its own deadline, also where nobody has been greeted."""
    monkeypatch.setenv("TENSORD_TIMEOUT_S", str(2 * WAIT_S))
    listener, port = listen(say_nothing)
    settings.use(f"tls://127.0.0.1:{port}")
    assert rpc.client().heartbeat() is None
    start = time.monotonic()
    for ask in (
        lambda: rpc.client().compile(requests_pb2.CompileRequest()),
        lambda: rpc.client().watch_compiles(1.0),
    ):
        rpc.client().forget()
        with pytest.raises(DaemonSilentError, match="no sign of life for 2 s"):
            ask()
    assert time.monotonic() - start < WAIT_S
    listener.close()


def meets(
    monkeypatch: pytest.MonkeyPatch, hosts: list[str], silent: set[str]
) -> list[tuple[str, int]]:
    """Every name has these addresses, and those that are silent take no connection. Where
    connections went."""
    tried: list[tuple[str, int]] = []
    connect = socket.socket.connect

    def connect_unless_silent(made: socket.socket, where: tuple[str, int]) -> None:
        tried.append(where)
        assert made.gettimeout() is not None
        if where[0] in silent:
            raise TimeoutError("timed out")
        connect(made, where)

    def look_up(host: str, port: int, **_: object) -> list[tuple[object, ...]]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in hosts]

    monkeypatch.setattr(socket.socket, "connect", connect_unless_silent)
    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return tried


def test_an_address_that_is_silent_is_followed_by_the_next(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    daemon = start(*files.flags("token"))
    port = port_of(daemon)
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    monkeypatch.setattr(rpc, "GREETING_SILENCE_S", WAIT_S)  # this one is to be heard
    tried = meets(monkeypatch, ["192.0.2.1", "127.0.0.1"], {"192.0.2.1"})
    assert rpc.client().hello().pid == daemon.process.pid
    assert tried == [("192.0.2.1", port), ("127.0.0.1", port)]
    # From then on it costs nothing, neither a look whether somebody listens nor a greeting.
    tried.clear()
    assert address.listens(address.resolve())
    rpc.client().forget()
    assert rpc.client().hello().pid == daemon.process.pid
    assert set(tried) == {("127.0.0.1", port)} and len(tried) > 1


def test_all_addresses_are_silent(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.use("tls://localhost:7464")
    tried = meets(monkeypatch, ["192.0.2.1", "192.0.2.2"], {"192.0.2.1", "192.0.2.2"})
    with pytest.raises(DaemonSilentError, match="no sign of life"):
        rpc.client().hello()
    assert tried == [("192.0.2.1", 7464), ("192.0.2.2", 7464)]


@pytest.mark.parametrize(("serve", "words"), [
    (talk_plainly, "does not speak TLS"),
    (end_at_once, "closed|EOF|reset"),
])  # fmt: skip
def test_a_peer_without_tls(
    settings: Settings, serve: Callable[[socket.socket], None], words: str
) -> None:
    listener, port = listen(serve)
    settings.use(f"tls://127.0.0.1:{port}")
    refused(DaemonUnavailableError, words)
    listener.close()


def test_a_peer_that_says_why_it_refuses(files: Files, settings: Settings) -> None:
    """As servers do whose TLS sends its alerts, which that of the daemon's gRPC does not."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files.server.path, files.server.key)
    context.load_verify_locations(files.authority.path)
    context.verify_mode = ssl.CERT_REQUIRED
    context.set_alpn_protocols(["h2"])

    def refuse(plain: socket.socket) -> None:
        with context.wrap_socket(
            plain, server_side=True, do_handshake_on_connect=False
        ) as connection:
            with contextlib.suppress(ssl.SSLError):
                connection.do_handshake()
            # What lies unread when a socket is closed takes the alert along.
            while os.read(connection.fileno(), 4096):
                pass

    listener, port = listen(refuse)
    foreign = files.stranger.issue("foreign", "DNS:job")
    late = files.authority.issue("late", "DNS:job", days=-1)
    shown: list[tuple[dict[str, Path], str]] = [
        ({}, "asks for a certificate: set TENSORD_TLS_CERT and TENSORD_TLS_KEY"),
        (
            {"cert": foreign.path, "key": foreign.key},
            "not take .*TENSORD_TLS_CERT.*UNKNOWN_CA",
        ),
        ({"cert": late.path, "key": late.key}, "not take .*TENSORD_TLS_CERT.*EXPIRED"),
    ]
    for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
        context.minimum_version = context.maximum_version = version
        for own, words in shown:
            settings.use(f"tls://localhost:{port}", ca=files.authority.path, **own)
            with pytest.raises(DaemonRefusedError, match=words):
                rpc.client().hello()
    listener.close()


def test_the_port_takes_neither_plain_text_nor_silence(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    """Who connects and says nothing is given up after ten seconds."""
    daemon = start(*files.flags("token"))
    silent = socket.create_connection(("127.0.0.1", port_of(daemon)), WAIT_S)
    began = time.monotonic()
    for _ in range(20):
        with socket.create_connection(("127.0.0.1", port_of(daemon)), WAIT_S) as plain:
            plain.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            answer = b""
            with contextlib.suppress(ConnectionError):
                while piece := plain.recv(4096):
                    answer += piece
            assert b"\0\0\0\4" not in answer  # at most an alert of TLS
    with contextlib.suppress(ConnectionError):
        assert silent.recv(1) == b""
    assert 5 < time.monotonic() - began < WAIT_S
    # gRPC's words are in the daemon's log, for each place in its sources once a minute.
    assert 1 <= daemon.log_text().count("event=grpc") <= 3
    assert not re.search(r"^[EI]\d{4} ", daemon.log_text(), re.MULTILINE)
    # All the while others are served.
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    assert rpc.client().hello().protocol == rpc.PROTOCOL
