# SPDX-License-Identifier: Apache-2.0
"""What a call costs the host: eager, a served frame, and backends behind Dynamo's own capture.

    call.py [--device cpu|cuda] [--rounds N] [--inductor] [--bridge native|python]

Microseconds of a call, medians and quartiles of rounds in which the alternatives take turns in one
process: a graph of three operators, and a training step of a small model. On a GPU a call has ended
when its kernels are launched. --inductor: TorchInductor as well. --bridge python: as on a host
without the native extension.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
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


def _captured(target: Any, run: Callable[[Any], Any], backend: str = "tensord") -> Any:
    compiled = torch.compile(target, backend=backend)
    run(compiled)
    return compiled


def inference(device: str, backends: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Runs of the three operators."""
    x, y = torch.randn(8, device=device), torch.randn(8, device=device)
    call = lambda function: function(x, y)  # noqa: E731
    served = _served(three, call)
    runs = {"eager": lambda: three(x, y), "served": lambda: served(x, y)}
    for backend in backends:  # each of a function of its own
        compiled = _captured(lambda a, b: three(a, b), call, backend)
        runs[backend] = lambda compiled=compiled: compiled(x, y)
    return runs


def training(device: str, backends: Sequence[str]) -> dict[str, Callable[[], Any]]:
    """Forward and backward of two layers."""
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    model.to(device)
    x = torch.randn(4, 8, device=device)

    def step(function: Any) -> None:
        function(x).sum().backward()

    served = _served(model, step)
    runs = {"eager": lambda: step(model), "served": lambda: step(served)}
    for backend in backends:
        compiled = _captured(model, step, backend)
        runs[backend] = lambda compiled=compiled: step(compiled)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--inductor", action="store_true")
    parser.add_argument("--bridge", default="native", choices=("native", "python"))
    args = parser.parse_args()
    os.environ["TENSORD_NATIVE"] = "1" if args.bridge == "native" else "0"
    backends = ["tensord", *(["inductor"] if args.inductor else [])]
    torch.set_num_threads(1)
    with PrivateDaemon():
        for make in (inference, training):
            print(make.__name__)
            times = compare(make(args.device, backends), args.rounds, 0.05)
            times.pop("ratios")
            for name, found in times.items():
                low, median, high = (1e6 * found[key] for key in ("low", "median", "high"))
                print(f"  {name:9} {median:8.2f} us  ({low:.2f} to {high:.2f})")


if __name__ == "__main__":
    main()
