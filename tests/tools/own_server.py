# SPDX-License-Identifier: Apache-2.0
"""A server process of a test's own, on the loopback."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

_Server = TypeVar("_Server", bound="OwnServer")


def free_port() -> int:
    """A port of the loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class OwnServer:
    """What of one is common. It works in its folder, and logs there to the file `log`."""

    START_TIMEOUT_S = 20.0
    folder: Path
    process: subprocess.Popen[bytes]

    def _start(self, command: list[str], address: tuple[str, int] | Path, **how: Any) -> None:
        """Starts the process, and waits until it listens: on a port, or a Unix socket. how: more
        arguments of Popen. Raises RuntimeError with its log."""
        self.process = subprocess.Popen(command, cwd=self.folder, stdin=subprocess.DEVNULL, **how)
        deadline = time.monotonic() + self.START_TIMEOUT_S
        while not _listens(address):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                log = self.folder / "log"
                raise RuntimeError(log.read_text() if log.exists() else f"{command[0]}: no start")
            time.sleep(0.02)

    def stop(self) -> None:
        """Ends the process at once; what it has on disk stays."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)

    def __enter__(self: _Server) -> _Server:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def _listens(address: tuple[str, int] | Path) -> bool:
    with contextlib.suppress(OSError):
        if isinstance(address, tuple):
            socket.create_connection(address, 1).close()
        else:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(address))
        return True
    return False
