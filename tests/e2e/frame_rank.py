# SPDX-License-Identifier: Apache-2.0
"""One of the processes of test_frames_ranks.py, over gloo on the CPU.

    python frame_rank.py RANK RANKS FOLDER TOPIC...

Runs each topic in eager and by tensord.compile, and prints one line of JSON for each: its name, how
both differ ("" where they do not), and this process's statistics.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import tensord
import torch
import torch.distributed as dist
import torch.nn.functional as F
from frame_runner import difference
from tensord.wire import rpc
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

WIDTH = 400

# All ranks share two cores, with other tests: a greeting may take longer than a job would wait.
torch.set_num_threads(1)
rpc.GREETING_SILENCE_S = 2.0


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, first: Tensor) -> Tensor:
        return F.gelu(self.linear(x)) + first


class Net(nn.Module):
    """Of 2.6 MB, by which DistributedDataParallel has buckets of a MiB."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(4))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        first = x
        for layer in self.layers:
            x = layer(x, first)
        return self.norm(x), x.mean()


def _net() -> Net:
    torch.manual_seed(0)
    return Net()


def _train(model: nn.Module, run: Any, rank: int) -> list[Any]:
    """Losses and gradients of three steps with inputs of the rank's own."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    seen: list[Any] = []
    for step in range(3):
        torch.manual_seed(10 * step + rank)
        normal, mean = run(torch.randn(6, WIDTH))
        loss = normal.square().mean() + mean
        loss.backward()
        seen += [loss.detach(), *(_local(p.grad).clone() for p in model.parameters())]
        optimizer.step()
        optimizer.zero_grad()
    return seen


def _local(tensor: Any) -> Tensor:
    return tensor.to_local() if isinstance(tensor, DTensor) else tensor


def ddp(rank: int, compile: Any) -> Any:
    model = DistributedDataParallel(_net(), bucket_cap_mb=1)
    return _train(model, compile(model), rank)


def fsdp(rank: int, compile: Any) -> Any:
    """Block by block, as shards are gathered between blocks, where no graph can go on."""
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    model = _net()
    for number, layer in enumerate(model.layers):
        model.layers[number] = compile(layer)
        fully_shard(model.layers[number], mesh=mesh)
    fully_shard(model, mesh=mesh)
    return _train(model, model, rank)


def rank_decides(rank: int, compile: Any) -> Any:
    """Which branch is taken: a guard on the rank's number, and a frame for each of two."""

    def function(x: Tensor) -> Tensor:
        return x.sin() * 2 if rank % 2 == 0 else x.cos() + 1

    return compile(function)(torch.arange(6.0))


def rank_is_asked(rank: int, compile: Any) -> Any:
    """By a call that Dynamo takes for a constant, without a guard."""

    def function(x: Tensor) -> Tensor:
        return x.sin() * 2 if dist.get_rank() % 2 == 0 else x.cos() + 1

    return compile(function)(torch.arange(6.0))


class _Rows(Dataset[Tensor]):
    def __init__(self, transform: Callable[[Tensor], Tensor]) -> None:
        self._transform = transform

    def __len__(self) -> int:
        return 8

    def __getitem__(self, number: int) -> Tensor:
        return self._transform(torch.arange(12.0) + number)


def data_loader_that_forks(rank: int, compile: Any) -> Any:
    """Workers that are forked when functions run compiled, and run one themselves."""

    def transform(x: Tensor) -> Tensor:
        return (x.sin() * 3 + 1).tanh()

    def step(x: Tensor) -> Tensor:
        return (x @ x.T).softmax(-1)

    prepare, run = compile(transform), compile(step)
    first = prepare(torch.arange(12.0))
    rows = DataLoader(_Rows(prepare), batch_size=4, num_workers=2, multiprocessing_context="fork")
    return [first, *(run(batch) for batch in rows)]


TOPICS: dict[str, Callable[[int, Any], Any]] = {
    topic.__name__: topic
    for topic in (ddp, fsdp, rank_decides, rank_is_asked, data_loader_that_forks)
}


def _said(topic: str, rank: int) -> dict[str, Any]:
    tensord.reset_stats()
    try:
        eager = TOPICS[topic](rank, lambda target: target)
        differs = difference(TOPICS[topic](rank, tensord.compile), eager)
    except Exception:
        differs = traceback.format_exc()
    return {"topic": topic, "differs": differs, "stats": tensord.stats()}


def main() -> None:
    rank, ranks, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=ranks,
        timeout=timedelta(seconds=120),
    )  # fmt: skip
    for topic in sys.argv[4:]:
        said = _said(topic, rank)
        print(json.dumps(said, default=str), flush=True)
        if said["differs"]:  # the others wait for what does not come
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
