# SPDX-License-Identifier: Apache-2.0
"""Processes that do tasks which may crash or hang: a death costs one task, and is its result.

A task and its reply are JSON objects. The parent makes a `Worker` a thread and asks it; the program
that the worker runs calls `serve`. This module imports neither torch nor what imports it, so that
the parent stays small.
"""

from __future__ import annotations

import json
import math
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from tensord.child import Child, replies

Json = dict[str, Any]


class WorkerDiedError(Exception):
    """The process ended, or was ended because its time was up.

    hung: it was ended. said: what it had noted before (`note` of serve's handler).
    """

    def __init__(self, why: str, hung: bool, said: Json) -> None:
        super().__init__(why)
        self.hung = hung
        self.said = said


class WorkerKilledError(Exception):
    """The process was ended from another thread: there is no result of the task."""


class Worker:
    """One process, started at the first task and again after each death.

    command: the program, which calls serve. renew_after: tasks after which a new process is
    started, since what torch and the backend keep of each program adds up.
    """

    def __init__(self, command: list[str], renew_after: int = 150) -> None:
        self._child = Child(command)
        self._renew_after = renew_after
        self._tasks = 0
        self._killed = False

    @property
    def is_running(self) -> bool:
        """False where the next task waits for a process to start, too."""
        return self._child.is_running

    def ask(self, task: Json, timeout: float, silence: float | None = None) -> Json:
        """The reply; raises WorkerDiedError after a crash, or when `timeout` seconds are over.

        silence: where given, `timeout` is for the first message, and then so many seconds may pass
        from each note to the next message.
        """
        if not self._child.is_running:
            self._child.start()
            self._tasks = 0
        self._child.send(json.dumps(task))
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

    def _messages(self, timeout: float, silence: float | None, said: Json) -> Iterable[Json]:
        buffer = b""
        deadline = time.monotonic() + timeout
        while True:
            chunk = self._child.read(deadline - time.monotonic())
            if chunk is None:
                tail = self._child.said()
                self.close()
                raise WorkerDiedError(f"no answer in time\n{tail}", True, said)
            if not chunk and self._killed:
                raise WorkerKilledError  # the run is ended: no result of the task
            if not chunk:
                why = f"ended with {self._child.wait()}\n{self._child.said()}"
                self.close()
                raise WorkerDiedError(why, False, said)
            if silence is not None:
                deadline = time.monotonic() + silence
            *lines, buffer = (buffer + chunk).split(b"\n")
            yield from map(json.loads, lines)

    def kill(self) -> None:
        """Ends the process from another thread; whoever waits for it is interrupted."""
        self._killed = True
        self._child.kill()

    def close(self) -> None:
        """Ends the process."""
        self._child.close()


def serve(handle: Callable[[Json, Callable[[Json], None]], Json]) -> None:
    """In a worker: answers tasks until the parent goes.

    handle gets a task and a function that notes what shall be known even if it dies.
    """
    out = replies()

    def send(message: Json) -> None:
        out.write(json.dumps(message) + "\n")
        out.flush()

    for line in sys.stdin:
        send(handle(json.loads(line), lambda said: send({"note": said})))


def run_tasks(
    tasks: Iterable[Json],
    work: Callable[[Worker, Json], None],
    command: list[str],
    jobs: int,
    deadline: float,
    renew_after: int = 150,
    grace: float = math.inf,
) -> int:
    """Calls `work` for the tasks on `jobs` threads with a worker each; none begins after `deadline`
    (of time.monotonic()), and none goes on for more than `grace` seconds then. Returns how many
    were not begun or not finished."""
    waiting: queue.SimpleQueue[Json] = queue.SimpleQueue()
    for task in tasks:
        waiting.put(task)
    errors: list[BaseException] = []
    unfinished: list[Json] = []
    workers = [Worker(command, renew_after) for _ in range(jobs)]

    def loop(worker: Worker) -> None:
        try:
            while time.monotonic() < deadline and not errors:
                task = waiting.get_nowait()
                try:
                    work(worker, task)
                except WorkerKilledError:
                    unfinished.append(task)
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
            left = deadline + grace - time.monotonic()
            thread.join(max(0.0, left) if math.isfinite(left) else None)
    finally:
        for worker in workers:
            worker.kill()
        signal.signal(signal.SIGTERM, before)
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return waiting.qsize() + len(unfinished)


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
