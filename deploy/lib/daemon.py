# SPDX-License-Identifier: Apache-2.0
"""A private daemon: its own socket, ended by its own process id."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 30.0


class Daemon:
    """Context manager: runs `binary` with a socket and a log in `folder`, and stops it after.

    folder must be short: a socket's path has at most 107 bytes.
    """

    def __init__(
        self, binary: Path | str, folder: Path, store: Path, flags: Sequence[str] = ()
    ) -> None:
        self.address = f"unix:{folder}/tensord.sock"
        self._socket = folder / "tensord.sock"
        self._log = folder / "tensord.log"
        self._command = [str(binary), "--address", self.address, "--store", str(store), *flags]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The daemon, between entry and exit."""
        assert self._process is not None
        return self._process

    def __enter__(self) -> Daemon:
        # What the caller's own daemon is told does not concern this one.
        environment = {
            k: v for k, v in os.environ.items() if k not in ("TENSORD_ADDRESS", "TENSORD_STORE")
        }
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._listens():
            if self._process.poll() is not None or time.monotonic() > deadline:
                log_tail = self.log_tail()
                self._stop()
                raise SystemExit(f"the daemon did not start:\n{log_tail}")
            time.sleep(0.02)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def _stop(self) -> None:
        process = self._process
        if process is None or process.poll() is not None:
            return
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _listens(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(str(self._socket))
            return True
        except OSError:
            return False

    def statistics(self) -> dict[str, Any]:
        """The daemon's statistics, asked over RPC (stats.proto)."""
        os.environ["TENSORD_ADDRESS"] = self.address
        import tensord

        return tensord.daemon_stats()

    def log_tail(self, lines: int = 20) -> str:
        """The end of its log."""
        try:
            return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""
