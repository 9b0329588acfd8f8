# SPDX-License-Identifier: Apache-2.0
"""Scripts judged in a process of their own, which may crash or hang.

    python -m tensord.debug.isolated

is that process (child.py): it says that it has begun, then reads a task a line, as JSON, and
answers with its outcome.
"""

from __future__ import annotations

import dataclasses
import json
import runpy
import sys
import time
from types import TracebackType
from typing import Any

from ..child import Child, replies
from .judge import Outcome

# Until torch is imported.
_START_SECONDS = 300.0


class Isolated:
    """One such process, started at the first task and again after each death."""

    def __init__(self, seconds: float) -> None:
        """seconds: for one task, after which the process is ended."""
        self._seconds = seconds
        self._child = Child([sys.executable, "-m", __name__])

    def __enter__(self) -> Isolated:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._child.close()

    def judge(self, script: str, backend: str, dynamic: bool | None) -> Outcome:
        """What came of the script of that path; "crash" and "hang" of a process that died."""
        if not self._child.is_running:
            self._child.start()
            if not self._line(_START_SECONDS):
                raise RuntimeError(f"no process could be started:\n{self._child.said()}")
        task = {"script": script, "backend": backend, "dynamic": dynamic}
        self._child.send(json.dumps(task))
        line = self._line(self._seconds)
        if line:
            return Outcome(**json.loads(line))
        hung = line is None
        code = "it was ended" if hung else f"it ended with {self._child.wait()}"
        self._child.close()
        kind = "hang" if hung else "crash"
        return Outcome(kind, kind, f"{code}\n{self._child.said()}")

    def _line(self, seconds: float) -> bytes | None:
        """The next line; nothing when the process died, None when the time is up."""
        deadline = time.monotonic() + seconds
        found = b""
        while not found.endswith(b"\n"):
            part = self._child.read(deadline - time.monotonic())
            if not part:
                return part
            found += part
        return found


def _judged(task: dict[str, Any]) -> Outcome:
    from .verdict import judge

    space = runpy.run_path(task["script"])
    return judge(space["program"], space["inputs"], task["backend"], task["dynamic"])


def _serve() -> None:
    with replies() as out:
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
    _serve()
