# SPDX-License-Identifier: Apache-2.0
"""Scripts judged in a process of their own, which may crash or hang.

    python -m tensord.debug.isolated FD

is that process: it says that it has begun, then reads a task a line, as JSON, and writes its
outcome to the file descriptor.
"""

from __future__ import annotations

import dataclasses
import json
import os
import runpy
import select
import subprocess
import sys
import tempfile
import time
from types import TracebackType
from typing import Any

from .judge import Outcome

_TAIL = 2000
# Until torch is imported.
_START_SECONDS = 300.0


class Isolated:
    """One such process, started at the first task and again after each death."""

    def __init__(self, seconds: float) -> None:
        """seconds: for one task, after which the process is ended."""
        self._seconds = seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._replies = -1
        self._log = tempfile.TemporaryFile()

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._close()
        self._log.close()

    def judge(self, script: str, backend: str, dynamic: bool | None) -> Outcome:
        """What came of the script of that path; "crash" and "hang" of a process that died."""
        if self._process is None:
            self._start()
            if self._line(_START_SECONDS) is None:
                raise RuntimeError(f"no process could be started:\n{self._said()}")
        assert self._process is not None and self._process.stdin is not None
        task = {"script": script, "backend": backend, "dynamic": dynamic}
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its death is seen below
        line = self._line(self._seconds)
        if line is not None:
            return Outcome(**json.loads(line))
        hung = self._process.poll() is None
        code = "it was ended" if hung else f"it ended with {self._process.wait()}"
        self._close()
        kind = "hang" if hung else "crash"
        return Outcome(kind, kind, f"{code}\n{self._said()}")

    def _start(self) -> None:
        self._replies, child = os.pipe()
        self._log.truncate(0)
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(child)],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            pass_fds=(child,),
            start_new_session=True,
        )
        os.close(child)

    def _line(self, seconds: float) -> bytes | None:
        """The next line; None when the process died or the time is up."""
        deadline = time.monotonic() + seconds
        found = b""
        while not found.endswith(b"\n"):
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._replies], [], [], left)[0]:
                return None
            part = os.read(self._replies, 1 << 16)
            if not part:
                assert self._process is not None
                self._process.wait()
                return None
            found += part
        return found

    def _said(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _TAIL))
        return self._log.read().decode(errors="replace")

    def _close(self) -> None:
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


def _judged(task: dict[str, Any]) -> Outcome:
    from .verdict import judge

    space = runpy.run_path(task["script"])
    return judge(space["program"], space["inputs"], task["backend"], task["dynamic"])


def _serve(replies: int) -> None:
    with os.fdopen(replies, "w") as out:
        out.write("{}\n")
        out.flush()
        for line in sys.stdin:
            try:
                outcome = _judged(json.loads(line))
            except Exception as error:  # a script that is none
                outcome = Outcome("invalid", type(error).__name__, str(error))
            out.write(json.dumps(dataclasses.asdict(outcome)) + "\n")
            out.flush()


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
