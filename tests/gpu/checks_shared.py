# SPDX-License-Identifier: Apache-2.0
"""Four processes train the same model with one daemon: every program is compiled once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import torch

PROCESSES = 4

# WIDTH is one that no other check compiles.
_JOB = """
import json, sys
import torch
from torch import nn
import tensord
width, device = int(sys.argv[1]), sys.argv[2]
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(width, 3 * width), nn.GELU(), nn.LayerNorm(3 * width),
                      nn.Linear(3 * width, width), nn.Softmax(-1)).to(device)
run = torch.compile(model, backend="tensord")
x = torch.linspace(-1, 1, 32 * width, device=device).reshape(32, width)
losses = []
for _ in range(3):
    loss = run(x).square().sum()
    loss.backward()
    losses.append(loss.item())
print(json.dumps({**tensord.stats(), "losses": losses}))
"""


def together(count: int, script: str, *arguments: str) -> tuple[list[Any], dict[str, int]]:
    """Runs so many processes of a script at the same time. Each finds its number in RANK and prints
    an object with tensord's counters as its last line: all objects, and the counters' sums."""
    jobs = [
        subprocess.Popen(
            [sys.executable, "-c", script, *arguments],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "RANK": str(rank)},
        )
        for rank in range(count)
    ]  # fmt: skip
    results = []
    for job in jobs:
        out, errors = job.communicate(timeout=120)
        assert job.returncode == 0, errors[-1500:]
        results.append(json.loads(out.splitlines()[-1]))
    counters = ("graphs", "compiled", "joined", "hits")
    return results, {name: sum(result[name] for result in results) for name in counters}


def _together() -> None:
    results, total = together(PROCESSES, _JOB, "328", torch.get_default_device().type)
    assert total["graphs"] == 2 * PROCESSES, total
    assert total["compiled"] == 2, total
    assert total["joined"] + total["hits"] == total["graphs"] - 2, total
    assert all(r["losses"] == results[0]["losses"] for r in results), [r["losses"] for r in results]


def checks() -> list[tuple[str, Callable[[], None]]]:
    """One check."""
    return [("four processes", _together)]
