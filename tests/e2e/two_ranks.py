# SPDX-License-Identifier: Apache-2.0
"""One of two processes of test_semantics_distributed.py, over gloo on the CPU.

    python two_ranks.py RANK FOLDER

Runs each topic compiled and in eager and compares; FOLDER gets a file TOPIC.RANK for each, with the
statistics of this process as JSON, and the error where there was one.
"""

from __future__ import annotations

import copy
import json
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import tensord
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import torch.nn.functional as F
from compare import check
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

# Both ranks share the cores.
torch.set_num_threads(1)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tensord", **options)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(8, 32), nn.LayerNorm(32), nn.Linear(32, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.norm(F.gelu(self.first(x))))


def _model() -> Net:
    torch.manual_seed(0)
    return Net()


def _train(model: nn.Module, run: Any, rank: int) -> list[list[Any]]:
    """Losses and all gradients of some steps, each rank with inputs of its own, then parameters."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    seen = []
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        x, y = torch.randn(6, 8), torch.randint(0, 4, (6,))
        loss = F.cross_entropy(run(x), y)
        loss.backward()
        seen.append([loss.detach(), *(_local(p.grad).clone() for p in model.parameters())])
        optimizer.step()
        optimizer.zero_grad()
    return [*seen, [_local(p).detach() for p in model.parameters()]]


def _local(tensor: Any) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def ddp(rank: int) -> None:
    ours, eager = (DistributedDataParallel(_model()) for _ in range(2))
    check("training", _train(ours, compiled(ours), rank), _train(eager, eager, rank), magnitude=10)


def fsdp(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))

    def sharded() -> nn.Module:
        model = _model()
        for layer in (model.first, model.last):
            fully_shard(layer, mesh=mesh)
        return fully_shard(model, mesh=mesh)

    ours, eager = sharded(), sharded()
    assert isinstance(next(ours.parameters()), DTensor)
    check("training", _train(ours, compiled(ours), rank), _train(eager, eager, rank), magnitude=10)


def functional_collectives(rank: int) -> None:
    group = dist.group.WORLD

    def function(x: Tensor) -> tuple[Tensor, ...]:
        total = collectives.all_reduce(x * 2, "sum", group)
        beside = x.sin().cumsum(0)  # needs nothing of what is under way
        gathered = collectives.all_gather_tensor(x + 1, 0, group)
        scattered = collectives.reduce_scatter_tensor(gathered.exp(), "sum", 0, group)
        return total * beside, gathered.flip(0), scattered - total

    torch.manual_seed(rank)
    x = torch.randn(4, 3)
    run = compiled(function, fullgraph=True)
    for _ in range(2):
        check("collectives", run(x), function(x))
        x = x * 0.5


def collectives_beside_work(rank: int) -> None:
    """What a collective reads stays as it is while results are computed that would fit there."""
    group = dist.group.WORLD

    def function(x: Tensor) -> tuple[Tensor, ...]:
        gathered = collectives.all_gather_tensor(x + 1, 0, group)
        scattered = collectives.reduce_scatter_tensor(x * 3, "sum", 0, group)
        exchanged = collectives.all_to_all_single(x - 2, None, None, group)
        y, w = x, x[: x.shape[1]].softmax(1)
        for _ in range(4):
            y = (y @ w).tanh()
        return y, gathered.sum(0), scattered * 2, exchanged + 1

    torch.manual_seed(rank)
    x = torch.randn(20_000, 64)
    run = compiled(function, fullgraph=True)
    for _ in range(3):
        check("collectives", run(x), function(x), magnitude=10)


def training_through_collectives(rank: int) -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        part = collectives.all_gather_tensor_autograd(x @ w, 0, dist.group.WORLD)
        return part.tanh().square().sum()

    gradients = []
    for run in (compiled(function, fullgraph=True), function):
        torch.manual_seed(rank)
        x, w = torch.randn(4, 3), torch.randn(3, 5, requires_grad=True)
        loss = run(x, w)
        loss.backward()
        gradients.append([loss.detach(), w.grad])
    check("gradients", *gradients)


def dtensor(rank: int) -> None:
    mesh = init_device_mesh("cpu", (2,))
    torch.manual_seed(0)
    x = distribute_tensor(torch.randn(8, 6), mesh, [Shard(0)])
    w = distribute_tensor(torch.randn(6, 4), mesh, [Replicate()])
    v = distribute_tensor(torch.randn(4, 6), mesh, [Shard(1)])

    def function(x: DTensor, w: DTensor, v: DTensor) -> tuple[DTensor, DTensor]:
        y = (x @ w).relu()
        return y, y.redistribute(mesh, [Replicate()]) @ v

    ours, eager = compiled(function, fullgraph=True)(x, w, v), function(x, w, v)
    for mine, theirs in zip(ours, eager, strict=True):
        assert isinstance(mine, DTensor) and mine.placements == theirs.placements
        check("local", mine.to_local(), theirs.to_local())
        check("whole", mine.full_tensor(), theirs.full_tensor())

    leaves = [copy.deepcopy(w).requires_grad_() for _ in range(2)]
    for leaf, run in zip(leaves, (compiled(function), function), strict=True):
        y, z = run(x, leaf, v)
        (y.sum() + z.sum()).backward()
    check("gradient", *(leaf.grad.full_tensor() for leaf in leaves))


TOPICS: list[Callable[[int], None]] = [
    ddp, fsdp, functional_collectives, collectives_beside_work, training_through_collectives,
    dtensor,
]  # fmt: skip


def main() -> None:
    rank, folder = int(sys.argv[1]), Path(sys.argv[2])
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2,
        timeout=timedelta(seconds=60),
    )  # fmt: skip
    for topic in TOPICS:
        torch._dynamo.reset()
        tensord.reset_stats()
        error = ""
        try:
            topic(rank)
        except Exception:
            error = traceback.format_exc()
        said = {"error": error, "stats": tensord.stats()}
        (folder / f"{topic.__name__}.{rank}").write_text(json.dumps(said, default=str))
        if error:  # the other rank waits for what does not come
            raise SystemExit(error)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
