# SPDX-License-Identifier: Apache-2.0
"""Runs the sections of the GPU tests in processes of their own; see run.sh.

A section that crashes or hangs (a lost device stays lost for its process) costs its own checks
only. One daemon with an empty store serves all of them.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import sanitizer

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.append(str(ROOT / "tests" / "bench"))

from private_daemon import PrivateDaemon  # noqa: E402


@dataclass(frozen=True)
class Section:
    """seconds: its share of the time, with the start of its processes. processes: how many share
    its checks. tool: of compute-sanitizer."""

    name: str
    seconds: int
    processes: int = 1
    tool: str = ""


# In order; all together must stay under 10 minutes.
SECTIONS = (
    Section("models", 65, 3),
    Section("graphs", 50),
    Section("memory", 20),
    Section("attention", 20),
    Section("shared", 40),
    Section("devices", 60),
    Section("faults", 75),
    Section("ops", 100, 4),
    Section("call_backs", 45, 2),
    Section("curves", 40),
    Section("profile", 25),
    Section("memcheck", 40, 1, "memcheck"),
    Section("racecheck", 35, 1, "racecheck"),
)
# How long a check that is under way at the end of its section may go on.
GRACE_SECONDS = 20


@dataclass
class Outcome:
    """What a section's processes said. checks: {"name", "ok", "seconds", "detail"}."""

    section: str
    checks: list[dict[str, Any]] = field(default_factory=list)
    not_run: int = 0
    skipped: str = ""
    problems: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def failed(self) -> list[dict[str, Any]]:
        return [check for check in self.checks if not check["ok"]]


def run_section(section: Section, args: argparse.Namespace, end: float) -> Outcome:
    """All processes of a section, until `end` (time.monotonic())."""
    outcome = Outcome(section.name)
    command = [sys.executable, str(HERE / "section.py")]
    if section.tool:
        found = sanitizer.find()
        if found is None or args.device != "cuda":
            outcome.skipped = "no compute-sanitizer here" if args.device == "cuda" else "no GPU"
            return outcome
        command = [*sanitizer.command(found, section.tool), *command, "sanitized"]
    else:
        command.append(section.name)
    command += ["--device", args.device, "--end", f"{end:.1f}", "--only", args.only]
    start = time.monotonic()
    processes = 1 if section.processes == 1 else args.jobs or section.processes
    threads = [
        threading.Thread(
            target=_follow,
            args=([*command, "--shard", f"{i}/{processes}"], section, end, outcome),
        )
        for i in range(processes)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    outcome.seconds = time.monotonic() - start
    return outcome


def _follow(command: list[str], section: Section, end: float, outcome: Outcome) -> None:
    """One process: its lines as they come, and its end."""
    environment = dict(os.environ)
    if section.tool:  # the allocator's cache would hide what lies beyond a tensor
        environment["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"
    with tempfile.TemporaryFile("w+", errors="replace") as errors:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
            env=environment,
        )  # fmt: skip
        killer = threading.Timer(end + GRACE_SECONDS - time.monotonic(), process.kill)
        killer.start()
        assert process.stdout is not None
        ended, other = False, []
        for line in process.stdout:
            if not line.startswith("{"):
                other.append(line)
                continue
            event = json.loads(line)
            if "end" in event:
                ended = True
                outcome.not_run += event["not_run"]
            else:
                outcome.checks.append(event)
                if not event["ok"]:
                    print(f"  FAILED {section.name}: {event['name']}: {event['detail'][:400]}")
        status = process.wait()
        killer.cancel()
        errors.seek(0)
        tail = "".join(errors.readlines()[-15:])
    if not ended:
        outcome.problems.append(f"a process ended with status {status}: {tail[-1500:]}")
    elif section.tool and status != 0:
        report = "".join(other[-80:])
        outcome.problems.append(f"{section.tool} ended with status {status}:\n{report[-4000:]}")
    for problem in outcome.problems:
        print(f"  FAILED {section.name}: {problem}")


def table(outcomes: list[Outcome]) -> str:
    """One line a section."""
    lines = [f"{'section':<12}{'passed':>8}{'failed':>8}{'not run':>9}{'seconds':>9}"]
    for o in outcomes:
        failed = len(o.failed) + len(o.problems)
        passed = len(o.checks) - len(o.failed)
        lines.append(
            f"{o.section:<12}{passed:>8}{failed:>8}{o.not_run:>9}{o.seconds:>9.0f}  {o.skipped}"
        )
    return "\n".join(lines)


def _names(text: str) -> list[str]:
    known = [section.name for section in SECTIONS]
    names = text.split(",")
    if unknown := set(names) - set(known):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}; known: {known}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/gpu/run.sh", description=__doc__)
    add = parser.add_argument
    add("--sections", type=_names, default=[section.name for section in SECTIONS])
    add("--only", default="", metavar="REGEX", help="checks whose name it is found in")
    add("--budget", type=float, default=470.0, metavar="SECONDS", help="of everything")
    add("--jobs", type=int, default=0, help="processes of a section that can share its checks")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    add("--json", type=pathlib.Path, default=ROOT / "build" / "gpu-tests.json")
    add("--work", type=pathlib.Path, default=None, help=argparse.SUPPRESS)
    args = parser.parse_args()

    start = time.monotonic()
    outcomes: list[Outcome] = []
    package = importlib.util.find_spec("tensord").origin  # of the bundle, which run.sh unpacked
    print(f"testing {package}", flush=True)
    with PrivateDaemon(folder=args.work) as daemon:
        # The bridge is built once where there is a compiler; else the one in Python serves.
        build = [sys.executable, "-m", "tensord._native.build"]
        subprocess.run(build, capture_output=True, check=False)
        for section in SECTIONS:
            if section.name not in args.sections:
                continue
            left = args.budget - (time.monotonic() - start)
            print(f"== {section.name}", flush=True)
            if left < 20:
                outcomes.append(Outcome(section.name, skipped="no time left"))
                continue
            # The last one must not go over the budget either.
            seconds = min(section.seconds, left - GRACE_SECONDS / 2)
            outcomes.append(run_section(section, args, time.monotonic() + seconds))
        log = daemon.log_tail()
    passed = sum(len(o.checks) - len(o.failed) for o in outcomes)
    failed = sum(len(o.failed) + len(o.problems) for o in outcomes)
    record = {
        "device": args.device,
        "package": package,
        "seconds": time.monotonic() - start,
        "passed": passed,
        "failed": failed,
        "sections": [vars(o) for o in outcomes],
        "daemon_log": log,
    }
    args.json.parent.mkdir(parents=True, exist_ok=True)
    args.json.write_text(json.dumps(record, indent=1) + "\n")
    if failed:
        print(f"the daemon's log ends:\n{log}")
    print(table(outcomes))
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
