# SPDX-License-Identifier: Apache-2.0
"""The GPU benchmark's data as tables: for a terminal, and as a part of docs/performance.md."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from report import Section, sections_markdown, sections_text, spread, time_text

_ALL = ("eager", "inductor", "inductor graphs", "tensord", "tensord graphs")
# Pairs of the same mode.
_PAIRS = (("tensord", "inductor"), ("tensord graphs", "inductor graphs"))


def first_line(error: BaseException) -> str:
    """An error in one line."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:300]}"


# What an alternative says that was not begun.
NO_TIME = "no time left"


def failed(data: Any) -> bool:
    """True when anything anywhere failed."""
    if isinstance(data, dict):
        return bool(data.get("error") or data.get("errors")) or any(map(failed, data.values()))
    return isinstance(data, list) and any(map(failed, data))


def merged(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Several runs as one: of each case, the last that was measured, with its run."""
    result: dict[str, Any] = {}
    fewest = min(data["rounds"] for data in runs)
    for data in runs:
        for key, value in data.items():
            if not isinstance(value, list):
                result[key] = value
                continue
            entries = {entry["name"]: entry for entry in result.get(key, [])}
            run = _run_of(data)
            entries.update({e["name"]: {"run": run, **e} for e in value if "skipped" not in e})
            result[key] = list(entries.values())
    return {**result, "rounds": fewest}


def _run_of(data: dict[str, Any]) -> str:
    return f"{data['machine']['host_cores']} host cores, {data['machine']['date']}"


def line(entry: dict[str, Any]) -> str:
    """One case in one line, while the benchmark runs."""
    if "error" in entry:
        return f"{entry['name']:<52} failed: {entry['error']}"
    parts = [f"{name} {time_text(entry[name]['median'])}" for name in _ALL if name in entry]
    for when in ("cold", "next"):
        parts += [f"{b}, {when} {time_text(s['first'])}" for b, s in entry.get(when, {}).items()]
    parts += [f"[{name}: {why}]" for name, why in entry.get("errors", {}).items()]
    return f"{entry['name']:<52} {'  '.join(parts)}  ({entry.get('seconds', 0)} s)"


def _broken(entry: dict[str, Any], columns: int) -> list[str] | None:
    """The row of a case without figures."""
    why = entry.get("error") or entry.get("skipped")
    return [entry["name"], why, *[""] * (columns - 2)] if why else None


def _other_runs(data: dict[str, Any]) -> str:
    """Which cases are of another run than the one that the head describes; empty where none are."""
    runs: dict[str, list[str]] = {}
    for group, entries in data.items():
        if not isinstance(entries, list):
            continue
        of_group: dict[str, list[str]] = {}
        for entry in entries:
            of_group.setdefault(entry.get("run", ""), []).append(f"{entry['name']} ({group})")
        for run, names in of_group.items():
            runs.setdefault(run, []).extend(names if len(of_group) > 1 else [f"all {group}"])
    others = [
        f"{r}: {', '.join(names)}" for r, names in runs.items() if r not in ("", _run_of(data))
    ]
    return f"Of another run: with {'; with '.join(others)}.\n\n" if others else ""


def _with_profiler(data: dict[str, Any]) -> str:
    """Which steps were timed where a profiler had been: it slows every launch by the host."""
    names = [e["name"] for e in data.get("models", []) if "tensord" in e and "queued" not in e]
    if not names:
        return ""
    return (
        "In these a profiler may have been loaded in the process, which slows launches, most where "
        f"a step waits for the host: {', '.join(names)}.\n\n"
    )


def _cell(entry: dict[str, Any], name: str) -> str:
    if name in entry:
        return spread(entry[name])
    why = entry.get("errors", {}).get(name, "")
    return why if why in ("", NO_TIME) else "failed"


def _ratio(entry: dict[str, Any], a: str, b: str) -> float | None:
    return entry.get("ratios", {}).get(f"{a}/{b}")


def _number(value: float | None, form: str = "{:.2f}") -> str:
    return "" if value is None else form.format(value)


def _means(entries: Iterable[dict[str, Any]]) -> str:
    texts = []
    for a, b in _PAIRS:
        ratios = [r for e in entries if (r := _ratio(e, a, b))]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            texts.append(f"{a} / {b}: {mean:.2f}")
    return f"Geometric means of {'; '.join(texts)}." if texts else ""


def _launches(entry: dict[str, Any], name: str) -> float | None:
    return entry.get("profile", {}).get(name, {}).get("launches")


def _kernels(entries: list[dict[str, Any]]) -> Section:
    text = (
        "GPU time of one call. A copy: of as many bytes, read and written, as the function must "
        "read and write, in the same rounds. *Both ways*: forward and backward. Share: of the "
        "copy's rate. Launches: GPU kernels a call."
    )
    columns = [
        "case",
        "MiB",
        "a copy",
        "eager",
        "inductor",
        "tensord",
        "share",
        "tensord / inductor",
    ]
    columns.append("launches, inductor / tensord")
    rows = []
    for entry in entries:
        row = _broken(entry, len(columns))
        if row is None:
            ratio = _ratio(entry, "copy", "tensord")
            share = f"{100 * ratio:.0f} %" if ratio else ""
            row = [
                entry["name"],
                f"{entry['bytes'] / 2**20:.0f}",
                *(_cell(entry, name) for name in ("copy", "eager", "inductor", "tensord")),
                share,
                _number(_ratio(entry, "tensord", "inductor")),
                " / ".join(
                    _number(_launches(entry, n), "{:.0f}") or "?" for n in ("inductor", "tensord")
                ),
            ]
        rows.append(row)
    return Section("Single kernels", text, columns, rows, _means(entries))


def _models(entries: list[dict[str, Any]]) -> Section:
    text = (
        "Random weights, bfloat16 autocast. Inference is one forward pass; training is forward and "
        "backward, without an optimizer, dropout as the model has it. *Graphs*: mode "
        "reduce-overhead."
    )
    pairs = [f"{a} / {b}" for a, b in _PAIRS]
    columns = ["case", *_ALL, *pairs]
    rows = []
    for entry in entries:
        ratios = [_number(_ratio(entry, a, b)) for a, b in _PAIRS]
        rows.append(
            _broken(entry, len(columns))
            or [entry["name"], *(_cell(entry, name) for name in _ALL), *ratios]
        )
    return Section("Whole models", text, columns, rows, _means(entries))


def _inside(entries: list[dict[str, Any]]) -> Section:
    text = (
        "Busy: GPU time that kernels cover, and its share of the step. Queued: the time of a step "
        "whose work is all queued before it begins, from the first kernel to the last, and its "
        "share of the step; what is left is the GPU waiting for the host. Kernels a step, and the "
        "most memory that a step takes beyond what was there before the compile: of tensors, and "
        "of graphs' pools whole."
    )
    names = ("inductor", "tensord")
    columns = ["case", *(f"{n}, {what}" for what in ("busy", "queued", "kernels") for n in names)]
    columns += [f"{n}, peak MiB" for n in _ALL]
    rows = []
    for entry in entries:
        if (row := _broken(entry, len(columns))) is None:
            row = [entry["name"]]
            busy = {n: entry.get("profile", {}).get(n, {}).get("busy") for n in names}
            for times in (busy, entry.get("queued", {})):
                for name in names:
                    spent, step = times.get(name), entry.get(name, {}).get("median")
                    ready = spent is not None and step
                    row.append(f"{time_text(spent)} ({100 * spent / step:.0f} %)" if ready else "")
            row += [_number(_launches(entry, n), "{:.0f}") for n in names]
            memory = entry.get("memory", {})
            row += [f"{memory[n] / 2**20:.0f}" if n in memory else "" for n in _ALL]
        rows.append(row)
    return Section("Inside the steps", text, columns, rows)


def _first_calls(entries: list[dict[str, Any]]) -> Section:
    text = (
        "From torch.compile to the first result, in the process of the steps above: libraries are "
        "loaded, the daemon's store and TorchInductor's cache may know kernels of the cases before."
    )
    if any(entry.get("side_by_side") for entry in entries):
        text += " Several models compiled side by side, and shared the host's cores."
    names = _ALL[1:]
    rows = []
    for entry in entries:
        ready = entry.get("ready", {})
        both = "tensord" in ready and "inductor" in ready
        rows.append(
            [
                entry["name"],
                *(time_text(ready[n]) if n in ready else "" for n in names),
                _number(ready["tensord"] / ready["inductor"]) if both else "",
            ]
        )
    return Section("First call", text, ["case", *names, "tensord / inductor"], rows)


def _host(entries: list[dict[str, Any]]) -> Section:
    text = (
        "Host time of a call of a compiled graph of three operators on eight numbers. `capture` is "
        "what torch itself costs: the same call with a program that does nothing. Above: what "
        "tensord adds to that."
    )
    names = ["eager", "capture", *_ALL[1:]]
    rows = []
    for entry in entries:
        if "error" in entry or "skipped" in entry:
            rows.append([entry.get("error") or entry["skipped"], *[""] * len(names)])
            continue
        both = "capture" in entry and "tensord" in entry
        above = entry["tensord"]["median"] - entry["capture"]["median"] if both else None
        cell = "" if above is None else f"{above * 1e6:.1f} µs"
        rows.append([*(_cell(entry, name) for name in names), cell])
    return Section("Host time of a call", text, [*names, "above"], rows)


def _starts(entries: list[dict[str, Any]]) -> Section:
    text = (
        "The first step in a process of its own, without imports, and in brackets what of it is "
        "compiling, capture (Dynamo, AOTAutograd, the partition) apart. Cold: an empty store and "
        "an empty TorchInductor cache. Next: another process, with both filled. Compiled: programs "
        "that the daemon had to compile for it."
    )
    steps = [(backend, when) for when in ("cold", "next") for backend in ("inductor", "tensord")]
    columns = ["case", *(f"{backend}, {when}" for backend, when in steps)]
    columns += ["cold: tensord / inductor", "compiled, cold / next"]
    rows = []
    for entry in entries:
        if (row := _broken(entry, len(columns))) is None:
            cells = []
            for backend, when in steps:
                step = entry.get(when, {}).get(backend)
                text_of = (
                    f"{time_text(step['first'])} ({time_text(step['compile'])})" if step else ""
                )
                cells.append(text_of or entry.get("errors", {}).get(f"{backend}, {when}", ""))
            cold = entry.get("cold", {})
            both = "tensord" in cold and "inductor" in cold
            ratio = cold["tensord"]["first"] / cold["inductor"]["first"] if both else None
            made = [
                str(entry.get(w, {}).get("tensord", {}).get("compiled", "?"))
                for w in ("cold", "next")
            ]
            row = [entry["name"], *cells, _number(ratio), " / ".join(made)]
        rows.append(row)
    return Section("First step", text, columns, rows)


# Group of the JSON -> what makes its tables, in the order of the document.
_MAKERS = (
    ("kernels", _kernels),
    ("models", _models),
    ("models", _inside),
    ("models", _first_calls),
    ("start", _starts),
    ("host", _host),
)


def _sections(data: dict[str, Any]) -> list[Section]:
    return [make(data[name]) for name, make in _MAKERS if data.get(name)]


def text(data: dict[str, Any]) -> str:
    """For a terminal."""
    return sections_text(_sections(data))


def markdown(data: dict[str, Any]) -> str:
    """The GPU's part of docs/performance.md."""
    m = data["machine"]
    head = (
        "# On a GPU\n\n"
        "Made by `tests/bench/gpu.py --write-docs`; do not edit. Medians of "
        f"{data['rounds']} rounds or more, in which the alternatives take turns in one process, "
        "timed by events on the stream, ± half the distance between the quartiles. Ratios are "
        "medians of the rounds' own ratios; below 1, tensord is faster.\n\n"
        f"Measured {m['date']} on one {m['device']} ({m.get('architecture', '')}), "
        f"{m['host_cores']} host cores, Python {m['python']}, torch {m['torch']}, transformers "
        f"{m.get('transformers', '-')}; a copy moves "
        f"{m['copy_bytes_per_second'] / 1e12:.2f} TB/s, read and written.\n\n"
    )
    head += _other_runs(data) + _with_profiler(data)
    return head + sections_markdown(_sections(data))
