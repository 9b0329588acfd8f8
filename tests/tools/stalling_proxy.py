# SPDX-License-Identifier: Apache-2.0
"""A server that answers until it is asked for something: a proxy before a real one."""

from __future__ import annotations

import contextlib
import socket
import threading
from pathlib import Path


class StallingProxy:
    """On a Unix socket in `folder`, until it is closed. Passes everything on to the Unix socket
    `server` and back, but for a request with the bytes `at`: neither that nor what follows on the
    connection has an answer."""

    def __init__(self, folder: Path, server: Path, at: bytes) -> None:
        self.path = folder / "stalls"
        self.stalled = 0  # connections
        self._server, self._at = server, at
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.socket(socket.AF_UNIX)
                server.connect(str(self._server))
                self._open += [client, server]
                threading.Thread(target=self._ask, args=(client, server), daemon=True).start()
                threading.Thread(target=self._answer, args=(client, server), daemon=True).start()

    def _ask(self, client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while request := client.recv(1 << 20):
                if self._at in request:
                    self.stalled += 1
                    while client.recv(1 << 20):
                        pass
                server.sendall(request)

    @staticmethod
    def _answer(client: socket.socket, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while answer := server.recv(1 << 20):
                client.sendall(answer)

    def close(self) -> None:
        """Ends all connections."""
        for one in (self._listener, *self._open):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
