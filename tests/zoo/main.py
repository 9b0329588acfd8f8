# SPDX-License-Identifier: Apache-2.0
"""Checks architectures of transformers and timm, compiled against eager (tests/models.sh).

    models.sh [--only REGEX] [--device cpu|cuda] [--jobs N] [--budget SECONDS] [--results FILE]
              [--again] [--list] [--write-docs [--where WHERE]] [--served]

--served: each is run by two processes, of which the second is to capture nothing: it is served what
the first has recorded, under TENSORD_FRAMES=verify.

FILE gets a JSON line an architecture; those that it has already are not run again, with --again
unless they did not come right. --write-docs writes a page of the docs from FILE, which says WHERE
it was made: device, versions, date. Ends with 1 where one is wrong or failed, when none came right,
or when the time was up.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import sys
import time
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS), str(TESTS / "tools"), str(TESTS / "bench")]

import warm_python  # noqa: E402
from private_daemon import PrivateDaemon  # noqa: E402
from worker_pool import Json, Results, Worker, WorkerDiedError, run_tasks  # noqa: E402

from zoo import report, served  # noqa: E402

MODEL_SECONDS = 420.0
GRACE_SECONDS = 20.0  # beyond the budget, for those that run then
RENEW_AFTER = 12


def _check(worker: Worker, task: Json) -> Json:
    start = time.monotonic()
    try:
        line = worker.ask(task, MODEL_SECONDS)
    except WorkerDiedError as death:
        status = "hang" if death.hung else "crash"
        if "what" not in death.said:  # before anything was compiled
            status = "unsupported"
        line = {**death.said, "status": status, "cause": str(death)[-400:]}
    return {"name": task["name"], **line, "total_seconds": round(time.monotonic() - start, 1)}


def _python() -> list[str]:
    """Processes that begin with the libraries imported, which takes longer than most models."""
    from zoo import catalogue

    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # no fork may have touched the GPU before
    folders = [str(TESTS), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    return warm_python.command((*warm_python.CAPTURE, *catalogue.IMPORTED))


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--budget", type=float, default=float("inf"))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--write-docs", action="store_true")
    parser.add_argument("--where", default="")
    parser.add_argument("--served", action="store_true")
    args = parser.parse_args()
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    deadline = time.monotonic() + args.budget
    kind = f"{args.device}-served" if args.served else args.device
    results = Results(args.results or Path(f"build/models/{kind}.jsonl"))
    if args.write_docs:
        report.write_docs(results.lines, TESTS.parent / "docs" / "models.md", args.where)
        return 0
    from zoo import catalogue

    names = [name for name in catalogue.names() if re.search(args.only, name)]
    if args.list:
        print("\n".join(names))
        return 0
    latest = {line["name"]: line for line in results.lines}
    again = (*report.BAD, "unsupported") if args.again else ()
    done = {name for name, line in latest.items() if line["status"] not in again}

    def work(worker: Worker, task: Json) -> None:
        line = _check(worker, task)
        if args.served:
            # Each has processes of its own: some models of transformers add to torch's classes.
            worker.close()
            if line["status"] in ("right", "upstream"):
                second = _check(worker, {**task, "frames": "verify"})
                line = served.of_second(line, second)
                worker.close()
        results.add(line)
        print(f"{line['name']}: {line['status']} {line['cause'][:200]}", flush=True)

    command = [*_python(), str(Path(__file__).with_name("worker.py"))]
    # In an order that has something of everything early, for runs that do not come to the end.
    waiting = sorted(set(names) - done, key=lambda name: hashlib.sha1(name.encode()).digest())
    frames = "1" if args.served else "0"
    tasks = [{"name": name, "device": args.device, "frames": frames} for name in waiting]
    with PrivateDaemon():
        left = run_tasks(tasks, work, command, args.jobs, deadline, RENEW_AFTER, GRACE_SECONDS)
    latest = {line["name"]: line for line in results.lines if line["name"] in names}
    print(report.summary(list(latest.values())))
    if args.served:
        print(served.summary(list(latest.values())))
    if left:
        print(f"the time was up: {left} architectures were not run or not finished")
    statuses = {line["status"] for line in latest.values()}
    return 1 if left or statuses & set(report.BAD) or not statuses & {"right", "upstream"} else 0


if __name__ == "__main__":
    sys.exit(main())
