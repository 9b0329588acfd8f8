# SPDX-License-Identifier: Apache-2.0
"""A process that makes and runs programs for main.py, which tells it where the daemon listens."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parents[2]
sys.path[1:1] = [str(TESTS / "fuzz"), str(TESTS / "tools")]

import tensord  # noqa: E402
from worker_pool import serve  # noqa: E402

from programs.execute import run  # noqa: E402
from programs.generate import generate  # noqa: E402
from programs.program import Program  # noqa: E402

STATISTICS = ("graphs", "kernels", "kernels_failed", "fallbacks", "calls_in_eager")


def _handle(task: dict[str, Any], note: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """{"seed": N, "device": D} makes the program of a seed, {"program": {...}} is one; both run
    it."""
    if "seed" in task:
        program = dataclasses.replace(generate(task["seed"]), device=task["device"])
        note({"program": program.to_json()})
    else:
        program = Program.from_json(task["program"])
    tensord.reset_stats()
    outcome = run(program, task.get("backend", "tensord"))
    stats = tensord.stats()
    outcome.stats = {name: stats[name] for name in STATISTICS}
    if outcome.kind == "right" and (stats["fallbacks"] or stats["calls_in_eager"]):
        outcome.kind, outcome.cause = "failed", "calls in eager"
        outcome.message = str(stats["fallback_reasons"])
    return dataclasses.asdict(outcome)


if __name__ == "__main__":
    serve(_handle)
