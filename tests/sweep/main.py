# SPDX-License-Identifier: Apache-2.0
"""Every operator of PyTorch's operator database against eager, in strict mode; see sweep.sh.

Each case is a line of the results file, from which a run goes on where one before it ended. What
counts as right stands in judge.py, what is excused in excuses.py.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pathlib
import signal
import subprocess
import sys
import time
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "bench"))

import document  # noqa: E402
import entries  # noqa: E402
import pool  # noqa: E402
import summary  # noqa: E402
from case_outcome import FAILURES, Outcome  # noqa: E402
from private_daemon import PrivateDaemon  # noqa: E402
from worker_pool import Results  # noqa: E402


def _list(known: Any, text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := set(names) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}; known: {', '.join(known)}")
    return names


def _share(text: str) -> tuple[int, int]:
    share, _, shares = text.partition("/")
    if not (share.isdigit() and shares.isdigit() and int(share) < int(shares)):
        raise argparse.ArgumentTypeError(f"{text}: K/N with 0 <= K < N")
    return int(share), int(shares)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tests/sweep.sh", description=__doc__)
    add = parser.add_argument
    add("--ops", default="", metavar="REGEX", help="entries in whose name it is found")
    add("--dtypes", type=lambda text: _list(entries.DTYPES, text), default=entries.DTYPES)
    add("--variants", type=lambda text: _list(entries.VARIANTS, text), metavar="NAME,...",
        default=tuple(entries.VARIANTS), help=", ".join(entries.VARIANTS))  # fmt: skip
    add("--device", choices=("cpu", "cuda"), default="cpu")
    add("--forward", action=argparse.BooleanOptionalAction, default=True)
    add("--grad", action=argparse.BooleanOptionalAction, default=True)
    add("--static", action=argparse.BooleanOptionalAction, default=True)
    add("--dynamic", action=argparse.BooleanOptionalAction, default=False)
    add("--slice", type=_share, default=(0, 1), metavar="K/N", help="one of N equal parts")
    add("--seed", default="", help="decides which cases a slice has; such as a commit")
    add("--sample", type=int, default=None, metavar="N", help="of each case only this one")
    add("--most", type=int, default=0, metavar="N", help="of each case N samples, spread evenly")
    add("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="processes")
    add("--budget", type=float, default=float("inf"), metavar="SECONDS")
    add("--silence", type=float, default=120.0, metavar="SECONDS",
        help="a process that says nothing for so long hangs")  # fmt: skip
    add("--results", type=pathlib.Path, default=ROOT / "build" / "sweep.jsonl", metavar="FILE")
    add("--fresh", action="store_true", help="forget the results that are there")
    add("--again", action="store_true", help="run what failed once more")
    add("--store", type=pathlib.Path, default=None, help="keep compiled programs in this folder")
    add("--list", action="store_true", help="print the cases and run nothing")
    add("--summary", action="store_true", help="print the results that are there and run nothing")
    add("--write-docs", type=pathlib.Path, nargs="*", metavar="RESULTS", default=None,
        help="write docs/operators.md from results and run nothing")  # fmt: skip
    add("--spoil", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def read(path: pathlib.Path) -> dict[str, Outcome]:
    """The outcomes of a results file by their keys; the last of each counts."""
    return {line["case"]: Outcome.parse(line) for line in Results(path).lines}


def sweep(keys: list[str], args: argparse.Namespace, found: dict[str, Outcome]) -> int:
    """Runs the cases and adds them to `found` and the results file; how many it had no time for."""
    results = Results(args.results)
    start = last = time.monotonic()
    arguments = ["--spoil", args.spoil, "--most", str(args.most)]
    if args.sample is not None:
        arguments += ["--sample", str(args.sample)]
    count = 0
    with PrivateDaemon(store=args.store):
        build = [sys.executable, "-m", "tensord._native.build"]
        subprocess.run(build, capture_output=True, check=False)

        def done(line: dict[str, Any]) -> None:
            nonlocal count, last
            results.add(line)
            outcome = found[line["case"]] = Outcome.parse(line)
            count += 1
            if outcome.category in FAILURES:
                print(summary.failure(outcome), flush=True)
            if time.monotonic() - last > 30:
                last = time.monotonic()
                print(f"{count} of {len(keys)} cases, {last - start:.0f} s", flush=True)

        return pool.run(
            keys, arguments, jobs=args.jobs, end=start + args.budget, silence=args.silence,
            done=done,
        )  # fmt: skip


def main() -> int:
    args = _arguments()
    if args.write_docs is not None:
        results: dict[str, Outcome] = {}
        files = args.write_docs or [args.results]
        for path in files:
            results |= read(path)
        newest = max(path.stat().st_mtime for path in files)
        seen = datetime.datetime.fromtimestamp(newest, datetime.UTC).strftime("%Y-%m-%d")
        document.write(results, seen, ROOT / "docs" / "operators.md")
        return 0
    share, shares = args.slice
    selection = entries.Selection(
        args.ops, args.dtypes, args.variants, args.device, args.forward, args.grad,
        args.static, args.dynamic, share, shares, args.seed,
    )  # fmt: skip
    keys = [case.key for case in entries.cases(selection)]
    if args.list:
        print("\n".join(keys))
        return 0
    if args.fresh:
        args.results.unlink(missing_ok=True)
    found = read(args.results)
    if args.again:
        found = {key: one for key, one in found.items() if one.category not in FAILURES}
    # A run that is told to end takes its processes and its daemon along.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    left = 0
    if not args.summary:
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ[name] = "1"
        todo = [key for key in keys if key not in found]
        print(f"{len(keys)} cases, {len(todo)} to run", flush=True)
        left = sweep(todo, args, found)
    ran = {key: found[key] for key in keys if key in found}
    print(summary.report(ran, left))
    failed = sum(summary.failed(outcome) for outcome in ran.values())
    print(f"{len(ran) - failed} passed, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
