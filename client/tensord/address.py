"""Where the daemon listens, and where its files lie.

TENSORD_ADDRESS overrides the socket: a path, "unix:PATH", or "HOST:PORT".
"""

from __future__ import annotations

import os
import socket
import stat
from dataclasses import dataclass


@dataclass(frozen=True)
class Address:
    """A daemon's address. Exactly one of `path` (a Unix socket) and `host_port` is set.

    explicit: it comes from TENSORD_ADDRESS, so whoever set it answers for the daemon behind it.
    """

    path: str | None
    host_port: str | None
    explicit: bool

    @property
    def grpc_target(self) -> str:
        """The target string for gRPC."""
        return f"unix:{self.path}" if self.path is not None else f"dns:///{self.host_port}"

    def __str__(self) -> str:
        return self.path if self.path is not None else str(self.host_port)


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
        return Address(os.path.join(runtime_folder(), "tensord.sock"), None, False)
    if text.startswith("unix:"):
        path = text.removeprefix("unix:")
        # "unix:///run/x" and "unix:/run/x" are both usual.
        path = "/" + path.lstrip("/") if path.startswith("//") else path
        return Address(os.path.abspath(path), None, True)
    if "/" in text:
        return Address(os.path.abspath(text), None, True)
    if ":" not in text:
        raise ValueError(
            f"TENSORD_ADDRESS={text!r} is neither a socket's path, unix:PATH nor HOST:PORT"
        )
    return Address(None, text, True)


def listens(address: Address) -> bool:
    """True when something accepts connections on the Unix socket (always True for HOST:PORT).

    It is cheaper than a gRPC channel, and needs no import of grpc.
    """
    if address.path is None:
        return True
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
    if address.explicit or address.path is None:
        return None
    try:
        info = os.lstat(address.path)
    except OSError:
        return None
    if stat.S_ISSOCK(info.st_mode) and info.st_uid in (0, os.getuid()):
        return None
    return info.st_uid
