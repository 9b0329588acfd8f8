#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends the daemon with SIGKILL `--count` times under the load of `--clients` jobs.

No result differs from eager's, no job sees an error (a graph may run in eager), and the store is
sound afterwards.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import time

import campaign
import jobs
from real_daemon import RealDaemon, binary


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Kills at random moments, up to two seconds after the daemon listens."""
    draw = random.Random(arguments.seed)
    daemon = RealDaemon()
    try:
        load = jobs.Jobs(daemon.address, arguments.clients, arguments.seed)
        for _ in range(arguments.count):
            time.sleep(draw.uniform(0.05, 2.0))
            daemon.kill()
            daemon.start()
        seen = load.end()
        stopped = daemon.stop()
        verified = subprocess.run(
            [str(binary("tensorctl")), "--json", "verify", f"--store={daemon.store}"],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        daemon.close()
    table.add("kills", arguments.count)
    table.add("jobs", arguments.clients)
    table.add("functions compiled and run", seen.calls)
    for name in ("compiled", "joined", "hits", "fallbacks"):
        table.add(f"of these {name}" if name != "fallbacks" else "graphs in eager",
                  seen.stats[name])  # fmt: skip
    table.none("wrong results", seen.wrong)
    table.none("errors", seen.errors)
    table.must("exit code at the end", stopped, stopped == 0, "0")
    found = json.loads(verified.stdout or "{}")
    table.must("programs stored", found.get("programs"), bool(found.get("programs")), "some")
    table.must("damaged", found.get("damaged"), verified.returncode == 0, "0")


if __name__ == "__main__":
    campaign.main(run, __doc__, count=200, clients=32)
