# SPDX-License-Identifier: Apache-2.0
"""Where the daemon listens, and where its files lie.

TENSORD_ADDRESS overrides the socket: a path or "unix:PATH". A daemon serves its own host only: what
it answers is loaded as code, which no unprotected connection may carry.
"""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """A daemon's address: the path of a Unix socket.

    explicit: it comes from TENSORD_ADDRESS, so whoever set it answers for the daemon behind it.
    """

    path: str
    explicit: bool

    def __str__(self) -> str:
        return self.path


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
    if "/" in text:
        return Address(os.path.abspath(text), True)
    raise ValueError(f"TENSORD_ADDRESS={text!r} is neither a socket's path nor unix:PATH")


def listens(address: Address) -> bool:
    """True when something accepts connections on the socket, at a fraction of an RPC's cost."""
    try:
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
    if address.explicit:
        return None
    try:
        info = os.lstat(address.path)
    except OSError:
        return None
    if stat.S_ISSOCK(info.st_mode) and info.st_uid in (0, os.getuid()):
        return None
    return info.st_uid
