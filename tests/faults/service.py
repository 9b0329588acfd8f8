#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls on files fail in a whole daemon, its workers and the compilers that they run: open, read,
write, sync, rename and mmap, each with EIO, ENOSPC, EDQUOT, EMFILE and ENOMEM, once at each place
where it is made, and for good from there on; from the daemon's start, while a job compiles.

What counts lies below the daemon's store or beside its socket. Under the fault a job has the right
numbers, by programs or in eager; the daemon neither crashes nor hangs. When the fault is gone, the
same daemon compiles the same graphs with all of their kernels, writes what it kept, and stores what
is new; the store has nothing damaged; and the next daemon finds all of it. Of each call `--places`
places are tried (0: all), with `--errors` of the five errors in turn (0: all), `--jobs` at once.
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import campaign
import jobs
import tensord
import torch
from errors import ERRORS
from real_daemon import RealDaemon, binary
from stores import Orders

CALLS = ("open", "read", "write", "sync", "rename", "mmap")
STORED = (0, 1)  # functions (jobs.py) before the fault
NEW, FRESH = 5, 6  # under it, and after it
WRITTEN_WITHIN_S = 15.0
_FORK = multiprocessing.get_context("fork")
_PRIVATE = "the configured store is not in use"


@dataclass(frozen=True)
class Fault:
    """times: 0 for good."""

    call: str
    error: str
    skip: int
    times: int

    def __str__(self) -> str:
        how = "for good" if self.times == 0 else "once"
        return f"{self.call} fails with {self.error} {how}, from number {self.skip}"


@dataclass
class Seen:
    """What came of one fault."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass
class Compiled:
    """What a job has of some functions."""

    hits: int
    compiled: int
    in_eager: int
    kernels: int
    reasons: dict[str, int]


class _Trial:
    """One daemon under one fault, then without it, then the next daemon."""

    def __init__(self, fault: Fault, model: Path, place: Path, kernels: dict[int, int]) -> None:
        self._fault, self._kernels = fault, kernels
        self._store = place / "store"
        self.seen = Seen()
        (place / "run").mkdir(parents=True, mode=0o700)
        shutil.copytree(model, self._store)
        # The log is no file of the daemon's that may fail.
        log = place.with_suffix(".log")
        (place / "run" / "log").symlink_to(log)
        self.orders = Orders(place.with_suffix(".orders"), place)
        self._daemon = RealDaemon(
            place / "run",
            # Within walls a compiler would not find the library that makes its calls fail.
            flags=(f"--store={self._store}", "--workers=1", "--confine=off"),
            environment=self.orders.environment,
            starts=False,
        )

    def run(self) -> Seen:
        """The whole course."""
        fault = self._fault
        self.orders.give(fault.call, fault.error, skip=fault.skip, times=fault.times)
        try:
            self._under_fault()
            self.orders.withdraw()
            private = self._without_it()
            self._check_end(self._daemon.stop())
            self._next_daemon(private)
        finally:
            self._daemon.stop()
        return self.seen

    def places(self) -> Counter[str]:
        """How often each call is made when nothing fails."""
        found = Counter()
        for call in CALLS:
            self.orders.give(call, "EIO", skip=1_000_000)
            self._daemon.start()
            self._compile(*STORED, NEW)
            self._daemon.stop()
            found[call] = self.orders.matched()
            shutil.rmtree(self._store)
            shutil.copytree(self._store.parent.parent / "model" / "store", self._store)
        return found

    def _under_fault(self) -> None:
        try:
            self._daemon.start()
        except RuntimeError:
            # One that says why it does not start is none that crashes.
            if self._daemon.process.poll() != 1 or "_failed error=" not in self._daemon.log_text():
                self._wrong(f"it does not start: {self._daemon.process.poll()}")
            self.seen.counts["did not start"] += 1
            self._daemon.stop()
            self.orders.withdraw()
            self._daemon.start()
        compiled = self._compile(*STORED, NEW)
        self.seen.counts["in eager meanwhile"] += compiled.in_eager
        self.seen.counts["found meanwhile"] += compiled.hits
        if self._daemon.process.poll() is not None:
            self._wrong(f"it crashed: {self._daemon.process.returncode}")

    def _without_it(self) -> bool:
        """Whether the daemon's store was a private one."""
        after = self._compile(*STORED, NEW, FRESH)
        if after.in_eager:
            self._wrong(f"remembered: {after.in_eager} in eager for {after.reasons}")
        if after.kernels != sum(self._kernels.values()):
            self._wrong(f"remembered: {after.kernels} kernels of {self._kernels}")
        deadline = time.monotonic() + WRITTEN_WITHIN_S
        while (stats := tensord.daemon_stats())["store_problem"] and time.monotonic() < deadline:
            if _PRIVATE in stats["store_problem"]:
                self.seen.counts["with a private store"] += 1
                return True
            time.sleep(0.1)
        if stats["store_problem"]:
            self._wrong(f"remembered: {stats['store_problem']}")
        self.seen.counts["workers ended"] += stats["worker_restarts"]
        self.seen.counts["damaged files"] += stats["blobs_corrupt"]
        if stats["blobs_corrupt"]:
            self._wrong(f"{stats['blobs_corrupt']} files taken for damaged")
        return False

    def _next_daemon(self, private: bool) -> None:
        command = [str(binary("tensorctl")), "--json", "verify", f"--store={self._store}"]
        verified = subprocess.run(command, capture_output=True, text=True, check=False)
        if verified.returncode != 0:
            self._wrong(f"verify: {verified.stdout} {verified.stderr}")
        elif json.loads(verified.stdout).get("unreadable"):
            self._wrong(f"verify: {verified.stdout}")
        self._daemon.start()
        kept = STORED if private else (*STORED, NEW, FRESH)
        found = self._compile(*kept)
        if found.hits != len(kept):
            self._wrong(f"lost: {found.compiled} of {len(kept)}, {found.in_eager} in eager")
        self._check_end(self._daemon.stop())

    def _check_end(self, code: int | None) -> None:
        if code != 0:
            self._wrong(f"it ended with {code}: {self._daemon.log_text()[-300:]}")

    def _compile(self, *numbers: int) -> Compiled:
        """Runs the functions by this job, which knows of no daemon before."""
        os.environ["TENSORD_ADDRESS"] = self._daemon.address
        jobs.rpc.client().forget()
        tensord.reset_stats()
        outcome = jobs.Outcome()
        for number in numbers:
            jobs.compare(number, outcome)
        for problem in outcome.wrong + outcome.errors:
            self._wrong(problem)
        stats: dict[str, Any] = tensord.stats()
        in_eager = stats["fallbacks"] + stats["calls_in_eager"]
        reasons = stats.get("fallback_reasons", {})
        return Compiled(stats["hits"], stats["compiled"], in_eager, stats["kernels"], reasons)

    def _wrong(self, what: str) -> None:
        self.seen.wrong.append(f"{self._fault}: {what}")


def _begin(folder: Path) -> None:
    """In each process that tries: a job of its own, without a cache of what it fetched."""
    jobs.rpc.UNAVAILABLE_MEMORY_S = 0.0
    os.environ.update(
        TENSORD_AUTOSTART="0",
        TENSORD_NATIVE="0",
        TENSORD_STORE=str(folder / f"fetched-{os.getpid()}"),
    )


def _kernels(folder: Path) -> dict[int, int]:
    """Makes the model of a store, and says how many launches each function has."""
    model = folder / "model"
    model.mkdir(mode=0o700)
    launches = {}
    for numbers in (STORED, (NEW, FRESH)):
        place = model if numbers is STORED else folder / "other"
        place.mkdir(mode=0o700, exist_ok=True)
        daemon = RealDaemon(place, flags=("--workers=1", "--confine=off"))
        os.environ["TENSORD_ADDRESS"] = daemon.address
        for number in numbers:
            jobs.rpc.client().forget()
            tensord.reset_stats()
            jobs.compare(number, jobs.Outcome())
            launches[number] = tensord.stats()["kernels"]
        daemon.close()
    return launches


def _faults(places: Counter[str], most: int, errors: int) -> list[Fault]:
    """Of each call at most so many places, evenly over all of them, and at each so many errors, the
    next ones in turn; 0: all."""
    tried = [
        (call, skip)
        for call in CALLS
        for skip in range(0, places[call], max(1, -(-places[call] // most)) if most else 1)
    ]
    in_turn = itertools.cycle(ERRORS)
    return [
        Fault(call, error, skip, times)
        for call, skip in tried
        for error in itertools.islice(in_turn, errors or len(ERRORS))
        for times in (1, 0)
    ]


_shared: dict[str, Any] = {}


def _try(numbered: tuple[int, Fault]) -> Seen:
    number, fault = numbered
    folder: Path = _shared["folder"]
    place = folder / str(number)
    try:
        return _Trial(fault, folder / "model" / "store", place, _shared["kernels"]).run()
    except Exception as error:
        return Seen(wrong=[f"{fault}: {type(error).__name__}: {str(error)[-600:]}"])
    finally:
        shutil.rmtree(place, ignore_errors=True)


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Counts the places, then tries each."""
    torch.manual_seed(arguments.seed)
    with campaign.folder(in_memory=True) as folder:
        _begin(folder)
        _shared.update(folder=folder, kernels=_kernels(folder))
        count = Fault("open", "EIO", 0, 1)
        places = _Trial(count, folder / "model" / "store", folder / "count", {}).places()
        table.add("launches of the functions", " ".join(map(str, _shared["kernels"].values())))
        for call in CALLS:
            table.add(f"{call}: places", places[call])
        faults = _faults(places, arguments.places, arguments.errors)
        seen = Seen()
        with _FORK.Pool(arguments.jobs, _begin, (folder,)) as pool:
            for one in pool.imap_unordered(_try, enumerate(faults)):
                seen.counts.update(one.counts)
                seen.wrong += one.wrong
    table.add("faults", len(faults))
    for name, number in sorted(seen.counts.items()):
        table.add(name, number)
    table.none("crashed, wrong, lost, damaged or remembered", seen.wrong)


if __name__ == "__main__":
    campaign.main(run, __doc__, places=30, errors=0, jobs=2)
