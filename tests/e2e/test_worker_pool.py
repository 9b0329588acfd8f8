# SPDX-License-Identifier: Apache-2.0
"""Tests of tests/tools/worker_pool.py: a task that crashes or hangs costs itself alone."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[1] / "tools"
sys.path.append(str(TOOLS))

from worker_pool import Json, Results, Worker, WorkerDiedError, run_tasks  # noqa: E402

_PROGRAM = f"""
import os, sys, time
sys.path.append({str(TOOLS)!r})
from worker_pool import serve
def handle(task, note):
    print("not a reply")
    note({{"begun": True}})
    if task["do"] == "crash": os.abort()
    if task["do"] == "hang": time.sleep(60)
    return {{"pid": os.getpid(), "did": task["do"]}}
serve(handle)
"""
COMMAND = [sys.executable, "-c", _PROGRAM]


def test_a_reply_holds_what_was_noted() -> None:
    worker = Worker(COMMAND)
    reply = worker.ask({"do": "work"}, 30)
    worker.close()
    assert (reply["begun"], reply["did"]) == (True, "work")


@pytest.mark.parametrize("how", ["crash", "hang"])
def test_a_death_costs_one_task(how: str) -> None:
    worker = Worker(COMMAND)
    first = worker.ask({"do": "work"}, 30)
    with pytest.raises(WorkerDiedError) as death:
        worker.ask({"do": how}, 1)
    assert death.value.hung == (how == "hang")
    assert death.value.said == {"begun": True}
    second = worker.ask({"do": "work"}, 30)
    worker.close()
    assert first["pid"] != second["pid"]


def test_a_crash_says_where_although_many_modules_were_loaded() -> None:
    program = (
        f"import faulthandler, os, sys; sys.path.append({str(TOOLS)!r})\n"
        "from worker_pool import serve\n"
        "def handle(task, note):\n"
        "    faulthandler.dump_traceback(sys.stderr)\n"
        "    sys.stderr.write('Extension modules: ' + 'numpy.linalg._umath_linalg, ' * 200)\n"
        "    sys.stderr.flush()\n"
        "    os._exit(1)\n"
        "serve(handle)\n"
    )
    worker = Worker([sys.executable, "-c", program])
    with pytest.raises(WorkerDiedError, match=r"most recent call first[\s\S]*in handle") as death:
        worker.ask({"do": "crash"}, 30)
    assert "umath" not in str(death.value)
    worker.close()


def test_time_begins_anew_with_each_note() -> None:
    worker = Worker(COMMAND)
    assert not worker.is_running
    with pytest.raises(WorkerDiedError) as death:
        worker.ask({"do": "hang"}, 60, silence=0.5)
    assert death.value.hung and death.value.said == {"begun": True}
    worker.close()


def test_a_worker_is_renewed() -> None:
    worker = Worker(COMMAND, renew_after=2)
    pids = [worker.ask({"do": "work"}, 30)["pid"] for _ in range(4)]
    worker.close()
    assert len(set(pids)) == 2


def test_tasks_run_on_all_workers_until_the_deadline(tmp_path: Path) -> None:
    results = Results(tmp_path / "results.jsonl")

    def work(worker: Worker, task: Json) -> None:
        results.add(task | worker.ask(task, 30))

    tasks = [{"do": "work", "number": number} for number in range(20)]
    assert run_tasks(tasks, work, COMMAND, 2, time.monotonic() + 60) == 0
    assert sorted(line["number"] for line in Results(results.path).lines) == list(range(20))
    assert run_tasks(tasks, work, COMMAND, 2, time.monotonic()) == 20


def test_what_outlasts_the_deadline_is_ended() -> None:
    replies: list[Json] = []

    def work(worker: Worker, task: Json) -> None:
        replies.append(worker.ask(task, 600))

    # The first is under way when the time is up, the others have not begun.
    tasks = [{"do": "hang"}, {"do": "hang"}, {"do": "work"}]
    assert run_tasks(tasks, work, COMMAND, 1, time.monotonic() + 1, grace=1) == 3
    assert not replies


def test_an_error_of_the_parent_ends_the_run() -> None:
    def work(worker: Worker, task: Json) -> None:
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        run_tasks([{}], work, COMMAND, 1, time.monotonic() + 60)


def test_results_survive_a_line_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    path.write_text('{"a": 1}\n{"b": ')
    assert Results(path).lines == [{"a": 1}]
