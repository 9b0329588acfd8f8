#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Three times the store's limit is written within `--seconds`, while a job runs a program of it.

What the limit counts on disk, sampled every 100 ms, is never above it by more than 5 %; the job's
program is evicted (given 90 s), and goes on running with the pages that it has mapped.
"""

from __future__ import annotations

import argparse
import os
import threading
import time
from pathlib import Path

import campaign
import jobs
import tensord
import torch
from real_daemon import RealDaemon
from stores import Store

BLOB = 60_000
PER_PROGRAM = BLOB // 4 + 2 * 4096  # bytes on disk: four programs share a kernel
KEPT_S = 90  # a program that nobody has looked up for so long goes when room is needed
UNCOUNTED = {"jit", "repros"}  # docs/caching.md


def on_disk(store: Path) -> int:
    """Bytes that the limit counts; what vanishes meanwhile is nothing."""
    total = 0
    for folder, below, names in os.walk(store):
        if Path(folder) == store:
            below[:] = [name for name in below if name not in UNCOUNTED]
        for name in names:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except OSError:
                continue
    return total


def _programs(store: Path) -> set[str]:
    return {path.name for path in (store / "manifests").rglob("*") if path.is_file()}


class _Sampler:
    def __init__(self, store: Path) -> None:
        self.samples: list[int] = []
        self._store = store
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._sample)
        self._thread.start()

    def _sample(self) -> None:
        while not self._ends.wait(0.1):
            self.samples.append(on_disk(self._store))

    def end(self) -> int:
        self._ends.set()
        self._thread.join()
        return max(self.samples)


def _write(store: Path, limit: int, seconds: int, each: object) -> None:
    """Three times the limit, evenly over the time; `each` is called in between."""
    programs, start = 3 * limit // PER_PROGRAM, time.monotonic()
    with Store(store, limit) as writer:
        for number in range(0, programs, 4):
            writer.publish(number, 4, BLOB)
            due = start + seconds * number / programs
            time.sleep(max(0.0, due - time.monotonic()))
            each()  # type: ignore[operator]


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """The writer is another process on the daemon's store, as another daemon would be."""
    limit = arguments.limit_mib << 20
    daemon = RealDaemon(flags=(f"--store-limit={limit}",))
    os.environ.update(TENSORD_ADDRESS=daemon.address, TENSORD_AUTOSTART="0", TENSORD_STRICT="1")
    wrong: list[str] = []
    try:
        function, x = jobs.function(1), torch.randn(40, 50)
        compiled = torch.compile(function, backend="tensord")
        want = function(x)

        def call() -> None:
            if not torch.allclose(compiled(x), want, rtol=1e-4, atol=1e-5):
                wrong.append("another result")

        call()
        own = _programs(daemon.store)
        assert own, "the job's program is not stored"
        sampler = _Sampler(daemon.store)
        _write(daemon.store, limit, arguments.seconds, call)
        peak = sampler.end()
        call()
        stats = tensord.daemon_stats()
        evicted = not own & _programs(daemon.store)
    finally:
        daemon.close()
    table.add("limit, bytes", limit)
    table.add("samples", len(sampler.samples))
    table.must("peak, bytes", peak, peak <= limit * 1.05, "at most the limit and 5 %")
    table.add("programs left", stats["programs_stored"])
    if arguments.seconds >= KEPT_S:
        table.must("the job's program was evicted", evicted, evicted, "True")
    table.none("results that were not right", wrong)


if __name__ == "__main__":
    campaign.main(run, __doc__, limit_mib=8, seconds=100)
