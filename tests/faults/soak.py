#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon under load for `--minutes`, with a limit of its store that makes it evict all the time.

After the first third, in which caches fill, its memory grows by less than 1 MB an hour, as the
slope of all samples says, and its descriptors not at all; the largest of its workers holds no more
in the last third than in the middle one. Jobs, which compile a function anew with each call, keep
little more of it than Dynamo itself. In runs of less than half an hour a slope says little: there
the bound is what the last third holds beyond the middle one, and in those of less than five minutes
caches still fill, clients may still connect, and nothing is old enough to be evicted.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import time

import campaign
import jobs
import process_facts
import tensord
from real_daemon import RealDaemon

MIB = 1 << 20
LONG_S, SHORT_S = 1800.0, 300.0
WORKER_MORE = 64 * MIB  # from third to third: compiles differ
MOST_OF_A_CALL = 64 << 10  # of torch 2.13 alone: about 25 KiB


def _slope(points: list[tuple[float, float]]) -> float:
    """Per second, of the line through the points."""
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def _largest(processes: list[int]) -> int:
    """What the largest of them holds; one that ends meanwhile holds nothing."""
    held = [0]
    for pid in processes:
        with contextlib.suppress(OSError):
            held.append(process_facts.resident_bytes(pid))
    return max(held)


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Samples once a second."""
    daemon = RealDaemon(flags=(f"--store-limit={arguments.limit_mib * MIB}",))
    pid = daemon.process.pid
    memory: list[tuple[float, float]] = []
    descriptors: list[int] = []
    workers: list[int] = []
    jobs_held: list[int] = []
    try:
        load = jobs.Jobs(daemon.address, arguments.clients, arguments.seed)
        start = time.monotonic()
        while time.monotonic() - start < arguments.minutes * 60:
            time.sleep(1)
            memory.append((time.monotonic() - start, float(process_facts.resident_bytes(pid))))
            descriptors.append(process_facts.descriptors(pid))
            workers.append(_largest(daemon.workers()))
            jobs_held.append(_largest(load.processes()))
        seen = load.end()
        stats = tensord.daemon_stats()
    finally:
        daemon.close()
    third = len(memory) // 3
    middle = [value for _, value in memory[third : 2 * third]]
    last = [value for _, value in memory[2 * third :]]
    table.add("requests", stats["requests"])
    table.add("compiled", stats["compiled"])
    evicted = stats["programs_evicted"]
    if arguments.minutes * 60 >= SHORT_S:
        table.must("programs evicted", evicted, evicted > 0, "some")
    else:
        table.add("programs evicted", evicted)
    table.add("memory in the middle third, MiB", statistics.median(middle) / MIB)
    table.add("memory in the last third, MiB", statistics.median(last) / MIB)
    hourly = _slope(memory[third:]) * 3600 / MIB
    if arguments.minutes * 60 >= LONG_S:
        table.must("growth, MiB an hour", hourly, hourly < 1, "below 1")
    elif arguments.minutes * 60 >= SHORT_S:
        table.add("growth, MiB an hour", hourly)
        more = (statistics.median(last) - statistics.median(middle)) / MIB
        table.must("more in the last third, MiB", more, more < 4, "below 4")
    worker, later_worker = max(workers[third : 2 * third]), max(workers[2 * third :])
    table.add("largest worker in the middle third, MiB", worker / MIB)
    if arguments.minutes * 60 >= SHORT_S:
        table.must("largest worker in the last third, MiB", later_worker / MIB,
                   later_worker <= worker + WORKER_MORE,
                   f"at most {WORKER_MORE // MIB} more")  # fmt: skip
    else:
        table.add("largest worker in the last third, MiB", later_worker / MIB)
    calls = max(1.0, seen.calls / arguments.clients / 2)  # from amid the middle third on
    of_a_call = (max(jobs_held[-third:]) - statistics.median(jobs_held[third : 2 * third])) / calls
    if arguments.minutes * 60 >= LONG_S:  # before, torch's own caches fill
        table.must("the largest job's growth by a call, KiB", of_a_call / 1024,
                   of_a_call < MOST_OF_A_CALL,
                   f"below {MOST_OF_A_CALL >> 10}")  # fmt: skip
    else:
        table.add("the largest job's growth by a call, KiB", of_a_call / 1024)
    most = max(descriptors[third : 2 * third], default=0)
    if arguments.minutes * 60 < SHORT_S:
        most += arguments.clients  # of which some connect late on a busy machine
    later = statistics.median(descriptors[2 * third :])
    table.must("descriptors, last third", later, later <= most, f"at most {most}, as before")
    table.none("wrong results", seen.wrong)
    table.none("errors", seen.errors)


if __name__ == "__main__":
    campaign.main(run, __doc__, minutes=120.0, clients=8, limit_mib=32)
