# SPDX-License-Identifier: Apache-2.0
"""What random numbers cannot be drawn by is eager's error, of that call alone."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def compiled(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return torch.compile(function, backend="tensord", fullgraph=True)


@pytest.mark.parametrize("bad", [-0.25, 1.5, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_probabilities_of_bernoulli(bad: float, dtype: torch.dtype) -> None:
    run = compiled(torch.bernoulli)
    good = torch.rand(83, dtype=dtype)
    for place in (0, 31, 82):
        p = good.clone()
        p[place] = bad
        for function in (torch.bernoulli, run):
            with pytest.raises(RuntimeError, match=r"^Expected p_in >= 0 && p_in <= 1 to be true"):
                function(p)
        assert set(run(good).unique().tolist()) <= {0.0, 1.0}
    assert run(torch.tensor([0.0, 1.0], dtype=dtype)).tolist() == [0.0, 1.0]


def test_what_rounds_to_a_probability_is_one() -> None:
    def draw(a: Tensor, b: Tensor) -> Tensor:
        return torch.bernoulli(a + b)

    a = torch.full((64,), 0.99609375, dtype=torch.bfloat16)
    b = torch.full((64,), 0.005859375, dtype=torch.bfloat16)
    assert compiled(draw)(a, b).eq(1).all()


def test_backward_draws_again_what_is_checked() -> None:
    def draw(x: Tensor, p: Tensor) -> Tensor:
        return x * torch.bernoulli(p)

    x, p = torch.ones(1000, requires_grad=True), torch.rand(1000)
    y = compiled(draw)(x, p)
    y.sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, y.detach())


@pytest.mark.parametrize("bad", [-1.0, math.nan])
@pytest.mark.parametrize("has_mean", [True, False])
def test_deviations_of_normal(bad: float, has_mean: bool) -> None:
    def draw(std: Tensor) -> Tensor:
        return torch.normal(torch.zeros_like(std), std) if has_mean else torch.normal(0.0, std)

    run = compiled(draw)
    std = torch.rand(41)
    assert run(std).isfinite().all()
    assert run(torch.zeros(41)).eq(0).all()
    std[40] = bad
    for function in (draw, run):
        with pytest.raises(RuntimeError, match=r"^normal expects all elements of std >= 0\.0"):
            function(std)


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: torch.bernoulli(x, 1.5),
        lambda x: x.clone().uniform_(2.0, 1.0),
        lambda x: x.clone().exponential_(-1.0),
        lambda x: x.clone().geometric_(1.5),
        lambda x: x.clone().cauchy_(0.0, -1.0),
        lambda x: x.clone().log_normal_(0.0, -1.0),
        lambda x: x.clone().normal_(0.0, -1.0),
        lambda x: torch.normal(x, -1.0),
        lambda x: torch.nn.functional.rrelu(x, 0.5, 0.25, training=True),
    ],
    ids="bernoulli uniform exponential geometric cauchy log_normal normal_ normal rrelu".split(),
)
def test_numbers_that_eager_refuses(draw: Callable[[Tensor], Tensor]) -> None:
    x = torch.rand(7)
    with pytest.raises(RuntimeError) as eager:
        draw(x)
    with pytest.raises(RuntimeError) as ours:
        compiled(draw)(x)
    assert str(eager.value).splitlines()[0] in str(ours.value)


def test_nobody_asks_where_nothing_is_checked() -> None:
    run = torch.compile(torch.bernoulli, backend="tensord", options={"unchecked": True})
    assert run(torch.tensor([1.5, -1.0])).tolist() == [1.0, 0.0]
