# SPDX-License-Identifier: Apache-2.0
"""What checking a frame's guards costs: natively, in Python as on a host without the extension, and
by torch's own guards of the same capture.

    guards.py [--rounds N] [--parameters N]

Microseconds of a check that holds, as torch's hook asks at each call: the least and the median of
bursts in which the alternatives take turns, too short to be interrupted often. Of three tensors; of
a module with so many parameters (400), in evaluation and in training. No daemon is needed.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import torch

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from frame_guards import Recorded, capture


def three(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return x + y + z


class Layers(torch.nn.Module):
    """Linear layers, of two parameters each."""

    def __init__(self, parameters: int) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(parameters // 2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All behind one another."""
        for layer in self.layers:
            x = layer(x)
        return x


def checks(recorded: Recorded) -> dict[str, Callable[[], Any]]:
    """Of one capture, each of which holds."""
    called = recorded.locals
    assert called is not None
    runs: dict[str, Callable[[], Any]] = {}
    for name, bridge in (("native", "1"), ("python", "0")):
        os.environ["TENSORD_NATIVE"] = bridge
        start = time.perf_counter()
        tree = recorded.load()
        assert tree(called), tree.failure(called)
        print(f"  {name:9} made ready in {1e3 * (time.perf_counter() - start):.1f} ms")
        runs[name] = lambda tree=tree: tree(called)
    (entry,) = torch._C._dynamo.eval_frame._debug_get_cache_entry_list(recorded.code)
    torchs = entry.guard_manager
    assert torchs.check(called)
    runs["torch"] = lambda: torchs.check(called)
    return runs


BURST_SECONDS = 2e-4


def bursts(runs: dict[str, Callable[[], Any]], rounds: int) -> dict[str, list[float]]:
    """Seconds of a call in each burst."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            calls = max(1, int(BURST_SECONDS / min(found[name], default=1.0)))
            start = time.perf_counter()
            for _ in range(calls):
                run()
            found[name].append((time.perf_counter() - start) / calls)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--parameters", type=int, default=400)
    args = parser.parse_args()
    torch.set_num_threads(1)
    model, x = Layers(args.parameters), torch.ones(2, 4)
    tensors = [torch.ones(8) for _ in range(3)]
    cases: dict[str, Callable[[], Recorded]] = {
        "three tensors": lambda: capture(three, *tensors),
        f"{args.parameters} parameters, evaluation": lambda: capture(model.eval().forward, x),
        f"{args.parameters} parameters, training": lambda: capture(model.train().forward, x),
    }
    for name, make in cases.items():
        print(name)
        recorded = make()
        found = bursts(checks(recorded), args.rounds)
        print(f"  {len(recorded.frame().guards)} guards on {len(recorded.frame().sources)} sources")
        for kind, seconds in found.items():
            least, median = 1e6 * min(seconds), 1e6 * statistics.median(seconds)
            print(f"  {kind:9} {least:8.2f} us  (median {median:.2f})")


if __name__ == "__main__":
    main()
