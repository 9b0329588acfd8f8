# SPDX-License-Identifier: Apache-2.0
"""What came of a case: the categories, and the line of the results file."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

# Category -> what it means. Those of FAILURES make the sweep fail unless excuses.py knows them.
CATEGORIES = {
    "right": "eager's results, or an error where eager raises one",
    "random": "random numbers: sizes, dtypes, strides and means are eager's",
    "undefined": "elements that nobody set: sizes, dtypes and strides are eager's",
    "break": "no backend has it as one graph; in several the results are right",
    "eager": "eager differs from itself",
    "capture": "aot_eager fails as well, or gives what we give",
    "wrong": "not eager's results",
    "silent": "eager raises, and the compiled function does not",
    "refused": "strict mode raised",
    "crash": "the process died or hung",
}
FAILURES = ("crash", "wrong", "silent", "refused")
# The worst first: what a case is called that holds samples of several.
ORDER = (*FAILURES, "capture", "eager", "break", "undefined", "random", "right")


@dataclass
class Problem:
    """One sample that is not right. more: samples that failed with it and were not taken apart."""

    category: str
    sample: int
    message: str
    inputs: str = ""
    more: int = 0


@dataclass
class Outcome:
    """One case. counts: samples by category. how: see how.py; of the largest sample, when
    it is right and no gradient is taken."""

    case: str
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    how: dict[str, Any] | None = None
    seconds: float = 0.0
    note: str = ""

    def add(self, category: str, sample: int, message: str = "", inputs: str = "") -> None:
        self.counts[category] += 1
        if message:
            self.problems.append(Problem(category, sample, message[:1500], inputs))

    def include(self, other: Outcome) -> None:
        """Adds samples of the same case that ran by themselves."""
        self.counts.update(other.counts)
        self.problems += other.problems
        self.seconds = round(self.seconds + other.seconds, 3)

    @property
    def category(self) -> str:
        """The worst of its samples; empty when it has none."""
        return next((name for name in ORDER if self.counts[name]), "")

    def line(self) -> dict[str, Any]:
        return {**asdict(self), "counts": dict(self.counts)}

    @staticmethod
    def parse(line: dict[str, Any]) -> Outcome:
        fields = dict(line, counts=Counter(line["counts"]))
        fields["problems"] = [Problem(**problem) for problem in line["problems"]]
        return Outcome(**fields)


def cause(message: str) -> str:
    """A message without what differs between cases of one cause: numbers, nodes, places."""
    text = message.split("\n")[0]
    text = re.sub(r" \(the graph was kept as .*?\)| \[[^\]]* in [^\]]*\]$", "", text)
    text = re.sub(r"node '\w+' (\([\w:.]+\))", r"node NAME \1", text)
    text = re.sub(r"\b[us]\d+\b", "SYMBOL", text)
    text = re.sub(r"0x[0-9a-f]+", "ADDRESS", text)
    text = re.sub(r"/\S+", "PATH", text)
    text = re.sub(r"\(?[-+]?(\d+\.?\d*(e[-+]?\d+)?|inf|nan)\b[-+\djinfa.e]*\)?", "N", text)
    text = re.sub(r"\[[N, ]*\]", "[..]", text)
    text = re.sub(r"\b(True|False)\b", "BOOL", text)
    text = re.sub(r"(node|value|input|output) [\"'%]?[a-z_]\w*[\"']?", r"\1 NAME", text)
    return text[:220]
