# SPDX-License-Identifier: Apache-2.0
"""Sockets on which something else than a daemon listens."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable

Serve = Callable[[socket.socket], None]


class Listener:
    """Takes a listening socket's connections and gives each to `serve` in a thread; None leaves
    them in its queue."""

    def __init__(self, listening: socket.socket, serve: Serve | None) -> None:
        self._socket = listening
        self._serve = serve
        if serve is not None:
            threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            threading.Thread(target=self._run, args=(connection,), daemon=True).start()

    def _run(self, connection: socket.socket) -> None:
        assert self._serve is not None
        with connection, contextlib.suppress(OSError):  # the client gave up
            self._serve(connection)

    def close(self) -> None:
        self._socket.close()


def say_nothing(connection: socket.socket) -> None:
    while connection.recv(4096):
        pass
