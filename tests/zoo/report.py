# SPDX-License-Identifier: Apache-2.0
"""What main.py says of its results: failures by cause, and the table for the docs."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

BAD = ("wrong", "failed", "crash", "hang")
Json = dict[str, Any]


def group_of(cause: str) -> str:
    """What causes of one kind have in common."""
    cause = re.sub(r"off by .*", "off", cause)
    cause = re.sub(r"(output|gradient of)[\w. ]*", r"\1", cause)
    return re.sub(r"[\w.]*\d[\w.]*", "N", cause)[:140]


def groups(lines: list[Json]) -> dict[tuple[str, str, str], list[tuple[str, str]]]:
    """(Kind of run, status, cause) -> the architectures, with the exact message of each."""
    found: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for line in lines:
        runs = [(kind, line[kind]) for kind in ("inference", "training") if kind in line]
        runs = [r for r in runs if r[1]["status"] in BAD] or [("", line)]
        for kind, run in runs:
            if run["status"] in BAD:
                key = (kind, run["status"], group_of(run["cause"]))
                found[key].append((line["name"], run["cause"]))
    return dict(sorted(found.items(), key=lambda item: -len(item[1])))


def summary(lines: list[Json]) -> str:
    """Failures by cause, counts, and the closing line."""
    text = []
    for (kind, status, _), members in groups(lines).items():
        text.append(f"\n{status} {kind}: {members[0][1]}")
        text.append(f"  {len(members)}: {', '.join(name for name, _ in members)}")
    counts = Counter(line["status"] for line in lines)
    text.append(", ".join(f"{count} {status}" for status, count in sorted(counts.items())))
    bad = sum(counts[status] for status in BAD)
    good = counts["right"] + counts["upstream"]
    text.append(f"{good} passed, {bad} failed")
    return "\n".join(text)


_HEAD = """# Models

Every architecture of transformers, and of timm one of each family, with a small random
configuration: inference and a training step, compiled and compared with eager (loss, results and
every gradient). *right*: as eager within its own rounding. *upstream*: torch's `aot_eager` does not
run it either, or is off as much. *unfinished*: the time was up. Written by
`tests/models.sh --write-docs` ([hacking.md](hacking.md)).

"""
_COLUMNS = "architecture inference training graphs breaks kernels call-backs seconds".split()
_TABLE = f"| {' | '.join(_COLUMNS)} |\n|---|---|---|---:|---:|---:|---:|---:|\n"


def _row(line: Json) -> str:
    runs = [line.get(kind, {}) for kind in ("inference", "training")]
    cells = [line["name"], *[run.get("status", "-") for run in runs]]
    for figure in ("graphs", "breaks", "kernels", "call_backs", "seconds"):
        cells.append(" / ".join(str(run.get(figure, "-")) for run in runs))
    return f"| {' | '.join(cells)} |\n"


def write_docs(lines: list[Json], path: Path, where: str) -> None:
    """The page of models: the table, and what eager could not run, with its reason.

    where: device, versions and date of the results, for people.
    """
    latest = {line["name"]: line for line in lines}
    ran = [latest[n] for n in sorted(latest) if latest[n]["status"] != "unsupported"]
    rest = [latest[n] for n in sorted(latest) if latest[n]["status"] == "unsupported"]
    counts = Counter(line["status"] for line in ran)
    text = [_HEAD, f"{where}. " if where else "", f"{len(ran)} ran: "]
    text.append(", ".join(f"{c} {s}" for s, c in sorted(counts.items())))
    text += [". Figures are of inference / training.\n\n", _TABLE, *map(_row, ran)]
    if rest:
        text.append("\n## What eager cannot run here\n\n| architecture | why |\n|---|---|\n")
        for line in rest:
            why = re.sub(r"https?://[^\s'\"]+", "a URL", line["cause"].split(";")[0])
            why = " ".join(why.replace("|", "/").replace("`", "").split())[:120]
            text.append(f"| {line['name']} | {why} |\n")
    path.write_text("".join(text))
