# SPDX-License-Identifier: Apache-2.0
"""Where the daemon listens, and where its files lie.

TENSORD_ADDRESS overrides the socket: a path, "unix:PATH" or "tls://HOST:PORT". What a daemon
answers is loaded as code, which no unprotected connection may carry: there is no TCP without TLS.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
import urllib.parse
from dataclasses import dataclass
from typing import Any

# A host that is not there says nothing at all.
_PROBE_S = 0.25


@dataclass(frozen=True)
class Address:
    """A daemon's address: the path of a Unix socket, or else a host and port with TLS.

    explicit: it comes from TENSORD_ADDRESS, so whoever set it answers for the daemon behind it.
    """

    path: str | None
    explicit: bool
    host: str = ""  # IPv6 without brackets
    port: int = 0

    def __str__(self) -> str:
        if self.path is not None:
            return self.path
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"tls://{host}:{self.port}"


def runtime_folder() -> str:
    """The folder of the socket and its locks: $XDG_RUNTIME_DIR/tensord or /tmp/tensord-UID."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    return os.path.join(base, "tensord") if base else f"/tmp/tensord-{os.getuid()}"


def state_folder() -> str:
    """The folder of the log: $XDG_STATE_HOME/tensord or ~/.local/state/tensord."""
    base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.path.join(base, "tensord")


def resolve() -> Address:
    """The address that this process should use now."""
    text = os.environ.get("TENSORD_ADDRESS", "").strip()
    if not text:
        return Address(os.path.join(runtime_folder(), "tensord.sock"), False)
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        # "unix:///run/x" and "unix:/run/x" are both usual.
        path = "/" + path.lstrip("/") if path.startswith("//") else path
        return Address(os.path.abspath(path), True)
    if text.startswith("tls://"):
        return _network(text)
    if "/" in text and "://" not in text:
        return Address(os.path.abspath(text), True)
    raise ValueError(
        f"TENSORD_ADDRESS={text!r} is neither a socket's path nor unix:PATH nor tls://HOST:PORT"
    )


def _network(text: str) -> Address:
    try:
        parts = urllib.parse.urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # of the port, or of brackets
        host = port = None
    if not host or not port or text.removeprefix("tls://") != parts.netloc or "@" in text:
        raise ValueError(f"TENSORD_ADDRESS={text!r} is not tls://HOST:PORT")
    try:
        host.encode("idna")
    except UnicodeError as error:  # which whoever looks it up would raise, and that is no OSError
        raise ValueError(
            f"TENSORD_ADDRESS={text!r} is not tls://HOST:PORT: a label of the host is empty, "
            "longer than 63 characters, or of characters that no name has"
        ) from error
    return Address(None, True, host, port)


# Of a host's addresses the one that answered last. One before it that is silent would cost each
# call its time.
_answered: dict[Address, Any] = {}


def look_up(address: Address) -> list[tuple[int, Any]]:
    """Families and addresses of a host, as sockets take them: first what answered last."""
    found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    answered = _answered.get(address)
    return sorted(((one[0], one[4]) for one in found), key=lambda one: one[1] != answered)


def note_answer(address: Address, where: Any) -> None:
    """where: which of its addresses answered; None: the one that took the connection did not."""
    _answered[address] = where


def _takes_connections(family: int, where: Any) -> bool:
    with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(_PROBE_S)
        probe.connect(where)
        return True
    return False


def listens(address: Address) -> bool:
    """True when something accepts connections there, at a fraction of an RPC's cost."""
    try:
        if address.path is None:
            return any(_takes_connections(*found) for found in look_up(address))
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            probe.connect(address.path)
        return True
    except OSError:
        return False


def foreign_owner(address: Address) -> int | None:
    """The user id that owns the default socket, if it is neither ours nor root's.

    The default socket may lie in /tmp, where anyone can make the folder first; a daemon of another
    user could hand us code to load. An explicit address is trusted.
    """
    if address.explicit or address.path is None:
        return None
    try:
        info = os.lstat(address.path)
    except OSError:
        return None
    if stat.S_ISSOCK(info.st_mode) and info.st_uid in (0, os.getuid()):
        return None
    return info.st_uid
