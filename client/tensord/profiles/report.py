# SPDX-License-Identifier: Apache-2.0
"""A profile for its reader: a table, JSON, a flame graph."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from google.protobuf import json_format

from .. import notebook
from ..v1 import profile_pb2
from . import flame, numbers
from .numbers import Row, median

_SHOWN_ROWS = 40
_LONGEST_STEP = 60
_HEADERS = (
    ">time", ">share", ">runs", ">least", ">most", ">moves", ">GB/s", ">limit", ">GFLOP/s",
    "step", "program", "line",
)  # fmt: skip


class Profile:
    """Where the time of measured calls went. str() is a table.

    Above are the parts of the call that took the median of all. A row is a step of a program: a
    kernel, a call of a library. `time` is the median of its time in one call of the function,
    `moves` the bytes that it must read and write in it, `limit` the part of its time that a copy of
    as many bytes takes.
    """

    def __init__(self, message: profile_pb2.Profile | None = None) -> None:
        self.message = message if message is not None else profile_pb2.Profile()

    @property
    def seconds(self) -> float:
        """The median of the calls."""
        return median(self.message.calls) / 1e9

    def __str__(self) -> str:
        return self.table(_SHOWN_ROWS)

    def __repr__(self) -> str:
        rows = len(self.message.rows)
        return f"<Profile of {self.message.function!r}: {_call(self.message)}, {rows} steps>"

    def table(self, limit: int | None = None) -> str:
        """The table with at most so many rows, the longest first."""
        heading, *about = _about(self.message)
        rows = self.message.rows[:limit]
        blocks = ["\n".join([heading, *about]), _aligned([(">time", ">share", "part"),
                  *_part_cells(self.message)])]  # fmt: skip
        if rows:
            blocks.append(_aligned([_HEADERS, *(_cells(self.message, row) for row in rows)]))
        left = len(self.message.rows) - len(rows)
        return "\n\n".join(blocks) + (f"\nand {left} more steps" if left else "")

    def to_json(self) -> str:
        """As `tensorctl profile --format json`: the Profile of profile.proto."""
        text: str = json_format.MessageToJson(self.message, preserving_proto_field_name=True)
        return text

    def flame_graph(self, path: str | Path | None = None, form: str = "speedscope") -> str:
        """By program, line of the model and step: "speedscope" (https://www.speedscope.app), or
        "folded" stacks as flamegraph.pl reads them. path: also written there.

        Raises ValueError for another form, OSError where the file cannot be written.
        """
        if form not in flame.FORMATS:
            raise ValueError(f"there is no form {form!r} of flame graphs: {flame.FORMATS}")
        text: str = getattr(flame, form)(self.message)
        if path is not None:
            Path(path).write_text(text)
        return text

    def _repr_html_(self) -> str:
        """For notebooks: the tables of str(), with each line of the model's text."""
        heading, *about = _about(self.message)
        rows = [_cells(self.message, row) for row in self.message.rows[:_SHOWN_ROWS]]
        return "".join(
            [
                notebook.table([("", notebook.items([heading, *about]))]),
                notebook.grid((">time", ">share", "part"), _part_cells(self.message)),
                notebook.grid(_HEADERS, rows) if rows else "",
            ]
        )


def _call(message: profile_pb2.Profile) -> str:
    calls = message.calls
    if not calls:
        return "no calls"
    spread = f" ({duration(min(calls))} to {duration(max(calls))})" if len(calls) > 1 else ""
    return f"{len(calls)} calls of {duration(median(calls))}{spread}"


def _about(message: profile_pb2.Profile) -> list[str]:
    where = [message.device] if message.device else []
    if message.copy_rate:
        where.append(f"a copy moves {message.copy_rate / 1e9:.1f} GB/s")
    lines = ["; ".join([f"{message.function or 'profile'}: {_call(message)}", *where])]
    if message.calls and not message.rows:
        lines.append("no compiled program ran in them")
    if message.dropped_runs:
        lines.append(f"without {message.dropped_runs} runs of programs, of which times are missing")
    if numbers.overlap(message):
        lines.append("parts take longer than the call: programs ran at the same time")
    return lines


def _share(nanoseconds: int, message: profile_pb2.Profile) -> str:
    return f"{100 * nanoseconds / max(1, median(message.calls)):.1f} %"


def _part_cells(message: profile_pb2.Profile) -> list[tuple[str, ...]]:
    call = numbers.typical(message)
    return [
        (duration(times[call]), _share(times[call], message), name)
        for name, times in numbers.parts(message)
    ]


def _cells(message: profile_pb2.Profile, row: Row) -> tuple[str, ...]:
    time, moves = median(row.nanoseconds), numbers.moved(message, row)
    limit, flops = numbers.limit(message, row), numbers.flop_rate(row)
    name = numbers.step_name(row)
    more = len(row.lines) - 1
    return (
        duration(time),
        _share(time, message),
        f"{numbers.runs_per_call(message, row):g}",
        duration(min(row.nanoseconds, default=0)),
        duration(max(row.nanoseconds, default=0)),
        size(moves) if moves else "-",
        f"{numbers.rate(row) / 1e9:.1f}" if moves else "-",
        f"{100 * limit:.0f} %" if limit is not None else "-",
        f"{flops / 1e9:.1f}" if flops else "-",
        name if len(name) <= _LONGEST_STEP else f"{name[: _LONGEST_STEP - 3]}...",
        numbers.program_name(message.programs[row.program]),
        numbers.line_of(message, row) + (f" and {more} more" if more > 0 else ""),
    )


def duration(nanoseconds: float) -> str:
    """ "12.3 ms", as tensorctl has it."""
    for unit, each, digits in (("µs", 1e3, 1), ("ms", 1e6, 1)):
        if nanoseconds < 1e3 * each:
            return f"{nanoseconds / each:.{digits}f} {unit}"
    return f"{nanoseconds / 1e9:.2f} s"


def size(count: float) -> str:
    """ "1.5 MiB", as tensorctl has it."""
    units = ("B", "KiB", "MiB", "GiB", "TiB")
    unit = 0
    while count >= 1024 and unit + 1 < len(units):
        count, unit = count / 1024, unit + 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.1f} {units[unit]}"


def _aligned(rows: Sequence[Sequence[str]]) -> str:
    """Columns two spaces apart; those whose header begins with ">" to the right."""
    header, *body = rows
    right = [cell.startswith(">") for cell in header]
    named = [[cell.removeprefix(">") for cell in header], *body]
    widths = [max(len(row[c]) for row in named) for c in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells: list[Any] = [
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        ]
        return "  ".join(cells).rstrip()

    return "\n".join(map(line, named))
