#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ten kinds of graphs that take too much CPU, memory or time, one after the other, while another
job looks stored programs up and a third compiles small ones.

A bomb is answered within its request's budget (`--job-seconds`) and a second, with a program or
with an error. Meanwhile 95 of 100 look-ups take less than 10 ms, and a small graph takes at most
twice what it takes alone (`--timing 0`: the figures alone, for a machine that others use as well).
Asked again, a bomb that was ended is refused at once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import campaign
import graphs
import tensord
from real_daemon import RealDaemon
from tensord.errors import TensordError
from tensord.v1 import requests_pb2
from tensord.wire import rpc

AGAIN_WITHIN_S = 0.5
WARM = 900_000


def _ask(graph: Any) -> tuple[float, str]:
    """Seconds, and what was answered."""
    request = graphs.request(graph)
    start = time.monotonic()
    try:
        reply = rpc.CompileCall(request).wait()
        answer = requests_pb2.CompileReply.Outcome.Name(reply.outcome).lower()
    except TensordError as error:
        answer = f"{type(error).__name__}: {error}"
    return time.monotonic() - start, answer


class _Others:
    """Jobs that go on meanwhile: each asks, notes how long it took, and rests."""

    def __init__(self, next_graph: Callable[[], Any], rest_s: float, wanted: str) -> None:
        self.seconds: list[float] = []
        self.problems: list[str] = []
        self._next, self._rest_s, self._wanted = next_graph, rest_s, wanted
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(self._rest_s):
            seconds, answer = _ask(self._next())
            self.seconds.append(seconds)
            if answer != self._wanted:
                self.problems.append(answer)

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


def _small_ones() -> Callable[[], Any]:
    numbers = iter(range(1, WARM))
    return lambda: graphs.small(next(numbers))


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """First alone, then beside the bombs."""
    budget = arguments.job_seconds
    daemon = RealDaemon(flags=(f"--job-seconds={budget}",))
    os.environ.update(TENSORD_ADDRESS=daemon.address, TENSORD_AUTOSTART="0")
    try:
        rpc.client().hello()
        _ask(graphs.small(WARM))
        small = _small_ones()
        alone = [_ask(small())[0] for _ in range(arguments.alone)]
        hits = _Others(lambda: graphs.small(WARM), 0.02, "hit")
        colds = _Others(small, 0.2, "compiled")
        late, remembered = [], []
        for name, make in list(graphs.BOMBS.items())[: arguments.count]:
            graph = make()
            seconds, answer = _ask(graph)
            table.add(name, f"{seconds:.1f} s  {answer[:90]}")
            if seconds > budget + 1:
                late.append(f"{name}: {seconds:.1f} s")
            if "longer than" in answer or "CPU time" in answer:
                again, answer = _ask(graph)
                if again > AGAIN_WITHIN_S:
                    remembered.append(f"{name}: {again:.1f} s, {answer[:60]}")
        hits.end()
        colds.end()
        restarts = tensord.daemon_stats()["worker_restarts"]
        alive = daemon.process.poll() is None
    finally:
        daemon.close()
    table.none("answered late", late)
    table.none("not refused the second time", remembered)
    table.must("the daemon lives", alive, alive, "True")
    table.add("workers that were ended", restarts)
    table.none("other jobs' problems", hits.problems + colds.problems)
    table.add("look-ups meanwhile", len(hits.seconds))
    slow_hit = statistics.quantiles(hits.seconds, n=20)[-1] * 1e3
    quiet, beside = statistics.median(alone), statistics.median(colds.seconds)
    table.add("small graphs meanwhile", len(colds.seconds))
    table.add("a small graph alone, median, s", quiet)
    if arguments.timing:
        table.must("look-ups, 95 of 100 within, ms", slow_hit, slow_hit <= 10, "at most 10")
        table.must("a small graph meanwhile, s", beside, beside <= 2 * quiet, "at most twice")
    else:
        table.add("look-ups, 95 of 100 within, ms", slow_hit)
        table.add("a small graph meanwhile, s", beside)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=10, job_seconds=10, alone=7, timing=1)
