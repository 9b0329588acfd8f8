# SPDX-License-Identifier: Apache-2.0
"""docs/operators.md from the results of a sweep: how each operator ran, by dtype."""

from __future__ import annotations

import pathlib
from collections import Counter, defaultdict

from case_outcome import FAILURES, Outcome
from entries import DTYPES, Case

# Heading of a column -> its dtypes.
COLUMNS = {
    "float32, float64": ("float32", "float64"),
    "bfloat16, float16": ("bfloat16", "float16"),
    "int64, int32, uint8": ("int64", "int32", "uint8"),
    "bool": ("bool",),
    "complex64": ("complex64",),
}
KINDS = {
    "kernel": "one generated kernel",
    "kernels": "several generated kernels",
    "view": "no work: a view of its input, a constant, or the input itself",
    "library": "library calls through torch's dispatcher, beside kernels or alone",
    "call-back": "a step that calls back into the job",
    "break": "TorchDynamo breaks the graph there, with any backend; eager runs it",
    "eager fails": "eager or aot_eager runs none of its samples",
    "refused": "not compiled, or not as eager has it",
}
OWN = ("kernel", "kernels", "view")
HEAD = """\
# Operators

How the entries of PyTorch's operator database that a sweep ran are run, seen with the database's \
own samples: the plan of the largest one, inference, static sizes. `tests/sweep.sh --write-docs` \
wrote this file from the results of a sweep; what counts as right stands in `tests/sweep/judge.py`.
"""

# (entry, dtype) -> kind, and the library operators that it calls.
Kinds = dict[tuple[str, str], tuple[str, list[str]]]


def kinds(outcomes: dict[str, Outcome], device: str) -> Kinds:
    """Of the cases with the database's own samples, forward and static."""
    found: Kinds = {}
    for outcome in outcomes.values():
        case = Case.parse(outcome.case)
        if case.variant != "samples" or case.gradient or case.dynamic or case.device != device:
            continue
        found[case.entry, case.dtype] = _kind(outcome)
    return found


def _kind(outcome: Outcome) -> tuple[str, list[str]]:
    if outcome.how is not None:
        return outcome.how["kind"], outcome.how["calls"]
    if outcome.category in FAILURES:
        return "refused", []
    if outcome.counts["break"]:
        return "break", []
    return "eager fails", []


def _cell(found: Kinds, entry: str, dtypes: tuple[str, ...]) -> str:
    """The kind of all dtypes of a column, or each with its dtypes where they differ."""
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for dtype in dtypes:
        if (entry, dtype) in found:
            by_kind[found[entry, dtype][0]].append(dtype)
    if len(by_kind) == 1:
        return next(iter(by_kind))
    return "; ".join(f"{', '.join(names)}: {kind}" for kind, names in by_kind.items())


def _name(entry: str) -> str:
    """As text: underscores at the ends would be emphasis."""
    return entry.replace("_", "\\_") if entry.startswith("_") else entry


def _table(found: Kinds) -> list[str]:
    names = sorted({entry for entry, _ in found})
    columns = {
        title: dtypes
        for title, dtypes in COLUMNS.items()
        if any((entry, dtype) in found for entry in names for dtype in dtypes)
    }
    lines = [f"| operator | {' | '.join(columns)} | library operators |"]
    lines.append("|---" * (len(columns) + 2) + "|")
    for entry in names:
        cells = [_cell(found, entry, dtypes) for dtypes in columns.values()]
        calls = {call for dtype in DTYPES for call in found.get((entry, dtype), ("", []))[1]}
        called = ", ".join(f"`{call.removeprefix('aten::')}`" for call in sorted(calls))
        lines.append(f"| {_name(entry)} | {' | '.join(cells)} | {called} |")
    return lines


def _summary(found: Kinds) -> list[str]:
    """Operators by kind, each in the first of its dtypes, and pairs of operator and dtype."""
    first: dict[str, str] = {}
    for entry, dtype in sorted(found, key=lambda pair: DTYPES.index(pair[1])):
        first.setdefault(entry, found[entry, dtype][0])
    operators, pairs = Counter(first.values()), Counter(kind for kind, _ in found.values())
    lines = ["| how | operators | with their dtypes | |", "|---|---|---|---|"]
    for kind, what in KINDS.items():
        if pairs[kind]:
            lines.append(f"| {kind} | {operators[kind]} | {pairs[kind]} | {what} |")
    own = sum(operators[kind] for kind in OWN)
    pairs_own = sum(pairs[kind] for kind in OWN)
    lines.append("")
    lines.append(
        f"{own} of {len(first)} operators ({100 * own / len(first):.1f} %), and {pairs_own} of "
        f"{len(found)} pairs of operator and dtype ({100 * pairs_own / len(found):.1f} %), run in "
        "kernels of our own or need none."
    )
    return lines


def write(outcomes: dict[str, Outcome], seen: str, path: pathlib.Path) -> None:
    """One section a device; that of a device of which the results hold nothing stays as it is.
    seen: the date of the results. Raises ValueError when they hold nothing of any."""
    sections = _sections(path)
    titles = {"cpu": "CPU", "cuda": "CUDA"}
    found = {title: kinds(outcomes, device) for device, title in titles.items()}
    if not any(found.values()):
        raise ValueError("the results hold no forward case with the database's samples")
    for title, of_device in found.items():
        if of_device:
            lines = [f"Seen {seen}.", "", *_summary(of_device), "", *_table(of_device)]
            sections[title] = "\n".join(lines)
    texts = [f"## {title}\n\n{text}\n" for title, text in sorted(sections.items())]
    path.write_text("\n".join([HEAD, *texts]))


def _sections(path: pathlib.Path) -> dict[str, str]:
    """What stands there, by heading."""
    if not path.exists():
        return {}
    parts = path.read_text().split("\n## ")[1:]
    return {title: text.strip() for title, _, text in (part.partition("\n") for part in parts)}
