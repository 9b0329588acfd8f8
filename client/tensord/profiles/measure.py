# SPDX-License-Identifier: Apache-2.0
"""`tensord.profile` and `tensord.profiling`: measures calls by the steps of their programs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..bridge import run_times
from ..cuda_graphs import graphed_program
from . import facts
from .collect import collect
from .copy_rate import copy_rate
from .marks import Marks
from .report import Profile
from .tell import tell

MOST_CALLS = 1000


class Measured(Profile):
    """A profile that is being made: it is whole behind the block of `profiling`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.message.function = name
        self._marks: Marks | None = None

    def step(self) -> None:
        """The call that is measured ends here and the next one begins. What is behind the last
        `step` of a block is no call; a block without any is one.

        Raises RuntimeError outside of the block, ValueError for more than 1,000 calls.
        """
        if self._marks is None:
            raise RuntimeError("step() is for the block of tensord.profiling()")
        if len(self._marks.host) > MOST_CALLS:
            raise ValueError(f"a profile has at most {MOST_CALLS} calls")
        self._marks.add()

    def _begin(self) -> None:
        run_times.take()  # what ran before is no part of it
        self._marks = Marks()
        self._marks.add()

    def _finish(self) -> None:
        marks, self._marks = self._marks, None
        assert marks is not None
        if len(marks.host) == 1:
            marks.add()
        runs, self.message.dropped_runs = run_times.take()
        collected = collect(runs, marks.host, facts.facts_of)
        self.message.calls.extend(marks.times(on_gpu=collected.on_gpu))
        collected.fill(self.message)
        gpu = max((run.device for run in runs), default=-1)
        device = torch.device("cuda", gpu) if gpu >= 0 else torch.device("cpu")
        self.message.device = _name_of(device)
        self.message.copy_rate = copy_rate(device)


def _name_of(device: torch.device) -> str:
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    count = torch.get_num_threads()
    return f"CPU, {count} thread{'s' if count != 1 else ''}"


@contextlib.contextmanager
def _timed_runs() -> Iterator[None]:
    """A block in which runs of programs are timed, and none is replayed as a CUDA graph."""
    run_times.begin()
    try:
        with graphed_program.suspended():
            yield
    finally:
        run_times.end()


@contextlib.contextmanager
def profiling(name: str = "block") -> Iterator[Measured]:
    """A block that is measured. Its value is the Profile, once the block has ended; `step()` on it
    ends a call within the block. What raises out of the block leaves no profile."""
    measured = Measured(name)
    with _timed_runs():
        measured._begin()
        yield measured
        measured._finish()
    tell(measured.message)


def profile(
    function: Callable[..., Any],
    /,
    *arguments: Any,
    steps: int = 5,
    warmup: int = 2,
    **named: Any,
) -> Profile:
    """Calls a compiled function, or one that calls some, `warmup` times and then `steps` times
    (1 to 1,000), and says where the time of these went.

    The calls are real ones: a training step trains. Raises what they raise, ValueError or TypeError
    for what it cannot measure, and TensordRuntimeError where the process is being profiled already.
    """
    if not callable(function):
        raise TypeError(f"tensord.profile takes a function or a module, not {function!r}")
    if not 1 <= steps <= MOST_CALLS or warmup < 0:
        raise ValueError(
            f"steps={steps}, warmup={warmup}: 1 to {MOST_CALLS} calls are measured, behind none or "
            "more to warm up"
        )
    measured = Measured(_name_of_function(function))
    with _timed_runs():
        for _ in range(warmup):
            function(*arguments, **named)
        measured._begin()
        for _ in range(steps):
            function(*arguments, **named)
            measured.step()
        measured._finish()
    tell(measured.message)
    return Profile(measured.message)


def _name_of_function(function: Callable[..., Any]) -> str:
    """Of a module its class's name."""
    if isinstance(function, torch.nn.Module):
        return type(getattr(function, "_orig_mod", function)).__name__
    return str(getattr(function, "__qualname__", type(function).__name__))
