# SPDX-License-Identifier: Apache-2.0
"""Worker processes of the sweep: what dies or hangs costs its one case, and is recorded.

A sample at which eager fails an assertion on the device takes the device from its process. The case
begins again in another one, without that sample, and the compiled function fails alike in one of
its own.
"""

from __future__ import annotations

import pathlib
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "tools"))

from case_outcome import Outcome  # noqa: E402
from worker_pool import Json, Worker, WorkerDiedError, run_tasks  # noqa: E402

PROGRAM = HERE / "worker.py"

# A process is replaced after so many cases: what torch keeps of each adds up.
MOST_CASES = 150
# To import torch and the databases takes seconds, on a busy machine minutes.
START_SECONDS = 600.0
# Cases under way at the end of the time may go on for so long.
GRACE_SECONDS = 15.0


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
        try:
            outcome = _run_case(worker, task["case"], silence).line()
        except WorkerDiedError as death:
            outcome = _crash(task["case"], death, time.monotonic() - start)
        with lock:
            done(outcome)

    command = [sys.executable, str(PROGRAM), *arguments]
    tasks = [{"case": key} for key in keys]
    return run_tasks(tasks, work, command, min(jobs, len(tasks)), end, MOST_CASES, GRACE_SECONDS)


def _run_case(worker: Worker, key: str, silence: float) -> Outcome:
    """Raises WorkerDiedError."""

    def ask(task: Json) -> Json:
        first = silence if worker.is_running else START_SECONDS
        reply = worker.ask({"case": key, **task}, first, silence)
        if reply["lost"]:
            worker.close()
        return reply

    asserting: list[int] = []
    while "outcome" not in (reply := ask({"without": asserting})):
        asserting.append(reply["asserts"])
    outcome = Outcome.parse(reply["outcome"])
    for number in asserting:
        outcome.include(Outcome.parse(ask({"asserts": number})["outcome"]))
    return outcome


def _crash(key: str, death: WorkerDiedError, seconds: float) -> dict[str, Any]:
    why, _, log = str(death).partition("\n")
    what = f"{'hung: ' if death.hung else ''}{why} while at {death.said.get('doing', 'start')}"
    problem = {"category": "crash", "sample": -1, "message": f"{what}\n{log}"[:3000], "inputs": "",
               "more": 0}  # fmt: skip
    return {"case": key, "counts": {"crash": 1}, "problems": [problem], "how": None,
            "seconds": round(seconds, 3), "note": ""}  # fmt: skip
