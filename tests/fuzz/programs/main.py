# SPDX-License-Identifier: Apache-2.0
"""Runs random programs, and shrinks those that fail (tests/fuzz/programs.sh).

    programs.sh [--count 300] [--seed 0] [--device cpu|cuda] [--jobs N] [--budget SECONDS]
                [--results FILE] [--program N] [--again]

The programs of the seeds SEED to SEED + COUNT - 1, the same on every device. FILE gets a JSON line
a program; those that it has already are not run again, with --again unless they failed. The
smallest program of each failure lies beside it, as a script. --program N prints the program of a
seed and runs nothing. Ends with 1 where a program failed, or when the time was up.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

TESTS = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(TESTS / name) for name in ("fuzz", "tools", "bench")]

from private_daemon import PrivateDaemon  # noqa: E402
from worker_pool import Json, Results, Worker, WorkerDiedError, run_tasks  # noqa: E402

from programs.program import DEVICE_LOST, Program, script  # noqa: E402
from programs.shrink import shrink  # noqa: E402

PROGRAM_SECONDS = 120.0
SHRINK_SECONDS = 150.0
MOST_SHRUNK = 3  # programs of one failure, which takes long
BAD = ("wrong", "failed", "crash", "hang")


def ask(worker: Worker, task: Json) -> Json:
    """The outcome of a program, as JSON; its death is an outcome too, and so is the device's. There
    is none where torch's own operators ended the process that was drawing it."""
    try:
        outcome = worker.ask(task, PROGRAM_SECONDS)
        if outcome["cause"].startswith(DEVICE_LOST):
            worker.close()
        return outcome
    except WorkerDiedError as death:
        kind = "hang" if death.hung else "crash"
        if "seed" in task and "program" not in death.said:
            kind = "invalid"
        return {**death.said, "kind": kind, "cause": kind, "message": str(death), "stats": {}}


def fails_upstream(worker: Worker, outcome: Json) -> bool:
    """Whether a program that lost the device, or gave no answer, does so with torch's own backend
    aot_eager, which only another process can tell."""
    lost = outcome["kind"] in BAD and outcome["cause"].startswith(DEVICE_LOST)
    if not (lost or outcome["kind"] == "hang") or "program" not in outcome:
        return False
    other = ask(worker, {"program": outcome["program"], "backend": "aot_eager"})
    return failure_of(other) == failure_of(outcome)


def failure_of(outcome: Json) -> tuple[str, str]:
    """What two programs of one failure have in common."""
    return outcome["kind"], outcome["cause"]


def smallest(worker: Worker, outcome: Json) -> tuple[Program, str]:
    """The smallest program of a failure, and its message."""
    first = failure_of(outcome)
    messages = [outcome["message"]]

    def fails(program: Program) -> bool:
        found = ask(worker, {"program": program.to_json()})
        if failure_of(found) == first:
            messages.append(found["message"])
            return True
        return False

    return shrink(Program.from_json(outcome["program"]), fails, SHRINK_SECONDS), messages[-1]


def _report(results: Results) -> None:
    """Failures by cause, with the smallest program of each."""
    latest = {line["seed"]: line for line in results.lines}
    kinds = Counter(line["kind"] for line in latest.values())
    groups: dict[tuple[str, str], list[Json]] = defaultdict(list)
    for line in latest.values():
        if line["kind"] in BAD:
            groups[failure_of(line)].append(line)
    for (kind, cause), lines in sorted(groups.items(), key=lambda item: -len(item[1])):
        shrunk = [line for line in lines if line["smallest"]]
        best = min(shrunk or lines, key=lambda line: len(line["smallest"]))
        seeds = ", ".join(str(line["seed"]) for line in lines[:12])
        print(f"\n{kind}: {cause}\n{len(lines)} programs: {seeds}\n\n{best['smallest']}")
    upstream = Counter(line["cause"] for line in latest.values() if line["kind"] == "upstream")
    for cause, count in upstream.most_common():
        print(f"upstream (aot_eager does the same): {count} programs: {cause}")
    print(", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())))
    bad = sum(kinds[kind] for kind in BAD)
    print(f"{sum(kinds.values()) - bad} passed, {bad} failed")


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--program", type=int)
    parser.add_argument("--again", action="store_true")
    args = parser.parse_args()
    if args.program is not None:
        from programs.generate import generate

        program = replace(generate(args.program), device=args.device)
        print(script(program, f"The program of seed {args.program}."))
        return 0
    place = f"-{args.device}" if args.device != "cpu" else ""
    path = args.results or Path(f"build/fuzz/programs{place}.jsonl")
    deadline = time.monotonic() + args.budget
    results = Results(path)
    latest = {line["seed"]: line for line in results.lines}
    done = {s for s, line in latest.items() if not (args.again and line["kind"] in BAD)}
    shrunk = Counter(failure_of(latest[s]) for s in done if latest[s].get("smallest"))
    seeds = [s for s in range(args.seed, args.seed + args.count) if s not in done]

    def work(worker: Worker, task: Json) -> None:
        start = time.monotonic()
        outcome = ask(worker, task)
        if fails_upstream(worker, outcome):
            outcome["kind"] = "upstream"
        line = {"seed": task["seed"], "kind": outcome["kind"], "cause": outcome["cause"]}
        line |= {"stats": outcome["stats"], "seconds": round(time.monotonic() - start, 2)}
        if outcome["kind"] in BAD:
            text = ""
            line["message"] = outcome["message"][-1500:]
            shrunk[failure_of(outcome)] += 1
            if "program" in outcome and shrunk[failure_of(outcome)] <= MOST_SHRUNK:
                program, line["message"] = smallest(worker, outcome)
                title = f"Seed {task['seed']}: {outcome['kind']}: {outcome['cause']}"
                text = script(program, title)
                path.with_name(f"seed_{task['seed']}.py").write_text(text)
            line["smallest"] = text
            print(f"seed {task['seed']}: {outcome['kind']}: {outcome['cause']}", flush=True)
        results.add(line)

    command = [sys.executable, str(Path(__file__).with_name("worker.py"))]
    with PrivateDaemon():
        tasks = [{"seed": s, "device": args.device} for s in seeds]
        left = run_tasks(tasks, work, command, args.jobs, deadline)
    _report(results)
    if left:
        print(f"the time was up: {left} programs were not run")
    return 1 if left or any(line["kind"] in BAD for line in results.lines) else 0


if __name__ == "__main__":
    sys.exit(main())
