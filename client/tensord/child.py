# SPDX-License-Identifier: Apache-2.0
"""A process that is given lines and answers with lines, and may crash or hang.

Its answers come over a pipe of their own, since what it prints must not be taken for one; what it
prints is kept, to be told when it died. Imports nothing but the standard library, so that the
parent stays small.
"""

from __future__ import annotations

import os
import select
import subprocess
import tempfile
from collections.abc import Sequence
from typing import TextIO

# In the child's environment: the number of the descriptor for its answers.
_REPLIES = "TENSORD_CHILD_REPLIES"
_TAIL = 2000  # characters of what it printed
_READ = 1 << 16  # bytes of it that are looked through for them
_MODULES = "Extension modules: "


class Child:
    """One such process at a time, of one command; it calls `replies`."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._replies = -1
        self._log = tempfile.TemporaryFile()

    @property
    def is_running(self) -> bool:
        """True from `start` to `close`, also for a process that has died."""
        return self._process is not None

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None
        return self._process

    def start(self) -> None:
        """Starts the process, with an empty record of what it prints."""
        self._replies, child = os.pipe()
        self._log.truncate(0)
        self._log.seek(0)
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(child,),
            env={**os.environ, _REPLIES: str(child)},
            start_new_session=True,
        )
        os.close(child)

    def send(self, line: str) -> None:
        """Gives it a line. That it is dead is for `read` to see."""
        stdin = self._running.stdin
        assert stdin is not None
        try:
            stdin.write(line.encode() + b"\n")
            stdin.flush()
        except BrokenPipeError:
            pass

    def read(self, seconds: float) -> bytes | None:
        """Some of its answers; nothing once it has ended, None when the time is up before."""
        if seconds <= 0 or not select.select([self._replies], [], [], seconds)[0]:
            return None
        return os.read(self._replies, 1 << 16)

    def said(self) -> str:
        """The end of what it printed, without the list of modules that faulthandler ends with."""
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _READ))
        lines = self._log.read().decode(errors="replace").splitlines(keepends=True)
        return "".join(line for line in lines if not line.startswith(_MODULES))[-_TAIL:]

    def wait(self) -> int:
        """Its exit status, once it has ended."""
        return self._running.wait()

    def kill(self) -> None:
        """Ends it; also from another thread, where whoever reads sees the end."""
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Ends it, where it has not ended, and lets go of its pipes."""
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        os.close(self._replies)
        self._process = None


def replies() -> TextIO:
    """In the child: where its answers go."""
    return os.fdopen(int(os.environ[_REPLIES]), "w")
