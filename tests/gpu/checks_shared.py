"""Four processes train the same model with one daemon: every program is compiled once."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable

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


def _together() -> None:
    device = torch.get_default_device().type
    command = [sys.executable, "-c", _JOB, "328", device]
    jobs = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    results = []
    for job in jobs:
        out, errors = job.communicate(timeout=120)
        assert job.returncode == 0, errors[-1500:]
        results.append(json.loads(out.splitlines()[-1]))
    total = {k: sum(r[k] for r in results) for k in ("graphs", "compiled", "joined", "hits")}
    assert total["graphs"] == 2 * PROCESSES, total
    assert total["compiled"] == 2, total
    assert total["joined"] + total["hits"] == total["graphs"] - 2, total
    assert all(r["losses"] == results[0]["losses"] for r in results), [r["losses"] for r in results]


def checks() -> list[tuple[str, Callable[[], None]]]:
    """One check."""
    return [("four processes", _together)]
