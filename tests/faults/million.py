#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store of `--count` programs, its pages not in memory: a daemon serves within 10 s of its start,
also where its index is damaged, which it makes anew meanwhile; `tensorctl rebuild-index` does, too.

Records are written by the store's own code without syncing them, and their rows by its reconciling.
The page cache is dropped where that is allowed (root); otherwise the table says that it was not.
With `--root DIR` the store is made there, and kept for the next time. A million take 5 GB.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import time
from pathlib import Path

import campaign
import jobs
import process_facts
import tensord
from real_daemon import RealDaemon, binary
from stores import Store

SERVES_WITHIN_S = 10.0
REBUILT_WITHIN_S = 900.0
NEAR_WITHIN_S = 0.5  # what a miss may add to its compile, with a cold disk
IDLE_CPU_S = 0.02  # in a second: what a daemon without work takes at most
KERNELS = 4096  # programs whose kernels are published in full (native/store_driver.cc)


def _drop_page_cache() -> bool:
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError:
        return False
    return True


def _fill(store: Path, count: int, table: campaign.Table) -> None:
    with Store(store) as filler:
        have = filler.numbers("count")["programs"]
        if have >= count:
            return
        start = time.monotonic()
        assert filler.ask(f"fill 0 {count}") == "done"
        table.add("seconds to write the records", time.monotonic() - start)
        start = time.monotonic()
        filler.ask("reconcile")
        table.add("seconds to index them", time.monotonic() - start)
        have = filler.numbers("count")["programs"]
        table.must("programs in the index", have, have == count, str(count))


def _settled(daemon: RealDaemon, limit_s: float) -> float:
    """Seconds until the daemon has nothing to do any more in the background."""
    start, pid = time.monotonic(), daemon.process.pid
    busy = -1.0
    while time.monotonic() - start < limit_s:
        now = process_facts.cpu_seconds(pid)
        if now - busy < IDLE_CPU_S and not process_facts.waits_for_a_disk(pid):
            break
        busy = now
        time.sleep(1)
    return time.monotonic() - start


def _rebuild(store: Path, count: int, table: campaign.Table) -> None:
    """By hand, while nobody serves."""
    start = time.monotonic()
    command = [str(binary("tensorctl")), "--json", "rebuild-index", f"--store={store}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    seconds = time.monotonic() - start
    table.add("rebuild-index: seconds", seconds)
    table.add("rebuild-index: microseconds a record", 1e6 * seconds / count)
    found = json.loads(done.stdout)["programs"]
    table.must("rebuild-index: programs", found, found > count, f"> {count}")


def _ask_what_is_near(
    store: Path, arguments: argparse.Namespace, table: campaign.Table
) -> None:  # fmt: skip
    """As a compile does, once a miss."""
    if not arguments.keep_cache:
        _drop_page_cache()
    with Store(store) as asked:
        answers = [asked.numbers(f"near {number}") for number in range(7, 7000, 350)]
    table.must("rows that a miss reads", max(one["rows"] for one in answers),
               all(17 < one["rows"] <= 80 for one in answers), "at most 80")  # fmt: skip
    slowest = max(one["microseconds"] for one in answers) / 1e6
    table.must("slowest of 20 misses, seconds", slowest, slowest < NEAR_WITHIN_S,
               f"below {NEAR_WITHIN_S}")  # fmt: skip


def _damage_index(store: Path) -> None:
    for suffix in ("-wal", "-shm"):
        (store / f"index.sqlite{suffix}").unlink(missing_ok=True)
    with (store / "index.sqlite").open("r+b") as index:
        index.write(b"x" * 8192)


def _serve_while_damaged(
    folder: Path, store: Path, arguments: argparse.Namespace, table: campaign.Table
) -> None:
    """A daemon that finds its index damaged serves, and makes it anew beside it."""
    _damage_index(store)
    if not arguments.keep_cache:
        _drop_page_cache()
    start = time.monotonic()
    daemon = RealDaemon(folder, flags=(f"--store={store}", "--store-limit=0"))
    try:
        os.environ["TENSORD_ADDRESS"] = daemon.address
        jobs.rpc.client().forget()
        tensord.reset_stats()
        outcome = jobs.Outcome()
        jobs.compare(int(start) % 100_000 + 100_000, outcome)
        served = time.monotonic() - start
        table.must("damaged index: seconds until a program is stored", served,
                   served <= SERVES_WITHIN_S, f"at most {SERVES_WITHIN_S:.0f}")  # fmt: skip
        slowest, stored = 0.0, 0
        while stored <= arguments.count and time.monotonic() - start < REBUILT_WITHIN_S:
            asked = time.monotonic()
            stored = tensord.daemon_stats()["programs_stored"]
            slowest = max(slowest, time.monotonic() - asked)
            time.sleep(0.2)
        table.add("damaged index: seconds until it has all", time.monotonic() - start)
        table.must("damaged index: programs", stored, stored > arguments.count,
                   f"> {arguments.count}")  # fmt: skip
        table.must("damaged index: slowest answer of stats, seconds", slowest, slowest < 2,
                   "below 2")  # fmt: skip
        jobs.compare(int(start) % 100_000 + 100_000, outcome)
        table.none("damaged index: errors, or graphs in eager",
                   len(outcome.errors) + len(outcome.wrong)
                   + tensord.stats()["fallbacks"])  # fmt: skip
        most = process_facts.peak_resident_bytes(daemon.process.pid) >> 20
        table.must("damaged index: most memory, MiB", most, most < 300, "below 300")
    finally:
        daemon.close()


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Fills, forgets, starts and asks; then without an index."""
    with campaign.folder() as folder:
        root = Path(arguments.root).resolve() if arguments.root else folder
        root.mkdir(parents=True, exist_ok=True)
        _fill(root / "store", arguments.count, table)
        _ask_what_is_near(root / "store", arguments, table)
        os.environ.update(TENSORD_AUTOSTART="0", TENSORD_ADDRESS=f"unix:{folder}/s")
        # What torch reads at its first compile is not to be counted.
        (folder / "warm").mkdir()
        warm = RealDaemon(folder / "warm")
        os.environ["TENSORD_ADDRESS"] = warm.address
        jobs.compare(1, jobs.Outcome())
        warm.close()
        jobs.rpc.client().forget()
        tensord.reset_stats()

        table.add("page cache dropped", not arguments.keep_cache and _drop_page_cache())
        start = time.monotonic()
        daemon = RealDaemon(folder, flags=(f"--store={root}/store", "--store-limit=0"))
        try:
            os.environ["TENSORD_ADDRESS"] = daemon.address
            table.add("seconds until it listens", time.monotonic() - start)
            outcome = jobs.Outcome()
            jobs.compare(int(start) % 100_000, outcome)
            served = time.monotonic() - start
            table.must("seconds until a program is compiled and stored", served,
                       served <= SERVES_WITHIN_S, f"at most {SERVES_WITHIN_S:.0f}")  # fmt: skip
            stats = tensord.stats()
            table.none("errors, or graphs in eager",
                       len(outcome.errors) + len(outcome.wrong) + stats["fallbacks"])  # fmt: skip
            found = time.monotonic()
            jobs.compare(int(start) % 100_000, outcome)
            table.add("seconds to find it again", time.monotonic() - found)
            slowest = 0.0
            for _ in range(20):
                asked = time.monotonic()
                stored = tensord.daemon_stats()["programs_stored"]
                slowest = max(slowest, time.monotonic() - asked)
                time.sleep(0.1)
            table.must("programs stored", stored, stored > arguments.count, f"> {arguments.count}")
            table.must("slowest answer of stats, seconds", slowest, slowest < 2, "below 2")
            table.add("seconds until files and index are compared", _settled(daemon, 600.0))
            most = process_facts.peak_resident_bytes(daemon.process.pid) >> 20
            table.must("most memory of the daemon, MiB", most, most < 300, "below 300")
        finally:
            daemon.close()
        _rebuild(root / "store", arguments.count, table)
        (folder / "damaged").mkdir()
        _serve_while_damaged(folder / "damaged", root / "store", arguments, table)
        with Store(root / "store") as store:
            wrong = store.lookup(0, min(arguments.count, KERNELS))
            table.must("programs found", wrong["found"],
                       wrong["found"] == min(arguments.count, KERNELS), "all")  # fmt: skip


if __name__ == "__main__":
    campaign.main(run, __doc__, count=1_000_000, root="", keep_cache=0)
