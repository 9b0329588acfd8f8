# SPDX-License-Identifier: Apache-2.0
"""Worker processes of the sweep: what dies or hangs costs its one case, and is recorded."""

from __future__ import annotations

import pathlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))

from worker_pool import Json, Worker, WorkerDiedError, run_tasks  # noqa: E402

# A process is replaced after so many cases: what torch keeps of each adds up.
MOST_CASES = 150
# To import torch and the databases takes seconds, on a busy machine minutes.
START_SECONDS = 600.0


def run(
    keys: Sequence[str],
    arguments: list[str],
    *,
    jobs: int,
    end: float,
    silence: float,
    done: Callable[[dict[str, Any]], None],
) -> int:
    """Runs cases in `jobs` processes until `end` (time.monotonic()); how many had no time left.

    silence: seconds between two signs of life after which a process counts as hung. done: called
    with each outcome, as case_outcome.py writes it, one call at a time; of a dead or silent process
    it is a crash.
    """
    lock = threading.Lock()

    def work(worker: Worker, task: Json) -> None:
        start = time.monotonic()
        first = silence if worker.is_running else START_SECONDS
        try:
            outcome = worker.ask(task, first, silence)["outcome"]
        except WorkerDiedError as death:
            outcome = _crash(task["case"], death, time.monotonic() - start)
        with lock:
            done(outcome)

    command = [sys.executable, str(HERE / "worker.py"), *arguments]
    tasks = [{"case": key} for key in keys]
    return run_tasks(tasks, work, command, min(jobs, len(tasks)), end, MOST_CASES)


def _crash(key: str, death: WorkerDiedError, seconds: float) -> dict[str, Any]:
    why, _, log = str(death).partition("\n")
    what = f"{'hung: ' if death.hung else ''}{why} while at {death.said.get('doing', 'start')}"
    problem = {"category": "crash", "sample": -1, "message": f"{what}\n{log}"[:3000], "inputs": "",
               "more": 0}  # fmt: skip
    return {"case": key, "counts": {"crash": 1}, "problems": [problem], "how": None,
            "seconds": round(seconds, 3), "note": ""}  # fmt: skip
