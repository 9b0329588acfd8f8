# SPDX-License-Identifier: Apache-2.0
"""Where a call goes, and how a connection to there is opened: to a Unix socket here, by TLS in
`tls`."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

# Takes a socket in hand, for a fork to close, and gives it back.
Adopt = Callable[[socket.socket], socket.socket]


class Endpoint(Protocol):
    """A server."""

    scheme: str  # as HTTP/2 has it
    authority: str
    headers: list[tuple[str, str]]  # that each call brings
    # What a socket raises that is not to wait, when nothing has come.
    nothing_yet: type[OSError]

    def open(self, adopt: Adopt, arm: Callable[[], None]) -> None:
        """Connects a socket that it gives to `adopt`; `arm` sets its timeout for the next step.
        Raises what the socket does."""

    def failure(self, error: OSError | None, greeted: bool) -> tuple[str, str]:
        """The gRPC code's name and the words for what a socket raised, None where the server closed
        the connection. greeted: it had sent something of HTTP/2."""


class UnixEndpoint:
    """A Unix socket: who reaches it is let in."""

    scheme = "http"
    authority = "localhost"
    nothing_yet: type[OSError] = BlockingIOError

    def __init__(self, path: str) -> None:
        self._path = path
        self._connected = False
        self.headers: list[tuple[str, str]] = []

    def open(self, adopt: Adopt, arm: Callable[[], None]) -> None:
        made = adopt(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        arm()
        made.connect(self._path)
        self._connected = True

    def failure(self, error: OSError | None, greeted: bool) -> tuple[str, str]:
        if error is None:
            return "UNAVAILABLE", "the daemon closed the connection"
        if not self._connected:
            return "UNAVAILABLE", f"{self._path}: {error.strerror or error}"
        return "UNAVAILABLE", f"the connection broke: {error}"
