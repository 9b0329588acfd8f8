# SPDX-License-Identifier: Apache-2.0
"""Processes that do tasks which may crash or hang: a death costs one task, and is its result.

A task and its reply are JSON objects. The parent makes a `Worker` a thread and asks it; the program
that the worker runs calls `serve`. This module imports nothing but the standard library, so that
the parent stays small.
"""

from __future__ import annotations

import json
import os
import queue
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

# The number of the file descriptor for replies: what a task prints must not be taken for one.
_REPLIES = "TENSORD_TEST_REPLIES"
_LOG_TAIL = 2000

Json = dict[str, Any]


class WorkerDiedError(Exception):
    """The process ended, or was ended because its time was up.

    hung: it was ended. said: what it had noted before (`note` of serve's handler).
    """

    def __init__(self, why: str, hung: bool, said: Json) -> None:
        super().__init__(why)
        self.hung = hung
        self.said = said


class Worker:
    """One process, started at the first task and again after each death.

    command: the program, which calls serve. renew_after: tasks after which a new process is
    started, since what torch and the backend keep of each program adds up.
    """

    def __init__(self, command: list[str], renew_after: int = 150) -> None:
        self._command = command
        self._renew_after = renew_after
        self._process: subprocess.Popen[bytes] | None = None
        self._replies = -1
        self._tasks = 0
        self._killed = False
        self._log = tempfile.TemporaryFile()

    @property
    def is_running(self) -> bool:
        """False where the next task waits for a process to start, too."""
        return self._process is not None

    def ask(self, task: Json, timeout: float, silence: float | None = None) -> Json:
        """The reply; raises WorkerDiedError after a crash, or when `timeout` seconds are over.

        silence: where given, `timeout` is for the first message, and then so many seconds may pass
        from each note to the next message.
        """
        if self._process is None:
            self._start()
        assert self._process is not None and self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(task).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # its death is seen below
        said: Json = {}
        for message in self._messages(timeout, silence, said):
            if "note" in message:
                said |= message["note"]
                continue
            self._tasks += 1
            if self._tasks >= self._renew_after:
                self.close()
            return said | message
        raise AssertionError("_messages ends with a reply or raises")

    def _start(self) -> None:
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
        self._tasks = 0

    def _messages(self, timeout: float, silence: float | None, said: Json) -> Iterable[Json]:
        buffer = b""
        deadline = time.monotonic() + timeout
        while True:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._replies], [], [], left)[0]:
                tail = self._tail()
                self.close()
                raise WorkerDiedError(f"no answer in time\n{tail}", True, said)
            chunk = os.read(self._replies, 1 << 16)
            if not chunk and self._killed:
                raise KeyboardInterrupt  # the run is ended: no result of the task
            if not chunk:
                assert self._process is not None
                code = self._process.wait()
                why = f"ended with {code}\n{self._tail()}"
                self.close()
                raise WorkerDiedError(why, False, said)
            if silence is not None:
                deadline = time.monotonic() + silence
            *lines, buffer = (buffer + chunk).split(b"\n")
            yield from map(json.loads, lines)

    def _tail(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_TAIL))
        return self._log.read().decode(errors="replace")

    def kill(self) -> None:
        """Ends the process from another thread; whoever waits for it is interrupted."""
        self._killed = True
        if self._process is not None:
            self._process.kill()

    def close(self) -> None:
        """Ends the process."""
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


def serve(handle: Callable[[Json, Callable[[Json], None]], Json]) -> None:
    """In a worker: answers tasks until the parent goes.

    handle gets a task and a function that notes what shall be known even if it dies.
    """
    replies = os.fdopen(int(os.environ[_REPLIES]), "w")

    def send(message: Json) -> None:
        replies.write(json.dumps(message) + "\n")
        replies.flush()

    for line in sys.stdin:
        send(handle(json.loads(line), lambda said: send({"note": said})))


def run_tasks(
    tasks: Iterable[Json],
    work: Callable[[Worker, Json], None],
    command: list[str],
    jobs: int,
    deadline: float,
    renew_after: int = 150,
) -> int:
    """Calls `work` for the tasks on `jobs` threads with a worker each; none begins after `deadline`
    (of time.monotonic()). Returns how many were not begun."""
    waiting: queue.SimpleQueue[Json] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    errors: list[BaseException] = []
    workers = [Worker(command, renew_after) for _ in range(jobs)]

    def loop(worker: Worker) -> None:
        try:
            while time.monotonic() < deadline and not errors:
                work(worker, waiting.get_nowait())
        except queue.Empty:
            pass
        except BaseException as error:
            errors.append(error)
        finally:
            worker.close()

    threads = [threading.Thread(target=loop, args=(w,), daemon=True) for w in workers]
    for thread in threads:
        thread.start()
    # A run that is ended ends its workers, and the caller's daemon, too.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for thread in threads:
            thread.join()
    except BaseException:
        for worker in workers:
            worker.kill()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
    if errors:
        raise errors[0]
    return waiting.qsize()


class Results:
    """A file of JSON lines, one a task, which a later run goes on with."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.lines: list[Json] = []
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    self.lines.append(json.loads(line))
                except json.JSONDecodeError:
                    continue  # the run before was ended in the middle of a line

    def add(self, line: Json) -> None:
        """Appends a result."""
        with self._lock:
            self.lines.append(line)
            with self.path.open("a") as file:
                file.write(json.dumps(line) + "\n")
