# SPDX-License-Identifier: Apache-2.0
"""Makes a Profile of the runs of measured calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field

from ..bridge import loaded_programs
from ..bridge.run_times import RunTimes
from ..v1 import profile_pb2
from . import kinds
from .facts import ProgramFacts, StepFacts

HOST = -1  # as a device


@dataclass
class _Times:
    """Of one step of a loaded program."""

    nanoseconds: Counter[int] = field(default_factory=Counter)  # by call
    runs: Counter[tuple[int, ...]] = field(default_factory=Counter)  # by the symbols' values


class Tally:
    """Runs added up by program and step. Nobody is asked what these are: programs may still run."""

    def __init__(self) -> None:
        self.gaps: Counter[int] = Counter()  # by call
        # By the program's number and its device.
        self.runs: Counter[tuple[int, int]] = Counter()
        self._steps: dict[tuple[int, int], dict[tuple[int, int], _Times]] = {}
        self._busy: Counter[int] = Counter()  # nanoseconds by device

    def add(self, run: RunTimes, call: int) -> None:
        """A run within call `call`."""
        program = (run.program, run.device)
        self.runs[program] += 1
        steps = self._steps.setdefault(program, {})
        for step in run.steps:
            times = steps.setdefault((step.kind, step.number), _Times())
            times.nanoseconds[call] += step.nanoseconds
            times.runs[run.symbols] += 1
        within = sum(step.nanoseconds for step in run.steps)
        self._busy[run.device] += within
        self.gaps[call] += max(0, _span(run) - within)

    @property
    def devices(self) -> list[int]:
        """On which programs ran, in their order; HOST is the first."""
        return sorted(self._busy)

    @property
    def device(self) -> int:
        """By whose clock calls are to be measured: of the GPUs the one with most to do, the host
        where none ran a program. A GPU's clock sees what the host does as well."""
        gpus = [device for device in self.devices if device != HOST]
        return max(gpus, key=lambda device: self._busy[device], default=HOST)

    def fill(
        self,
        message: profile_pb2.Profile,
        calls: Sequence[int],
        facts_of: Callable[[bytes], ProgramFacts],
        is_limited: Container[int],
    ) -> None:
        """Gaps, programs, lines and rows of these calls, of which the runs are. is_limited: devices
        whose memory is as fast as the profile's copy; of others no bytes are said, as these have
        another limit."""
        message.gaps.extend(self.gaps[call] for call in calls)
        programs: dict[tuple[bytes | int, int], _Program] = {}
        for (number, device), runs in self.runs.items():
            key = loaded_programs.key_of(number)
            # What has no key is known by its number. One may have been loaded several times.
            program = programs.get((key or number, device))
            if program is None:
                program = _Program(len(programs), facts_of(key), device, device in is_limited)
                programs[key or number, device] = program
            program.runs += runs
            for (kind, step), times in self._steps[number, device].items():
                program.add(kinds.OF_TIMED[kind], step, times)
        for program in programs.values():
            where = f" on {device_name(program.device)}" if len(self.devices) > 1 else ""
            label = (program.facts.label or "program") + where if where else program.facts.label
            message.programs.add(key=program.facts.key, label=label, runs=program.runs)
        lines = _Lines()
        rows = [row for program in programs.values() for row in program.rows.values()]
        for row in sorted(rows, key=lambda row: -sum(row.nanoseconds.values())):
            row.fill(message.rows.add(), calls, lines)
        lines.fill(message)


def device_name(device: int) -> str:
    """As torch has it."""
    return "cpu" if device == HOST else f"cuda:{device}"


@dataclass
class _Row:
    program: int
    facts: StepFacts
    nanoseconds: Counter[int] = field(default_factory=Counter)  # by call
    runs: int = 0
    read: int = 0  # of all runs, as the others
    written: int = 0
    flops: int = 0

    def fill(self, message: profile_pb2.ProfileRow, calls: Sequence[int], lines: _Lines) -> None:
        facts, runs = self.facts, max(1, self.runs)
        message.program = self.program
        message.kind = facts.kind
        message.name = facts.name
        message.operators.extend(facts.operators)
        message.lines.extend(map(lines.number, facts.lines))
        message.runs = self.runs
        message.nanoseconds.extend(self.nanoseconds[call] for call in calls)
        message.bytes_read = self.read // runs
        message.bytes_written = self.written // runs
        message.flops = self.flops // runs
        if facts.step is not None:
            message.step = facts.step


@dataclass
class _Program:
    number: int  # of the profile's
    facts: ProgramFacts
    device: int
    is_limited: bool
    runs: int = 0
    rows: dict[tuple[int, int | str], _Row] = field(default_factory=dict)

    def add(self, kind: profile_pb2.ProfileRow.Kind, step: int, times: _Times) -> None:
        """A step of the program, as it was loaded once."""
        facts = self.facts.step(kind, step)
        row = self.rows.setdefault(facts.row_key(), _Row(self.number, facts))
        row.nanoseconds.update(times.nanoseconds)
        if not facts.is_first:
            return
        for symbols, runs in times.runs.items():
            read, written, flops = facts.work_at(symbols)
            row.runs += runs
            row.flops += runs * flops
            if self.is_limited:
                row.read += runs * read
                row.written += runs * written


class _Lines:
    """Lines of the model, each once."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str], int] = {}

    def number(self, line: tuple[str, str]) -> int:
        return self._numbers.setdefault(line, len(self._numbers))

    def fill(self, message: profile_pb2.Profile) -> None:
        for source, text in self._numbers:
            message.lines.add(source=source, text=text)


def _span(run: RunTimes) -> int:
    """Nanoseconds from the run's begin to its end; of the device, from its first step to the end of
    its last."""
    if run.device < 0:
        return run.end - run.begin
    if not run.steps:
        return 0
    last = run.steps[-1]
    return last.begin + last.nanoseconds - run.steps[0].begin
