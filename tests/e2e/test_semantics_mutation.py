# SPDX-License-Identifier: Apache-2.0
"""Mutation of inputs and of their parts, of buffers, parameters and other state; as in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from both_ways import both_ways, compiled
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


# -- one input ------------------------------------------------------------------------------------


def part(x: Tensor) -> Tensor:
    x[1:3].mul_(2)
    return x.sum(0)


def turned(x: Tensor) -> Tensor:
    x.t().add_(torch.arange(4.0))
    return x * 2


def every_other(x: Tensor) -> Tensor:
    x.view(-1)[::2] = 0
    return x + 1


def diagonal(x: Tensor) -> Tensor:
    x.diagonal().copy_(torch.ones(4))
    return x.cumsum(0)


def unbound(x: Tensor) -> Tensor:
    first, second, *_ = x.unbind()
    first.add_(second)
    second.fill_(3)
    return first * second


def view_of_a_view(x: Tensor) -> Tensor:
    view = x[:, 1:].t()[1:]
    view += 1
    x.sub_(0.5)
    return view * 2  # sees both


def read_between_writes(x: Tensor) -> tuple[Tensor, Tensor]:
    before = x.clone()
    x.add_(1)
    middle = x * 3
    x.mul_(before)
    return middle, x.exp()


def broadcast(x: Tensor) -> Tensor:
    x.copy_(torch.arange(4))
    return x[0]


def masked(x: Tensor) -> Tensor:
    x.masked_fill_(x > 0, -1.0)
    x[torch.tensor([0, 2])] = torch.tensor([1.0, 2.0, 3.0, 4.0])
    return x.abs()


def data(x: Tensor) -> Tensor:
    x.data.mul_(2)
    x.detach().add_(1)
    return x.sin()


def strided(x: Tensor) -> Tensor:
    x.as_strided((2, 2), (5, 1), 1).zero_()
    return x.mean()


def metadata(x: Tensor) -> Tensor:
    x.t_().unsqueeze_(0)
    return x + 1


def rounded(x: Tensor) -> Tensor:
    x.copy_((x.double() * 3).to(torch.float16))  # the input keeps its dtype
    return x * 1


def nothing_else(x: Tensor) -> None:
    x.tanh_()


def swapped(x: Tensor) -> Tensor:
    kept = x[0].clone()
    x[0], x[1] = x[1].clone(), kept
    return x


@pytest.mark.parametrize("function", [
    part, turned, every_other, diagonal, unbound, view_of_a_view, read_between_writes, broadcast,
    masked, data, strided, metadata, rounded, nothing_else, swapped,
], ids=lambda f: f.__name__)  # fmt: skip
def test_an_input_that_changes(function: Any) -> None:
    both_ways(function, torch.randn(4, 4), fullgraph=function is not metadata)


def test_a_part_of_a_larger_tensor_changes_and_the_rest_does_not() -> None:
    whole = torch.randn(6, 6)
    expected = whole.clone()
    run = compiled(lambda x: x.mul_(2).add_(1).sum(), fullgraph=True)
    run(whole[1:4, 2:5])
    expected[1:4, 2:5] = expected[1:4, 2:5] * 2 + 1
    assert torch.equal(whole, expected)


def test_a_change_is_in_the_tensors_version() -> None:
    x = torch.randn(3)
    product = (w := torch.ones(3, requires_grad=True)) * x
    compiled(lambda x: x.add_(1), fullgraph=True)(x)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()
    assert w.grad is None


def test_changes_that_autograd_follows() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        y = x * w
        y[0].mul_(2)
        y[:, 1] = w.exp()
        z = y.t()
        z.add_(y.detach().t().clone())
        return y.sin() + z.t()

    both_ways(function, torch.randn(4, 4), torch.randn(4, requires_grad=True))


def test_a_parameter_that_changes_without_gradients() -> None:
    def function(w: Tensor, x: Tensor) -> Tensor:
        with torch.no_grad():
            w.mul_(0.5)
        return (w * x).sum()

    both_ways(function, torch.randn(4, requires_grad=True), torch.randn(4), calls=2)


# -- buffers and parameters -----------------------------------------------------------------------


class Cache(nn.Module):
    """A cache of keys as decoders have it, a counter, and a moving average in a view."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 8, 4))
        self.register_buffer("length", torch.zeros((), dtype=torch.long))
        self.register_buffer("average", torch.zeros(2, 4), persistent=False)
        self.projection = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        key = self.projection(x)
        with torch.no_grad():
            at = self.length + torch.arange(x.shape[1])
            self.keys.index_copy_(1, at, key)
            self.length += x.shape[1]
            self.average[0].lerp_(key.mean((0, 1)), 0.1)
        return (key @ self.keys.transpose(1, 2)).softmax(-1) + self.average.sum()


class Replaced(nn.Module):
    """A buffer that is assigned rather than changed, beside one that is seen under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))
        self.register_buffer("whole", torch.zeros(6))
        self.register_buffer("end", self.whole[3:])

    def forward(self, x: Tensor) -> Tensor:
        self.total = self.total + x
        self.end.add_(x)
        return self.whole.sum() * self.total


class Tied(nn.Module):
    """One weight in two places."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 4)
        self.head = nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.embedding(x).tanh())


@pytest.mark.parametrize(("make", "x"), [
    (Cache, torch.randn(2, 3, 4)), (Replaced, torch.randn(3)), (Tied, torch.tensor([1, 5, 5])),
], ids=["cache", "replaced", "tied"])  # fmt: skip
def test_state_of_a_module(make: Any, x: Tensor) -> None:
    torch.manual_seed(0)
    both_ways(make(), x, calls=2)


def test_a_global_and_a_closure_that_change() -> None:
    state = {"sum": torch.zeros(3)}
    kept: list[Tensor] = []

    def function(x: Tensor) -> Tensor:
        state["sum"].add_(x)
        kept.append(x * 2)
        return state["sum"] * kept[0]

    run = compiled(function, fullgraph=True)
    x = torch.tensor([1.0, 2.0, 3.0])
    run(x)
    assert torch.equal(state["sum"], x)
    assert torch.equal(run(x), (x + x) * (x * 2))
    assert [k.tolist() for k in kept] == [[2, 4, 6]] * 2
