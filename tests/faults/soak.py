#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon under load for `--minutes`, with a limit of its store that makes it evict all the time.

After the first third, in which caches fill, its memory grows by less than 1 MB an hour, as the
slope of all samples says, and its descriptors not at all. In runs of less than half an hour a slope
says little: there the bound is what the last third holds beyond the middle one, and in those of
less than five minutes caches still fill, and clients may still connect.
"""

from __future__ import annotations

import argparse
import statistics
import time

import campaign
import jobs
import process_facts
import tensord
from real_daemon import RealDaemon

MIB = 1 << 20
LONG_S, SHORT_S = 1800.0, 300.0


def _slope(points: list[tuple[float, float]]) -> float:
    """Per second, of the line through the points."""
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Samples once a second."""
    daemon = RealDaemon(flags=(f"--store-limit={arguments.limit_mib * MIB}",))
    pid = daemon.process.pid
    memory: list[tuple[float, float]] = []
    descriptors: list[int] = []
    try:
        load = jobs.Jobs(daemon.address, arguments.clients, arguments.seed)
        start = time.monotonic()
        while time.monotonic() - start < arguments.minutes * 60:
            time.sleep(1)
            memory.append((time.monotonic() - start, float(process_facts.resident_bytes(pid))))
            descriptors.append(process_facts.descriptors(pid))
        seen = load.end()
        stats = tensord.daemon_stats()
    finally:
        daemon.close()
    third = len(memory) // 3
    middle = [value for _, value in memory[third : 2 * third]]
    last = [value for _, value in memory[2 * third :]]
    table.add("requests", stats["requests"])
    table.add("compiled", stats["compiled"])
    table.add("programs evicted", stats["programs_evicted"])
    table.add("memory in the middle third, MiB", statistics.median(middle) / MIB)
    table.add("memory in the last third, MiB", statistics.median(last) / MIB)
    hourly = _slope(memory[third:]) * 3600 / MIB
    if arguments.minutes * 60 >= LONG_S:
        table.must("growth, MiB an hour", hourly, hourly < 1, "below 1")
    elif arguments.minutes * 60 >= SHORT_S:
        table.add("growth, MiB an hour", hourly)
        more = (statistics.median(last) - statistics.median(middle)) / MIB
        table.must("more in the last third, MiB", more, more < 4, "below 4")
    most = max(descriptors[third : 2 * third], default=0)
    if arguments.minutes * 60 < SHORT_S:
        most += arguments.clients  # of which some connect late on a busy machine
    later = statistics.median(descriptors[2 * third :])
    table.must("descriptors, last third", later, later <= most, f"at most {most}, as before")
    table.none("wrong results", seen.wrong)
    table.none("errors", seen.errors)


if __name__ == "__main__":
    campaign.main(run, __doc__, minutes=120.0, clients=8, limit_mib=32)
