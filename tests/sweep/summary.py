# SPDX-License-Identifier: Apache-2.0
"""The results of a sweep for people: by category, and failures by their cause."""

from __future__ import annotations

from collections import Counter, defaultdict

import excuses
from case_outcome import CATEGORIES, FAILURES, Outcome, Problem, cause
from entries import Case


def excused(outcome: Outcome, problem: Problem) -> str:
    """The reason for which a failure is excused; empty when it is not."""
    return excuses.reason(outcome.case, problem.message)


def failed(outcome: Outcome) -> bool:
    """Whether the case holds a failure that nothing excuses."""
    return any(p.category in FAILURES and not excused(outcome, p) for p in outcome.problems)


def failure(outcome: Outcome) -> str:
    """One line: the case and its worst problem."""
    problem = min(
        (p for p in outcome.problems if p.category in FAILURES),
        key=lambda p: FAILURES.index(p.category),
    )
    counts = ", ".join(f"{n} {name}" for name, n in outcome.counts.items())
    return f"  {outcome.case}: {counts}: sample {problem.sample}: {problem.message[:300]}"


def repro(case: Case, sample: int) -> str:
    """The command that runs one sample."""
    words = ["tests/sweep.sh", f"--ops '^{case.entry}$'", f"--dtypes {case.dtype}"]
    words.append(f"--variants {case.variant}")
    words.append("--no-forward" if case.gradient else "--no-grad")
    if case.dynamic:
        words.append("--no-static --dynamic")
    if case.device != "cpu":
        words.append(f"--device {case.device}")
    if sample >= 0:
        words.append(f"--sample {sample}")
    return " ".join(words)


def table(outcomes: dict[str, Outcome]) -> str:
    """One line a category: cases by their worst sample, and samples."""
    cases = Counter(outcome.category for outcome in outcomes.values())
    samples: Counter[str] = Counter()
    for outcome in outcomes.values():
        samples.update(outcome.counts)
    lines = [f"{'category':<12}{'cases':>8}{'samples':>9}"]
    for name, what in CATEGORIES.items():
        if cases[name] or samples[name]:
            lines.append(f"{name:<12}{cases[name]:>8}{samples[name]:>9}  {what}")
    if cases[""]:
        lines.append(f"{'none':<12}{cases['']:>8}{0:>9}  no such inputs")
    return "\n".join(lines)


def causes(outcomes: dict[str, Outcome], categories: tuple[str, ...]) -> str:
    """The problems of some categories, those of one cause together, the most frequent first."""
    groups: defaultdict[tuple[str, str], list[tuple[Outcome, Problem]]] = defaultdict(list)
    for outcome in outcomes.values():
        for problem in outcome.problems:
            if problem.category in categories:
                groups[problem.category, cause(problem.message)].append((outcome, problem))
    lines = []
    by_entries = sorted(groups.items(), key=lambda item: -len(_names(item[1])))
    for (category, _), members in by_entries:
        names = _names(members)
        outcome, problem = members[0]
        samples = sum(1 + p.more for _, p in members)
        cases = len({o.case for o, _ in members})
        lines += [
            f"[{category}] {len(names)} operators, {cases} cases, {samples} samples",
            *(f"    {line[:600]}" for line in _lines(problem)),
            f"    inputs: {problem.inputs}",
            f"    {repro(Case.parse(outcome.case), problem.sample)}",
            f"    operators: {', '.join(names[:40])}{' ...' if len(names) > 40 else ''}",
        ]
        if reason := excused(outcome, problem):
            lines.append(f"    excused: {reason}")
        lines.append("")
    return "\n".join(lines)


def _lines(problem: Problem) -> list[str]:
    """The part of a message that says what happened: of a crash the stack too."""
    lines = [line for line in problem.message.splitlines() if line.strip()]
    return lines[: 20 if problem.category == "crash" else 1]


def _names(members: list[tuple[Outcome, Problem]]) -> list[str]:
    return sorted({Case.parse(outcome.case).entry for outcome, _ in members})


def report(outcomes: dict[str, Outcome], left: int) -> str:
    """Everything."""
    parts = []
    if listed := causes(outcomes, ("eager", "capture", "break")):
        parts += ["== not ours", listed]
    if listed := causes(outcomes, FAILURES):
        parts += ["== failures by cause", listed]
    notes = Counter(outcome.note.split(":")[0] for outcome in outcomes.values() if outcome.note)
    parts += ["== results", table(outcomes)]
    parts += [f"{count} cases: {note}" for note, count in notes.items()]
    if left:
        parts.append(f"{left} cases had no time")
    return "\n".join(parts)
