# SPDX-License-Identifier: Apache-2.0
"""A job of whatever version of the client is imported: inference, training, and a new function.

    python version_job.py NUMBER

Compares with eager, and prints one line of JSON: what differed, what was said (warnings, and the
logger `tensord` from WARNING on), what the package counted, and where it lies. NUMBER 0: no new
function; another has one that is compiled for that number. Knows only what every client has.
"""

from __future__ import annotations

import importlib
import json
import logging
import sys
import warnings
from collections.abc import Callable
from typing import Any

import tensord
import torch

NUMBER = int(sys.argv[1])


def inference(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """A product, a norm and a softmax."""
    hidden = torch.nn.functional.layer_norm(torch.tanh(x @ weight), (32,))
    return torch.softmax(hidden * 3, -1).cumsum(-1)


def new(x: torch.Tensor) -> torch.Tensor:
    """Another function for each number."""
    return torch.tanh(x * NUMBER).sum(-1) + NUMBER


def model() -> torch.nn.Module:
    """The same each time."""
    torch.manual_seed(1)
    return torch.nn.Sequential(torch.nn.Linear(6, 32), torch.nn.GELU(), torch.nn.Linear(32, 6))


def train(net: torch.nn.Module, step: Callable[..., Any]) -> list[torch.Tensor]:
    """Losses and parameters of a few steps."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    torch.manual_seed(2)
    losses = []
    for _ in range(3):
        loss = step(torch.randn(16, 6)).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach())
    return [*losses, *(parameter.detach() for parameter in net.parameters())]


def differences() -> list[str]:
    """What eager gives another number for."""
    torch.manual_seed(0)
    x, weight = torch.randn(8, 24), torch.randn(24, 32)
    ours, eagers = model(), model()
    pairs = [
        ("inference", [tensord.compile(inference)(x, weight)], [inference(x, weight)]),
        ("training", train(ours, tensord.compile(ours)), train(eagers, eagers)),
    ]
    if NUMBER:
        pairs.append(("new", [torch.compile(new, backend="tensord")(x)], [new(x)]))
    return [
        f"{name}: {(one - other).abs().max()}"
        for name, got, want in pairs
        for one, other in zip(got, want, strict=True)
        if not torch.allclose(one, other, rtol=1e-4, atol=1e-5)
    ]


def ask_for_progress_at_once() -> None:
    """Where the client knows of it: a compile of this job takes less than a second."""
    try:
        progress = importlib.import_module("tensord.wire.progress")
    except ImportError:
        return
    progress.FIRST_S = 0.01


class _Said(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


def main() -> None:
    said = _Said()
    logging.getLogger("tensord").addHandler(said)
    logging.getLogger("tensord").propagate = False
    ask_for_progress_at_once()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        wrong = differences()
    # What torch itself warns of is none of ours.
    ours = [str(w.message) for w in warned if "tensord" in str(w.message)]
    told = {
        "wrong": wrong,
        "said": sorted({*said.lines, *ours}),
        "stats": tensord.stats(),
        "store_problem": tensord.daemon_stats()["store_problem"],
        "client": tensord.__file__,
    }
    print(json.dumps(told, default=str))


if __name__ == "__main__":
    main()
