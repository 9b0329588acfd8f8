#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a GPT three times over with tensord, beside eager PyTorch; see deploy/quickstart.sh.

On a GPU where there is one (a larger model, bfloat16 autocast), else on the CPU. Three acts, every
job a process of its own (examples/train_gpt.py): one job with an empty cache, the same job again,
and four jobs at once with another width. A private daemon serves them and is stopped at the end.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "deploy" / "lib"))

# Nats between two curves, each the mean of SMOOTH steps. tensord draws other random numbers for
# dropout than eager does; runs of eager that differ only in dropout's seed come to 0.05.
TOLERANCE = 0.10
SMOOTH = 10
SHARED_JOBS = 4


@dataclasses.dataclass(frozen=True)
class Size:
    """A model and its batches; what the options leave open."""

    width: int
    shared_width: int
    layers: int
    head_width: int  # 0: four heads whatever the width
    context: int
    batch: int

    def arguments(self, width: int) -> list[str]:
        """Of examples/train_gpt.py."""
        heads = width // self.head_width if self.head_width else 4
        named = {"layers": self.layers, "heads": heads, "context": self.context}
        named |= {"batch": self.batch, "width": width}
        return [word for name, value in named.items() for word in (f"--{name}", str(value))]


SIZES = {"cpu": Size(256, 192, 4, 0, 128, 8), "cuda": Size(768, 512, 12, 64, 512, 16)}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="deploy/quickstart.sh",
        description="Builds tensord and trains a GPT with it: alone, again, and four jobs at once.",
        epilog="Ends with 1 when a loss curve leaves eager's, a job fell back to eager, or a job "
        "that should have been served from the cache compiled anything.",
    )
    parser.add_argument("--steps", type=int, default=100, help="of each job (default 100)")
    parser.add_argument("--device", choices=["auto", *SIZES], default="auto")
    add_width = functools.partial(parser.add_argument, type=int)
    add_width("--width", help="of acts 1 and 2 (default 256, on a GPU 768)")
    add_width("--shared-width", help="of act 3 (default 192, on a GPU 512)")
    parser.add_argument("--compare", choices=["inductor"], help="run TorchInductor too")
    parser.add_argument(
        "--store",
        type=Path,
        help="keep the cache here instead of in a temporary "
        "folder; what it holds already is not compiled again",
    )
    parser.add_argument("--json", type=Path, help="write every figure to this file as well")
    options = parser.parse_args()
    if options.device == "auto":
        options.device = "cuda" if has_gpu() else "cpu"
    options.size = SIZES[options.device]
    options.width = options.width or options.size.width
    options.shared_width = options.shared_width or options.size.shared_width
    if options.steps < 2 * SMOOTH:
        parser.error(f"--steps must be at least {2 * SMOOTH} for the loss curves to be compared")
    if options.width == options.shared_width:
        parser.error("--shared-width must differ from --width: act 3 shows a new model")
    unit = options.size.head_width or 4
    for name in ("width", "shared_width"):
        if getattr(options, name) % unit:
            parser.error(f"--{name.replace('_', '-')} must be a multiple of {unit}")
    return options


def has_gpu() -> bool:
    """Whether torch can use one; asked in a process of its own, which takes the context with it."""
    question = "import sys, torch; sys.exit(not torch.cuda.is_available())"
    return subprocess.run([sys.executable, "-c", question], check=False).returncode == 0


def daemon_binary() -> Path:
    """Of the build, or of the bundle that this lies in."""
    built = ROOT / "build" / "bin" / "tensord"
    return built if built.exists() else ROOT / "bin" / "tensord"


@dataclasses.dataclass
class Row:
    """One line of the table: the jobs of one act, and what it must fulfil."""

    name: str
    jobs: list[Any]  # jobs.Result
    eager: Any = None  # jobs.Result of the same model; None for eager itself

    @property
    def steps_per_s(self) -> float:
        """Of all the row's jobs together."""
        return sum(job.end["steps_per_s"] for job in self.jobs)

    def worst(self, value: Any) -> float:
        """The largest of `value(job)` over the row's jobs."""
        return max(value(job) for job in self.jobs)


def smoothed(losses: list[float]) -> list[float]:
    """Means over SMOOTH steps, at every step from the SMOOTH-th on."""
    return [statistics.fmean(losses[i - SMOOTH : i]) for i in range(SMOOTH, len(losses) + 1)]


def distance(losses: list[float], reference: list[float]) -> float:
    """The largest gap between two smoothed curves, in nats; infinite where one is not a number."""
    gaps = [abs(a - b) for a, b in zip(smoothed(losses), smoothed(reference), strict=True)]
    return max((gap if gap == gap else float("inf")) for gap in gaps)


def compile_seconds(job: Any) -> float:
    """What a job waited for its compiles: for the daemon, and for loading the programs."""
    stats = job.end["tensord"]
    return stats["wait_seconds"] + stats["load_seconds"]


def problems_of(row: Row) -> list[str]:
    """What every compiled row must fulfil: no fallback, and eager's loss curve."""
    found = []
    for job in row.jobs:
        stats = job.end.get("tensord") or {}
        if stats.get("fallbacks") or stats.get("calls_in_eager"):
            why = ", ".join(stats["fallback_reasons"]) or "calls that did not fit the program"
            found.append(f"{row.name}: a job fell back to eager ({why})")
        gap = distance(job.end["losses"], row.eager.end["losses"])
        if not gap <= TOLERANCE:
            found.append(
                f"{row.name}: the loss curve is {gap:.3f} nats from eager's; {TOLERANCE} is allowed"
            )
    return found


def compiled_by(row: Row) -> int:
    """How many programs the row's jobs had compiled for them."""
    return sum(job.end["tensord"]["compiled"] for job in row.jobs)


def problems_of_sharing(again: Row, shared: Row, fresh_store: bool) -> list[str]:
    """What the acts must show about compiles: none the second time, one each for four jobs."""
    found = []
    kernels = sum(job.end["tensord"]["kernels_compiled"] for job in again.jobs)
    if compiled_by(again) or kernels:
        found.append(
            f"{again.name}: {compiled_by(again)} programs and {kernels} kernels were compiled "
            "for a job that the cache should have served"
        )
    graphs = shared.jobs[0].end["tensord"]["graphs"]
    if compiled_by(shared) > graphs or (fresh_store and compiled_by(shared) < graphs):
        found.append(
            f"{shared.name}: {compiled_by(shared)} compiles for {graphs} graphs; each should "
            "be compiled once"
        )
    return found


def run_acts(options: argparse.Namespace, runner: Any) -> list[Row]:
    """All jobs, in order; the rows of the table."""
    threads = max(1, len(os.sched_getaffinity(0)) // SHARED_JOBS)
    eager = Row("eager", [runner.job("eager", "eager", options.width)])
    rows = [eager]
    reference = eager.jobs[0]
    if options.compare:
        for name in ("Inductor, cold", "Inductor, again"):
            rows.append(Row(name, [runner.job(f"Torch{name}", "inductor")], reference))
    rows += [
        Row("1 alone", [runner.job("act 1: alone", "tensord")], reference),
        Row("2 again", [runner.job("act 2: the same again", "tensord")], reference),
    ]
    other = runner.job(f"eager, width {options.shared_width}", "eager", options.shared_width)
    rows.append(Row(f"eager at {options.shared_width}", [other]))
    four = runner.jobs(
        [f"act 3: job {i + 1} of {SHARED_JOBS}" for i in range(SHARED_JOBS)],
        "tensord",
        options.shared_width,
        threads,
    )
    rows.append(Row(f"3 {SHARED_JOBS} at once", four, other))
    return rows


def main() -> int:
    options = parse()
    import jobs  # needs `rich`, which --help does not
    import tables
    from daemon import Daemon

    # Ends the jobs and the daemon on the way out, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tensord-") as folder:
        store = (options.store or Path(folder) / "store").resolve()
        fresh_store = not store.exists() or not any(store.iterdir())
        with Daemon(daemon_binary(), Path(folder), store) as daemon:
            runner = jobs.Runner(ROOT, daemon.address, Path(folder), options)
            try:
                with runner:
                    rows = run_acts(options, runner)
                statistics_ = daemon.statistics()
            except jobs.JobFailed as error:
                tables.failure(error, daemon.log_tail())
                return 1
    problems = [problem for row in rows if row.eager is not None for problem in problems_of(row)]
    problems += problems_of_sharing(rows[-3], rows[-1], fresh_store)
    print(f"on {rows[0].jobs[0].end['device']}")
    tables.results(rows, distance, compile_seconds, compiled_by)
    tables.daemon(statistics_)
    tables.verdict(problems, TOLERANCE, SMOOTH, time.monotonic() - start)
    if options.json:
        record = {
            "rows": [{"name": row.name, "jobs": [job.end for job in row.jobs]} for row in rows],
            "daemon": statistics_,
            "problems": problems,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
