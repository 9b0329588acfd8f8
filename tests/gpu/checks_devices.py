# SPDX-License-Identifier: Apache-2.0
"""Hosts with several GPUs: programs run where their inputs are, whatever device is current.

On a host with one GPU there is nothing to check.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import tensord
import torch
import torch.nn.functional as F
from checks_shared import together
from torch import Tensor, nn

WIDTH, STEPS = 192, 6
SECOND = "cuda:1"


class Block(nn.Module):
    """Products, a norm, a softmax: library calls and kernels of ours, with memory between them."""

    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            hidden = self.down(F.gelu(self.up(self.norm(x)), approximate="tanh"))
        return (x + hidden.float()).softmax(-1)


def _model(device: str) -> Block:
    torch.manual_seed(0)
    return Block().to(device)


def _losses(device: str, model: nn.Module, run: nn.Module) -> list[float]:
    """Of a few steps of training on that device."""
    losses = []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    x = torch.linspace(-1, 1, 64 * WIDTH, device=device).reshape(64, WIDTH)
    for _ in range(STEPS):
        optimizer.zero_grad()
        result = run(x)
        assert result.device == torch.device(device), result.device
        loss = (result * x).sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def _check_losses(device: str, **options: str) -> None:
    model = _model(device)
    ours = _losses(device, model, torch.compile(model, backend="tensord", **options))
    model = _model(device)
    eager = _losses(device, model, model)
    torch.testing.assert_close(torch.tensor(ours), torch.tensor(eager), rtol=2e-3, atol=2e-3)


def _second_device() -> None:
    _check_losses(SECOND)
    assert torch.cuda.current_device() == 0


def _graphs_on_the_second() -> None:
    _check_losses(SECOND, mode="reduce-overhead")
    assert torch.cuda.current_device() == 0


def _one_program_for_both() -> None:
    """A compiled function moves to another device: the daemon has the program already."""
    tensord.reset_stats()
    run = torch.compile(lambda x: (x.sin() + 2.125).log().cumsum(-1), backend="tensord")
    for device in ("cuda:0", SECOND, "cuda:0"):
        x = torch.rand(40, 333, device=device)
        torch.testing.assert_close(run(x), (x.sin() + 2.125).log().cumsum(-1))
    stats = tensord.stats()
    assert (stats["compiled"], stats["hits"]) == (1, 1), stats


def _threads() -> None:
    """Each thread trains on a device of its own, all at the same time. They are captured one after
    the other before: torch patches the calls of modules, of every thread, while it traces."""
    capture, captured = threading.Lock(), threading.Barrier(2, timeout=120)

    def work(device: str, model: Block) -> list[float]:
        torch.cuda.set_device(device)
        with capture:
            run = torch.compile(model, backend="tensord")
            run(torch.ones(64, WIDTH, device=device)).sum().backward()
        captured.wait()
        return _losses(device, model, run)

    # Made one after the other: threads share torch's generators.
    models = {device: _model(device) for device in ("cuda:0", SECOND)}
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(work, models.keys(), models.values(), timeout=120))
    model = _model("cuda:0")
    eager = torch.tensor(_losses("cuda:0", model, model))
    for losses in found:
        torch.testing.assert_close(torch.tensor(losses), eager, rtol=2e-3, atol=2e-3)


_RANK = """
import json, os, sys
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
import tensord

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.down = nn.Linear(96, 288), nn.LayerNorm(288), nn.Linear(288, 96)

    def forward(self, x):
        return self.down(self.norm(torch.nn.functional.gelu(self.up(x))))

rank = int(os.environ["RANK"])
torch.cuda.set_device(rank)
dist.init_process_group("nccl", init_method="file://" + sys.argv[1], rank=rank, world_size=2)
torch.manual_seed(0)
model = Net().cuda()
run = torch.compile(DistributedDataParallel(model), backend="tensord")
data = torch.linspace(-1, 1, 2 * 32 * 96).reshape(2, 32, 96)
x = data[rank].cuda()
for _ in range(3):
    model.zero_grad()
    run(x).square().mean().backward()
torch.manual_seed(0)
alone = Net().cuda()
alone(data.cuda()).square().mean().backward()
error = max((a.grad - b.grad).abs().max().item() / b.grad.abs().max().item()
            for a, b in zip(model.parameters(), alone.parameters()))
dist.destroy_process_group()
print(json.dumps({**tensord.stats(), "error": error}))
"""


def _data_parallel() -> None:
    """Two ranks: the gradients of both halves together, and every program compiled once."""
    with tempfile.TemporaryDirectory() as folder:
        results, total = together(2, _RANK, os.path.join(folder, "meeting"))
    assert all(r["error"] < 1e-4 for r in results), results
    assert total["graphs"] >= 4 and total["graphs"] == 2 * total["compiled"], total
    assert total["joined"] + total["hits"] == total["compiled"], total


def checks() -> list[tuple[str, Callable[[], None]]]:
    """None where there are not two GPUs."""
    if torch.cuda.device_count() < 2:
        return []
    return [
        ("second device", _second_device),
        ("graphs on the second", _graphs_on_the_second),
        ("one program for both", _one_program_for_both),
        ("threads", _threads),
        ("data parallel", _data_parallel),
    ]
