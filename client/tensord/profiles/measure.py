# SPDX-License-Identifier: Apache-2.0
"""`tensord.profile` and `tensord.profiling`: measures calls by the steps of their programs."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import torch

from ..bridge import run_times
from ..cuda_graphs import graphed_program
from . import collect
from .copy_rate import copy_rate
from .facts import Asked
from .flame import printable
from .marks import Marks
from .report import Profile
from .tell import tell

log = logging.getLogger("tensord")

MOST_CALLS = 1000
# From so many steps on they are taken between two calls: an eighth of what the runtime has room
# for, and a pair of events each.
_MANY_STEPS = 1 << 15


class Measured(Profile):
    """A profile that is being made: it is whole behind the block of `profiling`."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.message.function = printable(name)
        self._marks: Marks | None = None
        # Runs of calls that have all of theirs, and of those that lack some.
        self._whole, self._partial = collect.Tally(), collect.Tally()
        self._partial_calls: set[int] = set()
        self._taken_calls = 0  # those before have their runs

    def step(self) -> None:
        """The call that is measured ends here and the next one begins. What is behind the last
        `step` of a block is no call; a block without any is one.

        Raises RuntimeError outside of the block, ValueError for more than 1,000 calls.
        """
        if self._marks is None:
            raise RuntimeError("step() is for the block of tensord.profiling()")
        if len(self._marks.calls) >= MOST_CALLS:
            raise ValueError(f"a profile has at most {MOST_CALLS} calls")
        self._marks.end()
        if run_times.kept() >= _MANY_STEPS:
            self._take(self._marks)
            self._marks.begin()  # what that took is of no call

    def _begin(self) -> None:
        run_times.take()  # what ran before is no part of it
        self._marks = Marks()
        self._marks.begin()

    def _take(self, marks: Marks) -> None:
        runs, dropped = run_times.take()
        self.message.dropped_runs += dropped
        if dropped:
            self._partial_calls.update(range(self._taken_calls, len(marks.calls)))
        self._taken_calls = len(marks.calls)
        for run in runs:
            if (call := marks.call_at(run.begin)) is not None:
                tally = self._partial if call in self._partial_calls else self._whole
                tally.add(run, call)

    def _end(self) -> Marks:
        """Nothing is measured any more, and devices have done what was."""
        marks, self._marks = self._marks, None
        assert marks is not None
        if not marks.calls:
            marks.end()
        self._take(marks)
        marks.settle()
        return marks

    def _finish(self, marks: Marks) -> None:
        """Says what was measured. Calls that lack runs are left out, where there are others."""
        tally, calls = self._whole, list(range(len(marks.calls)))
        if whole := [call for call in calls if call not in self._partial_calls]:
            calls = whole
        else:
            tally = self._partial
        if left := len(marks.calls) - len(calls):
            log.warning("tensord: a profile is without %d calls that lack times of runs", left)
        message, clock = self.message, tally.device
        times = marks.times(clock)
        message.calls.extend(times[call] for call in calls)
        message.on_gpu = clock != collect.HOST
        message.device = _name_of(clock)
        of_one_name = [device for device in tally.devices if _name_of(device) == message.device]
        tally.fill(message, calls, Asked().facts_of, of_one_name)
        if message.rows:
            message.copy_rate = copy_rate(torch.device(collect.device_name(clock)))


def _name_of(device: int) -> str:
    if device != collect.HOST:
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
        marks = measured._end()
    measured._finish(marks)
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
        marks = measured._end()
    measured._finish(marks)
    tell(measured.message)
    return Profile(measured.message)


def _name_of_function(function: Callable[..., Any]) -> str:
    """Of a module its class's name."""
    if isinstance(function, torch.nn.Module):
        return type(getattr(function, "_orig_mod", function)).__name__
    return str(getattr(function, "__qualname__", type(function).__name__))
