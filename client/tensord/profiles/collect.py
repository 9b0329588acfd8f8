# SPDX-License-Identifier: Apache-2.0
"""Makes a Profile of the runs of measured calls."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from ..bridge import loaded_programs, run_times
from ..bridge.run_times import RunTimes
from ..v1 import profile_pb2
from .facts import ProgramFacts, Row, StepFacts
from .numbers import median

_KINDS = {
    run_times.LAUNCH: Row.KERNEL,
    run_times.CALL: Row.LIBRARY_CALL,
    run_times.ZERO_FILL: Row.ZERO_FILL,
    run_times.MEMORY: Row.MEMORY,
}


@dataclass
class _Row:
    program: int
    facts: StepFacts
    nanoseconds: list[int]  # by call
    runs: int = 0
    read: int = 0  # of all runs, as the others
    written: int = 0
    flops: int = 0

    def fill(self, message: profile_pb2.ProfileRow, lines: _Lines) -> None:
        facts, runs = self.facts, max(1, self.runs)
        message.program = self.program
        message.kind = facts.kind
        message.name = facts.name
        message.operators.extend(facts.operators)
        message.lines.extend(map(lines.number, facts.lines))
        message.runs = self.runs
        message.nanoseconds.extend(self.nanoseconds)
        message.bytes_read = self.read // runs
        message.bytes_written = self.written // runs
        message.flops = self.flops // runs
        if facts.step is not None:
            message.step = facts.step


class _Lines:
    """Lines of the model, each once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, line: tuple[str, str]) -> int:
        return self._numbers.setdefault(line, len(self._numbers))

    def fill(self, message: profile_pb2.Profile) -> None:
        for source, text in self._numbers:
            message.lines.add(source=source, text=text)


@dataclass
class Collector:
    """Adds runs up, by call and by step. calls: how many there are. facts_of: of a key."""

    calls: int
    facts_of: Callable[[bytes], ProgramFacts]
    on_gpu: bool = False
    gaps: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.gaps = [0] * self.calls
        self._programs: dict[bytes, tuple[int, ProgramFacts]] = {}
        self._runs: list[int] = []  # by program
        self._rows: dict[tuple[int, int, int | str], _Row] = {}

    def add(self, run: RunTimes, call: int) -> None:
        """A run within call `call`."""
        self.on_gpu = self.on_gpu or run.device >= 0
        key = loaded_programs.key_of(run.program)
        if key not in self._programs:
            self._programs[key] = (len(self._runs), self.facts_of(key))
            self._runs.append(0)
        program, facts = self._programs[key]
        self._runs[program] += 1
        for step in run.steps:
            self._add_step(program, facts.step(_KINDS[step.kind], step.number), run, step, call)
        self.gaps[call] += max(0, _span(run) - sum(step.nanoseconds for step in run.steps))

    def _add_step(
        self, program: int, facts: StepFacts, run: RunTimes, step: run_times.StepTime, call: int
    ) -> None:
        row = self._rows.setdefault(
            (program, *facts.row_key()), _Row(program, facts, [0] * self.calls)
        )
        row.nanoseconds[call] += step.nanoseconds
        if not facts.is_first:
            return
        row.runs += 1
        read, written, flops = facts.work_at(run.symbols)
        row.read += read
        row.written += written
        row.flops += flops

    def fill(self, message: profile_pb2.Profile) -> None:
        """Gaps, programs, lines and rows."""
        message.on_gpu = self.on_gpu
        message.gaps.extend(self.gaps)
        for number, facts in self._programs.values():
            message.programs.add(key=facts.key, label=facts.label, runs=self._runs[number])
        lines = _Lines()
        for row in sorted(self._rows.values(), key=lambda row: -median(row.nanoseconds)):
            row.fill(message.rows.add(), lines)
        lines.fill(message)


def _span(run: RunTimes) -> int:
    """Nanoseconds from the run's begin to its end; of the device, from its first step to the end of
    its last."""
    if run.device < 0:
        return run.end - run.begin
    if not run.steps:
        return 0
    last = run.steps[-1]
    return last.begin + last.nanoseconds - run.steps[0].begin


def collect(
    runs: Iterable[RunTimes],
    marks: Sequence[int],
    facts_of: Callable[[bytes], ProgramFacts],
) -> Collector:
    """The runs that began between two of these marks of the host's clock; between each two lies a
    call."""
    collector = Collector(max(0, len(marks) - 1), facts_of)
    for run in runs:
        call = bisect.bisect_right(marks, run.begin) - 1
        if 0 <= call < collector.calls:
            collector.add(run, call)
    return collector
