# SPDX-License-Identifier: Apache-2.0
"""Timing of alternatives that take turns, so that a disturbance meets all of them alike."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

Run = Callable[[], Any]
# Seconds of one call, as the mean of `count` calls in a row.
Measure = Callable[[Run, int], float]
MIN_ROUNDS = 3


def _seconds(run: Run, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run()
    return (time.perf_counter() - start) / count


def _calls_for(run: Run, seconds: float, measure: Measure) -> int:
    """How many calls fill about `seconds`; at least one."""
    once = max(min(measure(run, 1), measure(run, 1)), 1e-7)
    if once > seconds / 2:
        return 1
    return max(1, int(seconds / max(measure(run, max(1, int(seconds / once / 10))), 1e-7)))


def summary(samples: list[float]) -> dict[str, float]:
    """Median and quartiles of seconds."""
    if len(samples) < 3:
        return {
            "median": statistics.median(samples),
            "low": min(samples),
            "high": max(samples),
        }
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median": median, "low": low, "high": high}


def compare(
    runs: dict[str, Run],
    rounds: int,
    sample_seconds: float,
    measure: Measure = _seconds,
    out_of_time: Callable[[], bool] = lambda: False,
    warm: bool = False,
) -> dict[str, Any]:
    """Seconds of one call of each alternative, and ratios between them.

    In each round every alternative runs once, for about `sample_seconds`, in an order that rotates.
    With `warm` a call that does not count comes before: it finds what the others left behind, which
    no job of its own would.
    The result has, by name, median and quartiles over the rounds, and under "ratios", for each pair
    "a/b", the median of the rounds' own ratios: what slows a whole round down cancels out. When
    `out_of_time` says so, MIN_ROUNDS rounds are enough.
    """
    counts = {name: _calls_for(run, sample_seconds, measure) for name, run in runs.items()}
    samples: dict[str, list[float]] = {name: [] for name in runs}
    names = list(runs)
    gc.collect()
    gc.disable()
    try:
        for i in range(rounds):
            if i >= MIN_ROUNDS and out_of_time():
                break
            for name in names[i % len(names) :] + names[: i % len(names)]:
                if warm:
                    measure(runs[name], 1)
                samples[name].append(measure(runs[name], counts[name]))
    finally:
        gc.enable()
    result: dict[str, Any] = {name: summary(values) for name, values in samples.items()}
    result["ratios"] = {
        f"{a}/{b}": statistics.median(x / y for x, y in zip(samples[a], samples[b], strict=True))
        for a in names
        for b in names
        if a != b
    }
    return result
