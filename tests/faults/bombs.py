#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Graphs that take too much CPU, memory or time, while another job looks stored programs up and a
third compiles small ones: ten kinds one after the other, then two at once; then, of a daemon whose
jobs may have `--job-memory-mib`, kinds that take more, one after the other and two at once.

A bomb is answered within its request's budget (`--job-seconds`, for each that may come before it)
and a second, with a program or with an error; those of the second daemon are ended for memory, and
no worker of it holds more, with the compilers below it, than that and a fourth. Meanwhile 95 of 100
look-ups take less than 10 ms, and a small graph takes at most twice what it takes alone (`--timing
0`: these two as figures alone and twice the time for a bomb, for a machine that others use as well:
a daemon that ends none is still found). Asked again, a bomb that was ended is
refused: its compile is not begun again, by the daemon's log; and at once, unless `--timing 0`.
"""

from __future__ import annotations

import argparse
import collections
import os
import re
import statistics
import threading
import time
from collections.abc import Callable
from typing import Any

import campaign
import graphs
import process_facts
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


MEMORY_SECONDS = 60  # of a job that is to be ended for its memory, on a busy machine too
ENDED = ("longer than", "CPU time", "more memory", "out of memory")


def _was_ended(answer: str) -> bool:
    return any(words in answer for words in ENDED)


class _Memory:
    """The most that a worker of the daemon held together with those below it, sampled; in two
    samples, for a child that is about to be a program has its parent's memory for a moment."""

    def __init__(self, daemon: RealDaemon) -> None:
        self.most = 0
        self._daemon = daemon
        self._before: dict[int, int] = {}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.wait(0.05):
            try:
                workers = self._daemon.workers()
            except OSError:
                return  # it has ended, which is looked for elsewhere
            held = {pid: process_facts.anonymous_bytes_below(pid) for pid in workers}
            for pid, now in held.items():
                self.most = max(self.most, min(now, self._before.get(pid, 0)))
            self._before = held

    def end(self) -> int:
        self._ends.set()
        self._thread.join()
        return self.most


class _Bombs:
    """What is asked, and what came of it."""

    def __init__(self, budget_s: int, timing: int, table: campaign.Table) -> None:
        self.late: list[str] = []
        self.not_refused: list[str] = []
        self.answers: list[str] = []
        self.memory = 0  # the most of a worker
        self._budget_s, self._timing, self._table = budget_s, timing, table

    def ask(self, name: str, graph: Any, before: int = 0) -> str:
        """before: so many bombs may have their budgets first."""
        seconds, answer = _ask(graph)
        self.answers.append(f"{name}: {answer}")
        self._table.add(name, f"{seconds:.1f} s  {answer[:90]}")
        within_s = ((before + 1) * self._budget_s + 1) * (1 if self._timing else 2)
        if seconds > within_s:
            self.late.append(f"{name}: {seconds:.1f} s")
        if _was_ended(answer):
            again_s, again = _ask(graph)
            if again != answer or (self._timing and again_s > AGAIN_WITHIN_S):
                self.not_refused.append(f"{name}: {again_s:.1f} s, {again[:60]}")
        return answer

    def ended(self) -> list[str]:
        """Answers that say that the compile was ended."""
        return [one for one in self.answers if _was_ended(one)]

    def ask_at_once(self, bombs: dict[str, Callable[[], Any]]) -> None:
        """Two by two; others of their kinds than were asked before. Of an odd number the first one
        comes twice."""
        names = [*bombs, *list(bombs)[: len(bombs) % 2]]
        numbered = [(name, graphs.variant(bombs[name](), i + 1)) for i, name in enumerate(names)]
        for pair in zip(numbered[::2], numbered[1::2], strict=True):
            asking = [
                threading.Thread(target=self.ask, args=(f"at once: {name}", graph, 1))
                for name, graph in pair
            ]
            for thread in asking:
                thread.start()
            for thread in asking:
                thread.join()


def _compiled_again(log: str, ended: int) -> list[str]:
    """Of so many programs whose compile was ended: those that the log says were begun once more, or
    that it does not speak of."""
    begun = re.findall(r"event=compile .* outcome=failed key=(\w+) .* miss=", log)
    times = collections.Counter(begun)
    missing = [f"{ended - len(times)} not in the log"] if len(times) < ended else []
    return [key for key, count in times.items() if count > 1] + missing


class _Beside:
    """The other jobs of a part of the campaign."""

    def __init__(self, small: Callable[[], Any], quiet_s: float) -> None:
        self._hits = _Others(lambda: graphs.small(WARM), 0.02, "hit")
        self._colds = _Others(small, 0.2, "compiled")
        self._quiet_s = quiet_s

    def end(self, part: str, timing: int, table: campaign.Table) -> None:
        """Adds what they saw to the table."""
        self._hits.end()
        self._colds.end()
        table.none(f"{part}: other jobs' problems", self._hits.problems + self._colds.problems)
        table.add(f"{part}: look-ups", len(self._hits.seconds))
        table.add(f"{part}: small graphs", len(self._colds.seconds))
        slow_hit = statistics.quantiles(self._hits.seconds, n=20)[-1] * 1e3
        beside = statistics.median(self._colds.seconds)
        if timing:
            table.must(f"{part}: look-ups, 95 of 100 within, ms", slow_hit, slow_hit <= 10,
                       "at most 10")  # fmt: skip
            table.must(f"{part}: a small graph, median, s", beside, beside <= 2 * self._quiet_s,
                       "at most twice")  # fmt: skip
        else:
            table.add(f"{part}: look-ups, 95 of 100 within, ms", slow_hit)
            table.add(f"{part}: a small graph, median, s", beside)


def _small_ones() -> Callable[[], Any]:
    numbers = iter(range(1, WARM))
    return lambda: graphs.small(next(numbers))


class _Part:
    """One daemon, its bombs, and the others' jobs."""

    def __init__(
        self, name: str, seconds: int, table: campaign.Table, flags: tuple[str, ...] = ()
    ) -> None:
        self._name, self._seconds, self._table = name, seconds, table
        self._daemon = RealDaemon(flags=(f"--job-seconds={seconds}", *flags))
        os.environ.update(TENSORD_ADDRESS=self._daemon.address, TENSORD_AUTOSTART="0")
        self._small = _small_ones()

    def run(self, bombs: dict[str, Callable[[], Any]], arguments: argparse.Namespace) -> _Bombs:
        """All bombs; and what a worker held."""
        asked = _Bombs(self._seconds, arguments.timing, self._table)
        try:
            rpc.client().forget()
            rpc.client().hello()
            _ask(graphs.small(WARM))
            quiet = statistics.median(_ask(self._small())[0] for _ in range(arguments.alone))
            self._table.add(f"{self._name}: a small graph alone, median, s", quiet)
            memory = _Memory(self._daemon)
            beside = _Beside(self._small, quiet)
            for name, make in bombs.items():
                asked.ask(name, make())
            beside.end(f"{self._name}, one at a time", arguments.timing, self._table)
            beside = _Beside(self._small, quiet)
            asked.ask_at_once(bombs)
            beside.end(f"{self._name}, two at once", arguments.timing, self._table)
            asked.memory = memory.end()
            self._table.add(f"{self._name}: workers that were ended",
                            tensord.daemon_stats()["worker_restarts"])  # fmt: skip
            alive = self._daemon.process.poll() is None
            asked.not_refused += _compiled_again(self._daemon.log_text(), len(asked.ended()))
        finally:
            self._daemon.close()
        self._table.none(f"{self._name}: answered late", asked.late)
        self._table.none(f"{self._name}: not refused the second time", asked.not_refused)
        self._table.must(f"{self._name}: the daemon lives", alive, alive, "True")
        return asked


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Much memory and little time, then little memory."""
    limit = arguments.job_memory_mib << 20
    bombs = dict(list(graphs.BOMBS.items())[: arguments.count])
    _Part("time", arguments.job_seconds, table).run(bombs, arguments)
    part = _Part("memory", MEMORY_SECONDS, table, (f"--job-memory={limit}",))
    asked = part.run(graphs.MEMORY_BOMBS, arguments)
    table.none("not ended for memory", [one for one in asked.answers if "memory" not in one])
    table.must("most memory of a worker and its compilers, MiB", asked.memory >> 20,
               asked.memory <= limit + limit // 4, "at most the limit and a fourth")  # fmt: skip


if __name__ == "__main__":
    campaign.main(run, __doc__, count=10, job_seconds=10, job_memory_mib=192, alone=7, timing=1)
