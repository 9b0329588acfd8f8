# SPDX-License-Identifier: Apache-2.0
"""Worker processes of the sweep: what dies or hangs costs its one case, and is recorded."""

from __future__ import annotations

import json
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from typing import IO, Any

HERE = pathlib.Path(__file__).resolve().parent
# A process is replaced after so many cases: what torch keeps of each adds up.
MOST_CASES = 150
# To import torch and the databases takes seconds, on a busy machine minutes.
START_SECONDS = 600.0


class Worker:
    """One process, which runs one case at a time."""

    def __init__(self, arguments: list[str]) -> None:
        self._errors: IO[str] = tempfile.TemporaryFile("w+", errors="replace")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "worker.py"), *arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True,
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.cases = 0
        self.ready = False

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def run(self, key: str, silence: float) -> dict[str, Any]:
        """The outcome of a case, as outcome.py writes it; of a dead or silent process, a crash.

        silence: seconds between two signs of life after which the process counts as hung.
        """
        self.cases += 1
        start, doing = time.monotonic(), "start"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(key + "\n")
            self._process.stdin.flush()
        except OSError:
            pass  # the process is dead: its end is read below
        while True:
            try:
                line = self._lines.get(timeout=silence if self.ready else START_SECONDS)
            except queue.Empty:
                what = f"hung: nothing for {silence:.0f} s while at {doing}"
                return self._dead(key, what, start)
            if line is None:
                status = self._process.wait()
                return self._dead(key, f"ended with status {status} while at {doing}", start)
            event = json.loads(line)
            if "outcome" in event:
                outcome: dict[str, Any] = event["outcome"]
                return outcome
            self.ready = True
            doing = event["doing"]

    def _dead(self, key: str, what: str, start: float) -> dict[str, Any]:
        self.close()
        self._errors.seek(0)
        tail = [line.rstrip() for line in self._errors.readlines()[-60:]]
        stack = [line.strip() for line in tail if line.strip()][-25:]
        message = "\n".join([what, *stack])
        problem = {"category": "crash", "sample": -1, "message": message[:3000], "inputs": "",
                   "more": 0}  # fmt: skip
        return {"case": key, "counts": {"crash": 1}, "problems": [problem], "how": None,
                "seconds": round(time.monotonic() - start, 3), "note": ""}  # fmt: skip

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def close(self) -> None:
        """Ends the process, which has nothing to save."""
        if self.alive:
            self._process.kill()
        self._process.wait()


def run(
    keys: Iterable[str],
    arguments: list[str],
    *,
    jobs: int,
    end: float,
    silence: float,
    done: Callable[[dict[str, Any]], None],
) -> int:
    """Runs cases in `jobs` processes until `end` (time.monotonic()); how many had no time left.

    done: called with each outcome, one call at a time.
    """
    waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
    for key in keys:
        waiting.put(key)
    lock, stop = threading.Lock(), threading.Event()
    alive: set[Worker] = set()

    def work() -> None:
        worker: Worker | None = None
        while time.monotonic() < end and not stop.is_set():
            try:
                key = waiting.get_nowait()
            except queue.Empty:
                break
            if worker is not None and (not worker.alive or worker.cases >= MOST_CASES):
                worker.close()
                worker = None
            worker = worker or Worker(arguments)
            alive.add(worker)
            outcome = worker.run(key, silence)
            if not stop.is_set():
                with lock:
                    done(outcome)
        if worker is not None:
            worker.close()

    threads = [threading.Thread(target=work) for _ in range(min(jobs, waiting.qsize()))]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    except BaseException:  # an interrupt: what is under way is lost, and runs again next time
        stop.set()
        for worker in list(alive):
            worker.close()
        raise
    return waiting.qsize()


def processors() -> int:
    """Those that this process may use."""
    return len(os.sched_getaffinity(0))
