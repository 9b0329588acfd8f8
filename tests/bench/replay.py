# SPDX-License-Identifier: Apache-2.0
"""Host time of a replayed training step, beside the launches themselves: needs no GPU.

    python tests/bench/replay.py [--saved 450] [--parameters 131] [--rounds 15]

Forward gives out what it saves and a loss, backward takes these and gives out gradients, as
mode="reduce-overhead" does with CUDA graphs; the graphs are stand-ins whose replay does nothing.
With the native extension and without it. The defaults are T5-small's.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import torch
from private_daemon import ROOT
from report import spread
from tensord import _native
from tensord.bridge import runtime
from tensord.cuda_graphs.graphed_program import WARM_UP, GraphedProgram
from tensord.cuda_graphs.loans import MakeLoans, PythonLoans
from tensord.cuda_graphs.plan import Plan
from timing import compare

sys.path.append(str(ROOT / "tests" / "e2e"))
from fake_graphs import FakeDevice


class Idle(FakeDevice):
    """Graphs whose replay does nothing."""

    def capture(self, *arguments: Any) -> tuple[Any, list[Any]]:
        graph, results = super().capture(*arguments)
        graph.replay = lambda: None  # type: ignore[method-assign]
        return graph, results


def training_step(saved: int, parameters: int, loans: MakeLoans) -> Callable[[], None]:
    """Forward and backward as captured programs, captured."""
    weights = [torch.zeros(4, 4) for _ in range(parameters)]
    batch = torch.zeros(16, 128)
    static = frozenset(range(parameters))

    def forward(arguments: list[Any]) -> list[Any]:
        arguments.clear()
        return [*(torch.zeros(64, 64) for _ in range(saved)), torch.zeros(())]

    def backward(arguments: list[Any]) -> list[Any]:
        arguments.clear()
        return [torch.zeros(4, 4) for _ in range(parameters)]

    device = Idle()
    plans = (Plan(static, frozenset()), Plan(static, frozenset(), reads_last=True))
    first, second = (
        GraphedProgram(program, plan, device, make_loans=loans)
        for program, plan in zip((forward, backward), plans, strict=True)
    )

    def step() -> None:
        *kept, loss = first([*weights, batch])
        arguments = [*weights, *kept, torch.ones_like(loss)]
        del kept
        second(arguments)

    for _ in range(WARM_UP + 4):
        step()
    return step


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--saved", type=int, default=450)
    parser.add_argument("--parameters", type=int, default=131)
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()
    extension = runtime.native_extension()
    if extension is None:
        parser.error(f"only Python could be measured: {_native.bridge()}")
    kinds: dict[str, MakeLoans] = {"native": extension.Loans, "Python": PythonLoans}
    steps = {
        name: training_step(args.saved, args.parameters, loans) for name, loans in kinds.items()
    }
    found = compare(steps, args.rounds, 0.05)
    for name in steps:
        print(f"{name}: {spread(found[name])} a step")


if __name__ == "__main__":
    main()
