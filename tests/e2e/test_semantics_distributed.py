# SPDX-License-Identifier: Apache-2.0
"""DDP, FSDP2, functional collectives and DTensor with two processes over gloo; one compile serves
both."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import tensord
import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as collectives
import warm_python
from real_daemon import RealDaemon, binary
from torch import Tensor

HERE = Path(__file__).resolve().parent
SECONDS = 150.0

Ranks = dict[str, list[dict[str, Any]]]


@pytest.fixture(scope="module")
def ranks(shared_daemon: RealDaemon) -> Iterator[Ranks]:
    """What both processes said of each topic (two_ranks.py)."""
    environment = {name: v for name, v in os.environ.items() if not name.startswith("TENSORD_")}
    environment |= {"TENSORD_ADDRESS": shared_daemon.address, "TENSORD_STRICT": "1"}
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "said"
        python = warm_python.command(warm_python.CAPTURE)
        with said.open("w") as output:
            processes = [
                subprocess.Popen(
                    [*python, str(HERE / "two_ranks.py"), str(rank), folder],
                    env=environment, stdout=output, stderr=output,
                )
                for rank in range(2)
            ]  # fmt: skip
            for process in processes:
                try:
                    process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
        found: Ranks = {}
        for rank in range(2):
            for path in sorted(Path(folder).glob(f"*.{rank}")):
                found.setdefault(path.stem, []).append(json.loads(path.read_text()))
        found["said"] = [{"text": said.read_text()[-3000:]}]
        yield found


TOPICS = (
    "ddp",
    "fsdp",
    "functional_collectives",
    "collectives_beside_work",
    "training_through_collectives",
    "dtensor",
)


@pytest.mark.parametrize("topic", TOPICS)
def test_as_in_eager_and_compiled_once(ranks: Ranks, topic: str) -> None:
    both = ranks.get(topic, [])
    for one in both:
        assert not one["error"], one["error"]
    assert len(both) == 2, ranks["said"][0]["text"]
    stats = [one["stats"] for one in both]
    for one in stats:
        assert one["fallbacks"] == one["calls_in_eager"] == 0, one
    programs = [sum(one[n] for n in ("compiled", "joined", "hits")) for one in stats]
    assert programs[0] == programs[1] > 0
    assert sum(one["compiled"] for one in stats) <= programs[0], stats


def test_compiles_are_shared(ranks: Ranks) -> None:
    """Of the same graphs of two processes the daemon compiles one; where a rank is part of the
    graph (offsets of shards), two."""
    ours = [one["stats"] for topic in ("ddp", "fsdp") for one in ranks.get(topic, [])]
    assert sum(one["compiled"] for one in ours) * 2 == sum(
        one[name] for one in ours for name in ("compiled", "joined", "hits")
    )


@pytest.fixture
def alone(tensord_daemon: RealDaemon) -> Iterator[RealDaemon]:
    """A group of this process alone."""
    with tempfile.TemporaryDirectory() as folder:
        dist.init_process_group("gloo", init_method=f"file://{folder}/r", rank=0, world_size=1)
        yield tensord_daemon
        dist.destroy_process_group()


def _steps(daemon: RealDaemon) -> list[dict[str, Any]]:
    """The plan of the program that was used last."""

    def control(*arguments: str) -> Any:
        run = subprocess.run(
            [str(binary("tensorctl")), f"--address={daemon.address}", "--json", *arguments],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return json.loads(run.stdout)

    key = base64.b64decode(control("ls", "-n", "1")["programs"][0]["key"]).hex()
    steps: list[dict[str, Any]] = control("show", key)["artifact"]["steps"]
    return steps


COLLECTIVES: dict[str, Callable[[Tensor], Tensor]] = {
    "all_reduce": lambda x: collectives.all_reduce(x, "sum", dist.group.WORLD),
    "all_gather_into_tensor": lambda x: collectives.all_gather_tensor(x, 0, dist.group.WORLD),
    "reduce_scatter_tensor": lambda x: collectives.reduce_scatter_tensor(
        x, "sum", 0, dist.group.WORLD
    ),
    "all_to_all_single": lambda x: collectives.all_to_all_single(x, None, None, dist.group.WORLD),
}


@pytest.mark.parametrize("name", COLLECTIVES)
def test_collectives_are_steps_and_waited_for_before_they_are_read(
    alone: RealDaemon, name: str
) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        total = COLLECTIVES[name](x * 2)
        beside = x.sin().sort(0).values
        return beside, total + beside

    x = torch.randn(40, 3)
    mine = torch.compile(function, backend="tensord", fullgraph=True)(x)
    torch.testing.assert_close(mine, function(x))
    assert tensord.stats()["graphs"] == 1
    assert tensord.stats()["call_backs"] == 0
    steps = _steps(alone)
    calls = {step["call"]["op"]: i for i, step in enumerate(steps) if "call" in step}
    begun, waited = (calls[f"_c10d_functional::{n}"] for n in (name, "wait_tensor"))
    (result,) = steps[waited]["call"]["results"]
    readers = [i for i, s in enumerate(steps) if result in s.get("launch", {}).get("buffers", [])]
    assert begun < calls["aten::sort"] < waited < min(readers)
