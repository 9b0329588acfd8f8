# SPDX-License-Identifier: Apache-2.0
"""Batch norms in training whose results the partitioner may have computed again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from partitioned_graphs import Graphs
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("nothing_compiled")

aten = torch.ops.aten
C = 8

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "silu": F.silu,
    "silu in place": lambda x: F.silu(x, inplace=True),
    "hardswish": F.hardswish,
    "gelu": F.gelu,
    "leaky_relu": F.leaky_relu,
    "mish": F.mish,
    "relu6": F.relu6,
    "elu": F.elu,
    "gated": lambda x: F.silu(x) * F.silu(x).mean((2, 3), keepdim=True).sigmoid(),
}


class Block(nn.Module):
    """A convolution, its norm and activation, and what reads that."""

    def __init__(self, activation: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, C, 3, bias=False)
        self.norm = nn.BatchNorm2d(C)
        self.activation = activation
        self.second = nn.Conv2d(C, 4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.activation(self.norm(self.first(x))))


def _step(model: nn.Module, run: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """The result, all gradients and all buffers."""
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    out = run(torch.randn(4, 3, 8, 7))
    out.square().sum().backward()
    gradients = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    return [out.detach(), *gradients, *(b.clone() for b in model.buffers())]


@pytest.fixture
def model(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    return Block(ACTIVATIONS[request.param])


def _equal(ours: list[Tensor], eager: list[Tensor]) -> None:
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("model", ACTIVATIONS, indirect=True)
def test_backward_reads_two_images(model: nn.Module) -> None:
    """What the norm reads and what the next convolution reads, but nothing in between."""
    graphs = Graphs()
    state = {name: value.clone() for name, value in model.state_dict().items()}
    ours = _step(model, torch.compile(model, backend=graphs, dynamic=False))
    model.load_state_dict(state)
    _equal(ours, _step(model, model))
    images = [n for n in graphs.backward_reads() if n.meta["val"].shape == (4, C, 6, 5)]
    assert len(images) == 2
    convolution, read = images
    assert convolution.name.startswith("convolution")
    readers = {n.target for n in read.users}
    assert aten.convolution_backward.default in readers


@pytest.mark.parametrize("model", ["silu in place", "hardswish", "gated"], indirect=True)
def test_compiled(model: nn.Module, tensord_daemon: object) -> None:
    state = {name: value.clone() for name, value in model.state_dict().items()}
    ours = _step(model, torch.compile(model, backend="tensord", dynamic=False))
    model.load_state_dict(state)
    _equal(ours, _step(model, model))
