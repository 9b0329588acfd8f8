# SPDX-License-Identifier: Apache-2.0
"""A daemon of the tests' own: its socket, store and log are in a temporary folder."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import kept_kernels as kernels

ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 30.0


def binary(name: str = "tensord") -> Path:
    """A built program of this checkout."""
    return ROOT / "build" / "bin" / name


class RealDaemon:
    """One tensord process, started at once, unless `starts` is False.

    folder: where its socket, store and log go; a temporary one when None.
    environment: added to the daemon's environment. flags: added to its command line.
    passed: a socket that listens already, for the daemon to serve, as of a service manager.
    kept_kernels: whether its store begins with the kernels of earlier runs (kept_kernels.py).
    program: the daemon's binary, of another version, say; this checkout's when None.
    """

    def __init__(
        self,
        folder: Path | None = None,
        environment: dict[str, str] | None = None,
        flags: tuple[str, ...] = (),
        passed: socket.socket | None = None,
        kept_kernels: bool = False,
        program: Path | None = None,
        starts: bool = True,
    ) -> None:
        self._temporary = None
        if folder is None:
            # A socket's path is at most 107 bytes, which pytest's own folders may exceed.
            self._temporary = tempfile.TemporaryDirectory(prefix="td", ignore_cleanup_errors=True)
            folder = Path(self._temporary.name)
        self.folder = folder
        self.socket = folder / "s"
        self.store = folder / "store"
        self.log = folder / "log"
        self.address = f"unix:{self.socket}"
        self._environment = environment or {}
        self._flags = flags
        self._passed = passed
        self._keeps = kept_kernels
        self._program = program or binary()
        if self._keeps:
            kernels.lend(self.store)
        if starts:
            self.start()

    def start(self) -> None:
        """Starts the process and waits until it listens; raises RuntimeError with its log."""
        starts = self._starts()
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("TENSORD_") or name == "TENSORD_NVRTC"
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *self._activation(),
                    str(self._program),
                    f"--address={self.address}",
                    f"--store={self.store}",
                    *self._flags,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**inherited, "TENSORD_CONFIG": "/dev/null", **self._environment},
                pass_fds=() if self._passed is None else (self._passed.fileno(),),
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.listens() or self._starts() == starts:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the daemon did not start:\n{self.log_text()}")
            time.sleep(0.02)

    def _activation(self) -> list[str]:
        """What runs the daemon with the passed socket (sd_listen_fds(3)), or nothing."""
        if self._passed is None:
            return []
        script = (
            f"import os, sys; os.dup2({self._passed.fileno()}, 3); "
            "os.environ |= {'LISTEN_FDS': '1', 'LISTEN_PID': str(os.getpid())}; "
            "os.execv(sys.argv[1], sys.argv[1:])"
        )
        return [sys.executable, "-IS", "-c", script]

    def listens(self) -> bool:
        """True when the socket takes connections."""
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(str(self.socket))
            return True
        except OSError:
            return False

    def _starts(self) -> int:
        """How often it has begun to serve; a passed socket listens before."""
        return self.log_text().count("event=started")

    def log_text(self) -> str:
        """What the daemon has logged."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def workers(self) -> list[int]:
        """Process ids of its workers."""
        found: list[int] = []
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            try:
                found += [int(pid) for pid in (task / "children").read_text().split()]
            except OSError:
                continue  # the thread has ended
        return sorted(found)

    def suspend(self) -> None:
        """Stops all its threads. Returns once they stand: until then one of them may still answer
        while another takes the signal."""
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Lets its threads go on after `suspend`; does nothing to a process that runs."""
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Ends the process at once, as a crash would."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int | None:
        """Ends the process gracefully and returns its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def close(self) -> None:
        """Ends the process and removes its folder."""
        self.stop()
        if self._keeps:
            kernels.keep(self.store)
        if self._temporary is not None:
            self._temporary.cleanup()
