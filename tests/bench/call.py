# SPDX-License-Identifier: Apache-2.0
"""What a call costs the host: eager, a served frame, and tensord behind Dynamo's own capture.

    call.py [--rounds N]

Microseconds of a call, medians and quartiles of rounds in which the alternatives take turns in one
process: a graph of three operators on the CPU, and a training step of a small model.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from typing import Any

import torch
from private_daemon import PrivateDaemon
from timing import compare


def three(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Three operators on eight numbers: nothing but the way there."""
    return (x * y).relu() + 1


def _served(target: Any, run: Callable[[Any], Any]) -> Any:
    """The function or module as a next process has it: captured once, then served."""
    import tensord

    os.environ["TENSORD_FRAMES"] = "1"
    run(tensord.compile(target))
    torch._dynamo.reset()
    tensord.reset_stats()
    served = tensord.compile(target)
    run(served)
    stats = tensord.stats()
    assert stats["frames_served"] and not stats["frames_captured"], str(stats)
    os.environ["TENSORD_FRAMES"] = "0"
    return served


def _captured(target: Any, run: Callable[[Any], Any]) -> Any:
    compiled = torch.compile(target, backend="tensord")
    run(compiled)
    return compiled


def inference() -> dict[str, Callable[[], Any]]:
    """Runs of the three operators."""
    x, y = torch.randn(8), torch.randn(8)
    call = lambda function: function(x, y)  # noqa: E731
    served, captured = _served(three, call), _captured(lambda a, b: three(a, b), call)
    return {
        "eager": lambda: three(x, y),
        "served": lambda: served(x, y),
        "captured": lambda: captured(x, y),
    }


def training() -> dict[str, Callable[[], Any]]:
    """Forward and backward of two layers."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    x = torch.randn(4, 8)

    def step(function: Any) -> None:
        function(x).sum().backward()

    served, captured = _served(model, step), _captured(model, step)
    return {
        "eager": lambda: step(model),
        "served": lambda: step(served),
        "captured": lambda: step(captured),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    with PrivateDaemon():
        for make in (inference, training):
            print(make.__name__)
            times = compare(make(), rounds, 0.05)
            times.pop("ratios")
            for name, found in times.items():
                low, median, high = (1e6 * found[key] for key in ("low", "median", "high"))
                print(f"  {name:9} {median:8.2f} us  ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
