# SPDX-License-Identifier: Apache-2.0
"""What the numbers of a Profile message come to: parts of a call, rates, stacks for flame graphs.

`tensorctl profile` shows the same (server/ctl/view/profile_view.h).
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from ..v1 import profile_pb2
from .kinds import KINDS, Row

GAPS, OUTSIDE = "gaps", "outside of programs"
# By which the parts of a call may exceed it: events are rounded one by one.
_ROUNDED_PART, _ROUNDED_NANOSECONDS = 0.02, 20_000


def median(values: Sequence[int]) -> int:
    """The lower one of an even number; 0 of none."""
    return statistics.median_low(values) if values else 0


def typical(profile: profile_pb2.Profile) -> int:
    """The call that took the median of all: its parts add up, unless programs ran at the same time,
    as medians of parts do not. -1: there is none."""
    calls = profile.calls
    order = sorted(range(len(calls)), key=lambda i: (calls[i], i))
    return order[(len(order) - 1) // 2] if order else -1


def parts(profile: profile_pb2.Profile) -> list[tuple[str, list[int]]]:
    """Where each call's nanoseconds went, by kind of step; what of them is in no program is last.
    Parts without any are left out."""
    found = _within(profile)
    outside = [
        max(0, whole - sum(times[i] for _, times in found)) for i, whole in enumerate(profile.calls)
    ]
    return [(name, times) for name, times in [*found, (OUTSIDE, outside)] if any(times)]


def _within(profile: profile_pb2.Profile) -> list[tuple[str, list[int]]]:
    """The parts of calls that are of programs."""
    found = []
    for kind in KINDS:
        rows = [row.nanoseconds for row in profile.rows if row.kind == kind.row]
        times = [sum(row[i] for row in rows) for i in range(len(profile.calls))]
        found.append((kind.shown, times))
    return [*found, (GAPS, list(profile.gaps))]


def overlap(profile: profile_pb2.Profile) -> bool:
    """Whether parts of a call take longer than the call: programs ran at the same time, in several
    threads or on several devices."""
    found = _within(profile)
    return any(
        sum(times[i] for _, times in found) > (1 + _ROUNDED_PART) * whole + _ROUNDED_NANOSECONDS
        for i, whole in enumerate(profile.calls)
    )


def runs_per_call(profile: profile_pb2.Profile, row: Row) -> float:
    """How often a step ran in a call, on average."""
    return row.runs / max(1, len(profile.calls))


def moved(profile: profile_pb2.Profile, row: Row) -> float:
    """The bytes that a row must move in a call."""
    return (row.bytes_read + row.bytes_written) * runs_per_call(profile, row)


def rate(row: Row) -> float:
    """Bytes a second, of those that it must move, in all calls."""
    return 1e9 * (row.bytes_read + row.bytes_written) * row.runs / _nanoseconds(row)


def _nanoseconds(row: Row) -> int:
    """Of all calls: what was moved or computed is of all of them, and not of the median one."""
    return max(1, sum(row.nanoseconds))


def limit(profile: profile_pb2.Profile, row: Row) -> float | None:
    """What part of its time a copy of as many bytes takes; None: not known."""
    known = profile.copy_rate > 0 and moved(profile, row) > 0
    return rate(row) / profile.copy_rate if known else None


def flop_rate(row: Row) -> float:
    """Floating-point operations a second; 0: not known."""
    return 1e9 * row.flops * row.runs / _nanoseconds(row)


def program_name(program: profile_pb2.ProfiledProgram) -> str:
    """ "forward 3f2a9c01"."""
    return f"{program.label or 'program'} {program.key.hex()[:8]}".strip()


def step_name(row: Row) -> str:
    """A kernel or call with its operators, where they are not what it is called."""
    is_said = not row.operators or list(row.operators) == [row.name.rpartition("::")[2]]
    return row.name if is_said else f"{row.name} ({', '.join(row.operators)})"


def line_of(profile: profile_pb2.Profile, row: Row) -> str:
    """The line of the model that it mostly came from; empty: not known."""
    return profile.lines[row.lines[0]].source if row.lines else ""


def stacks(profile: profile_pb2.Profile) -> Iterator[tuple[list[str], int]]:
    """Names from the function inwards, and the nanoseconds of the typical call at the last one:
    function, program, line of the model, step. They add up to the call's, as its parts do."""
    function, call = profile.function or "profile", typical(profile)
    if call < 0:
        return
    for row in profile.rows:
        program = program_name(profile.programs[row.program])
        line = line_of(profile, row)
        stack = [function, program, *([line] if line else []), step_name(row)]
        yield stack, row.nanoseconds[call]
    for name, times in parts(profile):
        if name in (GAPS, OUTSIDE):
            yield [function, name], times[call]
