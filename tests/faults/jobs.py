# SPDX-License-Identifier: Apache-2.0
"""Jobs that compile and compare with eager, many at once: forked from a process that has torch.

Import it before anything computes: a child must not inherit the threads of OpenMP.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import time
import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import rounding
import tensord
import torch
from tensord.wire import rpc

torch.set_num_threads(1)
logging.getLogger("tensord").setLevel(logging.ERROR)  # graphs in eager are counted
_FORK = multiprocessing.get_context("fork")
WAIT_S = 120.0


@dataclass
class Outcome:
    """What a job saw."""

    calls: int = 0
    wrong: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    stats: Counter[str] = field(default_factory=Counter)


def function(number: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of its own for each number, of one of four forms."""
    scale = 1.0 + number / 1024
    forms: list[Callable[[torch.Tensor], torch.Tensor]] = [
        lambda x: torch.tanh(x * scale).sum(-1) + number,
        lambda x: torch.softmax(x * scale, -1) - x.mean() * scale,
        lambda x: (x * scale).sigmoid().cumsum(0)[1:] + scale,
        lambda x: torch.where(x > scale - 1, x * scale, x.exp()).amax(0),
    ]
    return forms[number % len(forms)]


def compare(number: int, outcome: Outcome) -> None:
    """Compiles a function anew, runs it, and compares."""
    torch._dynamo.reset()
    f, x = function(number), torch.randn(13, 17)
    outcome.calls += 1
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = torch.compile(f, backend="tensord")(x)
    except Exception as error:
        outcome.errors.append(f"{type(error).__name__}: {error}")
        return
    eager = f(x)
    if not rounding.is_right(got, eager, f(x.double())):
        outcome.wrong.append(f"function {number}: {(got - eager).abs().max()}")


def work(outcome: Outcome, ends: Callable[[], bool], draw: random.Random, known: int) -> None:
    """Compares until `ends`: mostly functions that others ask for too, and some new ones."""
    rpc.UNAVAILABLE_MEMORY_S = 0.0  # who was refused a daemon asks again with the next graph
    while not ends():
        number = draw.randrange(known) if draw.random() < 0.7 else draw.randrange(1 << 20)
        compare(number, outcome)
    stats: dict[str, Any] = tensord.stats()
    outcome.stats.update({name: n for name, n in stats.items() if isinstance(n, int)})


class Jobs:
    """Processes that work until `end`."""

    def __init__(self, address: str, count: int, seed: int, known: int = 64) -> None:
        os.environ.update(TENSORD_ADDRESS=address, TENSORD_AUTOSTART="0", TENSORD_NATIVE="0")
        compare(0, Outcome())  # what torch imports at the first compile, children have from here
        rpc.client().forget()
        self._stop = _FORK.Event()
        self._pipes = []
        self._processes = []
        for number in range(count):
            ours, theirs = _FORK.Pipe(duplex=False)
            process = _FORK.Process(target=self._run, args=(theirs, seed * 1000 + number, known))
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def _run(self, pipe: Any, seed: int, known: int) -> None:
        torch.manual_seed(seed)
        outcome = Outcome()
        work(outcome, self._stop.is_set, random.Random(seed), known)
        pipe.send(outcome)

    def processes(self) -> list[int]:
        """Their numbers."""
        return [process.pid for process in self._processes if process.pid is not None]

    def end(self) -> Outcome:
        """What all of them saw; a job that died is an error."""
        self._stop.set()
        total = Outcome()
        deadline = time.monotonic() + WAIT_S
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            if not pipe.poll(max(0.0, deadline - time.monotonic())):
                total.errors.append(f"a job hangs or died ({process.exitcode})")
                process.kill()
                continue
            try:
                outcome = pipe.recv()
            except EOFError:
                total.errors.append(f"a job died ({process.exitcode})")
                continue
            total.calls += outcome.calls
            total.wrong += outcome.wrong
            total.errors += outcome.errors
            total.stats.update(outcome.stats)
        for process in self._processes:
            process.join(WAIT_S)
        return total
