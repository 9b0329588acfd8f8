# SPDX-License-Identifier: Apache-2.0
"""The benchmark's data as tables: for a terminal, and as docs/performance.md."""

from __future__ import annotations

import math
import pathlib
from dataclasses import dataclass
from typing import Any


@dataclass
class Section:
    """One table with what stands around it."""

    title: str
    text: str
    columns: list[str]
    rows: list[list[str]]
    after: str = ""


def time_text(seconds: float) -> str:
    """Three digits and a unit."""
    units = (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6))
    unit, scale = next((u for u in units if seconds >= u[1]), units[-1])
    return f"{seconds / scale:.3g} {unit}"


def spread(times: dict[str, float]) -> str:
    """The median, and half the distance between the quartiles as a share of it."""
    half = (times["high"] - times["low"]) / 2 / times["median"]
    return f"{time_text(times['median'])} ±{100 * half:.0f} %"


def line(entry: dict[str, Any]) -> str:
    """One case in one line, while the benchmark runs."""
    ratio = entry["ratios"]["tensord/inductor"]
    times = "  ".join(f"{b} {time_text(entry[b]['median'])}" for b in _COMPARED)
    return f"{entry['name']:<44} {times}  ({ratio:.2f} of inductor)"


_COMPARED = ("eager", "inductor", "tensord")


def _row(entry: dict[str, Any]) -> list[str]:
    if "error" in entry:
        return [entry["name"], "failed", entry["error"], "", "", ""]
    return [
        entry["name"],
        *(spread(entry[backend]) for backend in _COMPARED),
        f"{entry['ratios']['tensord/eager']:.2f}",
        f"{entry['ratios']['tensord/inductor']:.2f}",
    ]


def _mean_ratio(entries: list[dict[str, Any]]) -> str:
    ratios = [e["ratios"]["tensord/inductor"] for e in entries if "error" not in e]
    if not ratios:
        return ""
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"Geometric mean of tensord / inductor: {mean:.2f}."


_COLUMNS = ["case", *_COMPARED, "tensord / eager", "tensord / inductor"]


def _kernels(entries: list[dict[str, Any]]) -> Section:
    text = "Functions that should be one pass over memory, float32. Time of one call."
    return Section("Single kernels", text, _COLUMNS, list(map(_row, entries)), _mean_ratio(entries))


def _models(entries: list[dict[str, Any]]) -> Section:
    text = (
        "Random weights, float32, batches of 4 or 8. Inference is one forward pass; training is "
        "forward and backward, without an optimizer, dropout as the model has it."
    )
    return Section("Whole models", text, _COLUMNS, list(map(_row, entries)), _mean_ratio(entries))


def _host(entry: dict[str, Any]) -> Section:
    text = (
        "A call of a compiled graph of three operators on eight numbers. `capture` is what torch "
        "itself costs: the same call with a program that does nothing."
    )
    if "error" in entry:
        return Section("Host time of a call", text, ["error"], [[entry["error"]]])
    names = ["eager", "capture", "inductor", "tensord"]
    return Section("Host time of a call", text, names, [[spread(entry[n]) for n in names]])


def _first_steps(entries: list[dict[str, Any]]) -> Section:
    text = (
        "The first step in a process of its own, without imports, and in brackets what of it is "
        "compiling, capture (Dynamo, AOTAutograd, the partition) apart: for tensord export, "
        "waiting for the daemon and loading; for TorchInductor its compiler, or the load from its "
        "caches. Cold: an empty store and an empty TorchInductor cache. Next: another process, "
        "with both filled. Compiled: programs that the daemon had to compile for it."
    )
    columns = ["case", "inductor, cold", "tensord, cold", "inductor, next", "tensord, next"]
    columns += ["compile, cold: tensord / inductor", "compiled, cold / next"]
    rows = []
    for entry in entries:
        if "error" in entry:
            rows.append([entry["name"], entry["error"], *[""] * (len(columns) - 2)])
            continue
        cold, later = entry["cold"], entry["next"]
        cells = [
            f"{time_text(steps[backend]['first'])} ({time_text(steps[backend]['compile'])})"
            for steps in (cold, later)
            for backend in ("inductor", "tensord")
        ]
        ratio = cold["tensord"]["compile"] / cold["inductor"]["compile"]
        made = f"{cold['tensord']['compiled']} / {later['tensord']['compiled']}"
        rows.append([entry["name"], *cells, f"{ratio:.3f}", made])
    return Section("First step", text, columns, rows)


def _lookup(data: dict[str, Any]) -> Section:
    text = f"A `Compile` call that the store answers, over the Unix socket, {data['calls']} times."
    row = [
        spread(data["round trip from Python"]),
        time_text(data["inside the daemon"]),
    ]
    return Section("A cached look-up", text, ["round trip from Python", "inside the daemon"], [row])


def _idle(data: dict[str, Any]) -> Section:
    names = {"fresh": "just started", "after": "after the cases above"}
    rows = [
        [
            names[when],
            f"{values['resident_bytes'] / 2**20:.1f} MiB",
            f"{values['cpu_percent']:.2f} %",
        ]
        for when, values in data.items()
    ]
    text = "The daemon with nothing to do, its worker processes not counted."
    return Section("An idle daemon", text, ["when", "resident", "CPU of one core"], rows)


# Section of the JSON -> what makes its table, in the order of the document.
_MAKERS = {
    "kernels": _kernels,
    "models": _models,
    "first_steps": _first_steps,
    "host": _host,
    "lookup": _lookup,
    "idle": _idle,
}


def _sections(data: dict[str, Any]) -> list[Section]:
    return [make(data[name]) for name, make in _MAKERS.items() if name in data]


def sections_text(sections: list[Section]) -> str:
    """Tables for a terminal."""
    parts = []
    for section in sections:
        table = [section.columns, *section.rows]
        widths = [max(len(row[i]) for row in table) for i in range(len(section.columns))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in table
        ]
        parts.append("\n".join([section.title, *("  " + x for x in lines), section.after]))
    return "\n".join(parts)


def sections_markdown(sections: list[Section]) -> str:
    """Tables for a document."""
    parts = []
    for section in sections:
        parts.append(f"## {section.title}\n\n{section.text}\n")
        head = "| " + " | ".join(section.columns) + " |\n"
        rule = "|" + "---|" * len(section.columns) + "\n"
        rows = "".join(
            "| " + " | ".join(r.replace("|", "\\|") for r in row) + " |\n" for row in section.rows
        )
        parts.append(head + rule + rows)
        if section.after:
            parts.append(section.after + "\n")
    return "\n".join(parts)


def write_part(path: pathlib.Path, name: str, text: str) -> None:
    """Replaces what a benchmark wrote into the document before; all else in it stays as it is.

    The part stands between `<!-- NAME -->` and `<!-- end of NAME -->`, at the document's end where
    it is new.
    """
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    part = begin + text.rstrip("\n") + "\n" + end
    document = path.read_text() if path.exists() else ""
    if begin in document and end in document:
        head, rest = document.split(begin, 1)
        document = head + part + rest.split(end, 1)[1]
    else:
        document = document + ("\n" if document else "") + part
    path.write_text(document)
    print(f"wrote {path}")


def text(data: dict[str, Any]) -> str:
    """For a terminal."""
    return sections_text(_sections(data))


def markdown(data: dict[str, Any]) -> str:
    """The CPU's part of docs/performance.md."""
    m = data["machine"]
    head = (
        "# On a CPU\n\n"
        "Made by `tests/bench/cpu.py --write-docs`; do not edit. Medians of "
        f"{data['rounds']} rounds in which the alternatives take turns in one process, ± half the "
        "distance between the quartiles. Ratios are medians of the rounds' own ratios; below 1, "
        "tensord is faster.\n\n"
        f"Measured {m['date']} on {m['cpu']}, {m['cores']} cores ({m['isa']}), "
        f"{m['threads']} threads, Python {m['python']}, torch {m['torch']}, transformers "
        f"{m['transformers']}, tensord {m['tensord']}; load average before the run "
        f"{m['load_before']:.1f}.\n\n"
    )
    return head + sections_markdown(_sections(data))
