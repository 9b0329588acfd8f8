# SPDX-License-Identifier: Apache-2.0
"""Servers that take connections and are of no use: each in its own way. What some of them say is
Redis's or HTTP/2's, as far as it goes."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable

# Of a socket that is closed: the other side is told to forget the connection.
RESET = struct.pack("ii", 1, 0)


def _frame(kind: int, payload: bytes) -> bytes:
    """Of HTTP/2, without flags, of no stream."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, 0, 0, 0, 0, 0]) + payload


_SETTINGS = _frame(4, b"")  # by which gRPC knows that it is connected
# By scheme: the beginning of a long answer, and an answer of 1 MB to go on with.
_BEGINS = {"redis": b"$9999\r\n", "grpc": _SETTINGS + _frame(0x7F, bytes(9999))[:9]}
_MEGABYTE = {
    "redis": b"$1000000\r\n" + b"x" * 1_000_000 + b"\r\n",
    "grpc": _SETTINGS + _frame(0x7F, bytes(10_000)) * 100,
}


def _silent(connection: socket.socket, _: str) -> None:
    while connection.recv(65536):
        pass


def _resets(connection: socket.socket, _: str) -> None:
    connection.recv(65536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


def _garbage(connection: socket.socket, _: str) -> None:
    while connection.recv(65536):
        connection.sendall(os.urandom(4096))


def _drips(connection: socket.socket, scheme: str) -> None:
    connection.recv(65536)
    connection.sendall(_BEGINS[scheme])
    while True:
        connection.sendall(b"x")
        time.sleep(0.02)


def _endless(connection: socket.socket, scheme: str) -> None:
    connection.recv(65536)
    while True:
        connection.sendall(_MEGABYTE[scheme])


SCHEMES = tuple(_BEGINS)
KINDS: dict[str, Callable[[socket.socket, str], None] | None] = {
    "refuses": None,  # nobody listens
    "blackholed": None,  # what asks for a connection is dropped, as behind a firewall
    "silent": _silent,
    "resets": _resets,
    "garbage": _garbage,
    "drips": _drips,
    "endless": _endless,
}


class BadServer:
    """On a port of the loopback, until it is closed. scheme: of its URL."""

    def __init__(self, kind: str, scheme: str = "redis") -> None:
        self._serve = KINDS[kind]
        self._scheme = scheme
        blackholed = kind == "blackholed"
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=0 if blackholed else 64)
        self.port = self._listener.getsockname()[1]
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.connections = 0
        self._open: list[socket.socket] = []
        if blackholed:
            self._fill_queue()
        elif self._serve is None:
            self._listener.close()
        else:
            threading.Thread(target=self._accept, daemon=True).start()

    def _fill_queue(self) -> None:
        """Of connections that nobody accepts: Linux drops all that come behind them."""
        is_connected = True
        while is_connected:
            connection = socket.socket()
            self._open.append(connection)
            connection.setblocking(False)
            connection.connect_ex(("127.0.0.1", self.port))
            is_connected = bool(select.select([], [connection], [], 0.2)[1])

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                self.connections += 1
                self._open.append(connection)
                threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        assert self._serve is not None
        with contextlib.suppress(OSError), connection:
            self._serve(connection, self._scheme)

    def close(self) -> None:
        """Ends all connections."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
