#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A daemon is told to stop (SIGTERM) `--count` times, each time while it compiles for a job.

Who watches the standard health service hears NOT_SERVING before the job has its answer and within
100 ms (`--timing 0`: the figures alone, for a machine that others use as well). The job gets its
program, and the daemon ends with 0.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import campaign
import graphs
from real_daemon import RealDaemon
from slow_compiler import slow_compiler, wait_for
from tensord.wire import rpc, transport

WITHIN_S = 0.1
# grpc.health.v1.HealthCheckResponse, whose only field is a number.
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"
WATCH = "/grpc.health.v1.Health/Watch"


def _compile(number: int) -> int:
    return int(rpc.CompileCall(graphs.request(graphs.small(number))).wait().outcome)


def _stop(daemon: RealDaemon, place: Path, number: int) -> tuple[float, list[str]]:
    """Seconds from the signal to NOT_SERVING, and what is not right."""
    (place / "compiling").unlink(missing_ok=True)
    (place / "go").unlink(missing_ok=True)
    rpc.client().forget()
    rpc.client().hello()
    wrong = []
    health = transport.Call(str(daemon.socket), WATCH, b"", 60.0).messages()
    if next(health) != SERVING:
        wrong.append("it does not say that it serves")
    with ThreadPoolExecutor(1) as job:
        answer = job.submit(_compile, number)
        wait_for((place / "compiling").exists, "a compile")
        start = time.monotonic()
        os.kill(daemon.process.pid, signal.SIGTERM)
        if next(health) != NOT_SERVING:
            wrong.append("it says something else than that it stops")
        seconds = time.monotonic() - start
        if answer.done():
            wrong.append("it says so once its work is done")
        health.close()
        (place / "go").touch()
        if not answer.result():
            wrong.append("the job has no program")
    if (code := daemon.process.wait(60)) != 0:
        wrong.append(f"it ended with {code}")
    return seconds, wrong


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """One daemon after the other on one store."""
    seconds: list[float] = []
    wrong: list[str] = []
    with tempfile.TemporaryDirectory(prefix="ts") as folder:
        place = Path(folder)
        script = slow_compiler(
            place, f"touch {place}/compiling; while ! [ -e {place}/go ]; do sleep 0.02; done"
        )
        daemon = RealDaemon(flags=(f"--cxx={script}", "--confine=off"), starts=False)
        os.environ.update(TENSORD_ADDRESS=daemon.address, TENSORD_AUTOSTART="0")
        try:
            for turn in range(arguments.count):
                daemon.start()
                took, found = _stop(daemon, place, turn + 1)
                seconds.append(took)
                wrong += [f"stop {turn}: {what}" for what in found]
        finally:
            (place / "go").touch()
            daemon.close()
    table.add("stops", len(seconds))
    table.add("ms until NOT_SERVING, median", statistics.median(seconds) * 1e3)
    most = max(seconds) * 1e3
    if arguments.timing:
        table.must("ms until NOT_SERVING, most", most, most <= WITHIN_S * 1e3, "at most 100")
    else:
        table.add("ms until NOT_SERVING, most", most)
    table.none("wrong", wrong)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=50, timing=1)
