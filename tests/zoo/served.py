# SPDX-License-Identifier: Apache-2.0
"""What a second process was served of an architecture that a first recorded (main.py --served)."""

from __future__ import annotations

from collections import Counter
from typing import Any

Json = dict[str, Any]
_KINDS = ("inference", "training")


def of_second(first: Json, line: Json) -> Json:
    """The second process's line, with `served`: "wholly", "partly" or "not", and why: what the
    first could not record, and where that says nothing, what did not fit the second."""
    runs = [line[kind] for kind in _KINDS if kind in line]
    served = sum(run["frames_served"] for run in runs)
    captured = sum(run["frames_captured"] for run in runs)
    how = "wholly" if served and not captured else "partly" if served else "not"
    recording = [first[kind] for kind in _KINDS if kind in first]
    why = sorted({reason for run in recording + runs for reason in run["frames_unrecorded"]})
    if how != "wholly" and not why:
        why = sorted({f"unfit: {reason}" for run in runs for reason in run["frames_unfit"]})
    return {**line, "served": how, "unserved": why}


def summary(lines: list[Json]) -> str:
    """How many were served, and what others were not for."""
    ran = [line for line in lines if "served" in line]
    counts = Counter(line["served"] for line in ran)
    reasons = Counter(reason for line in ran for reason in line["unserved"])
    text = [f"{count:5}  {reason[:200]}" for reason, count in reasons.most_common()]
    whole = counts["wholly"]
    share = f" ({100 * whole / len(ran):.0f} %)" if ran else ""
    text.append(f"{whole} of {len(ran)} wholly served{share}, {counts['partly']} partly")
    return "\n".join(text)
