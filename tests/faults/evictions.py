#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Programs are published into stores that are full, of `--count` programs and of a tenth of them,
so that each tenth of a store's bytes that is published evicts a tenth of its programs.

What a publication takes of the processor, evictions included, grows with the index's depth and
with its pages that are not in memory, not with the number of its rows: at most three times as much
in the large store (`--timing 0`: the figures alone). The stores lie in memory where there is such a
place, so that it is the index that is timed, not a disk.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from pathlib import Path

import campaign
import process_facts
from stores import Store

SHARED = 4  # programs of one kernel (native/store_driver.cc)
BYTES = 6000  # of a kernel
OLD_S = 3600  # how long ago what is stored was used


def _fill(root: Path, count: int, kernels: int) -> int:
    """A store of so many old programs; its bytes."""
    with Store(root, kernels=kernels) as store:
        assert store.ask(f"fill 0 {count}") == "done"
    then = time.time() - OLD_S
    for path in [*(root / "manifests").rglob("*"), *(root / "kernels").rglob("*")]:
        os.utime(path, (then, then))
    for path in root.glob("index.sqlite*"):  # which is made of the files, with their times
        path.unlink()
    with Store(root, kernels=kernels) as store:
        store.ask("reconcile")
        found = store.numbers("count")
        assert found["programs"] == count, found
    return found["bytes"]


def _publish(
    root: Path, limit: int, count: int, kernels: int, more: int
) -> tuple[list[float], float, int]:
    """Seconds of each publication, those of the processor for all, and programs evicted."""
    seconds = []
    with Store(root, limit, kernels=kernels) as store:
        before = process_facts.cpu_seconds(store.process.pid)
        for number in range(count, count + more):
            start = time.monotonic()
            assert store.publish(number, 1, BYTES) == [number]
            seconds.append(time.monotonic() - start)
        cpu = process_facts.cpu_seconds(store.process.pid) - before
        left = store.numbers("count")["programs"]
        found = store.lookup(count, more)
    assert found["wrong"] == 0, found
    return seconds, cpu, count + more - left


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """The small store, then the large one."""
    means = []
    for count in (arguments.count // 10, arguments.count):
        kernels = 2 * arguments.count // SHARED
        more = max(arguments.publish, count // 5)
        with campaign.folder(in_memory=True) as folder:
            limit = _fill(folder / "store", count, kernels)
            seconds, cpu, evicted = _publish(folder / "store", limit, count, kernels, more)
        means.append(cpu / more)
        table.add(f"{count} programs: published", more)
        table.must(f"{count} programs: evicted", evicted, evicted >= count // 10, "a tenth")
        table.add(f"{count} programs: CPU ms a publication", means[-1] * 1e3)
        table.add(f"{count} programs: ms a publication, mean", statistics.mean(seconds) * 1e3)
        table.add(f"{count} programs: ms a publication, median", statistics.median(seconds) * 1e3)
        table.add(f"{count} programs: ms a publication, slowest", max(seconds) * 1e3)
    ratio = means[1] / means[0]
    if arguments.timing:
        table.must("CPU, large store to small one", ratio, ratio <= 3, "at most 3")
    else:
        table.add("CPU, large store to small one", ratio)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=20_000, publish=2000, timing=1)
