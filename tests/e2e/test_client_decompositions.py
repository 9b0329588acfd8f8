# SPDX-License-Identifier: Apache-2.0
"""Operators that capture/decompositions.py takes apart: eager's numbers, and no library call."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

INDEX = torch.tensor([[0, 1, 3, 3], [2, 2, 0, 1], [4, 4, 4, 0]])


def _check(daemon, function: Callable[..., Tensor], *inputs: Tensor, gone: str) -> None:
    """Numbers and gradients; the forward graph has no operator `gone`."""
    run = torch.compile(function, backend="tensord")
    gradients = []
    for call in (run, function):
        leaves = [x.clone().requires_grad_(x.is_floating_point()) for x in inputs]
        y = call(*leaves)
        y.sum().backward()
        gradients.append([y.detach(), *(x.grad for x in leaves)])
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-5)
    assert gone not in {n.op for n in daemon.graph("forward").nodes}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean"])
def test_scatter_reduce(daemon, reduce, include_self):
    def function(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return torch.scatter_reduce(x, 0, index, source, reduce, include_self=include_self)

    inputs = torch.randn(5, 4), INDEX, torch.randn(3, 4)
    _check(daemon, function, *inputs, gone="aten::scatter_reduce")


@pytest.mark.parametrize("include_self", [True, False])
def test_index_reduce(daemon, include_self):
    def function(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return torch.index_reduce(x, 0, index, source, "mean", include_self=include_self)

    inputs = torch.randn(5, 4), torch.tensor([0, 2, 2]), torch.randn(3, 4)
    run = torch.compile(function, backend="tensord")
    torch.testing.assert_close(run(*inputs), function(*inputs))
    assert "aten::index_reduce" not in {n.op for n in daemon.graph("inference").nodes}


def test_index_reduce_of_too_few_indices(daemon):
    def function(x: Tensor, index: Tensor, source: Tensor) -> Tensor:
        return torch.index_reduce(x, 1, index, source, "mean")

    inputs = torch.randn(0, 5), torch.zeros(0, dtype=torch.int64), torch.randn(0, 10)
    for run in (function, torch.compile(function, backend="tensord")):
        with pytest.raises(RuntimeError, match=r"index_reduce_.*should be equal"):
            run(*inputs)


def test_masked_scatter(daemon):
    mask = torch.tensor([[True], [False], [True]])
    _check(
        daemon,
        lambda x, source: x.masked_scatter(mask, source),
        torch.randn(3, 4),
        torch.randn(9),
        gone="aten::masked_scatter",
    )


def test_masked_scatter_of_too_few_elements_raises(daemon):
    run = torch.compile(torch.masked_scatter, backend="tensord")
    with pytest.raises((RuntimeError, IndexError)):
        run(torch.zeros(5), torch.ones(5, dtype=torch.bool), torch.randn(3))


@pytest.mark.parametrize("accumulate", [True, False])
def test_put(daemon, accumulate):
    index = torch.tensor([[0, -1], [5, 7]])
    _check(
        daemon,
        lambda x, source: x.put(index, source, accumulate),
        torch.randn(3, 4),
        torch.randn(2, 2),
        gone="aten::put",
    )


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances(daemon, p):
    x, y = torch.randn(5, 4), torch.randn(7, 4)
    _check(daemon, lambda a, b: torch.cdist(a, b, p), x, y, gone="aten::_cdist_forward")
    if p > 0:
        _check(daemon, lambda a, b: torch.dist(a, b, p), x, y[:5], gone="aten::dist")


@pytest.mark.parametrize("p", [0.0, 1.0, 2.0, 3.5, float("inf")])
def test_distances_of_what_is_not_finite(daemon, p):
    x, y = torch.randn(4, 3), torch.randn(5, 3)
    x[1, 0] = x[2, 2] = float("nan")
    x[3, 1] = y[4, 0] = float("inf")
    y[0] = x[0]
    run = torch.compile(lambda a, b: torch.cdist(a, b, p), backend="tensord")
    torch.testing.assert_close(run(x, y), torch.cdist(x, y, p), equal_nan=True)
    assert "aten::_cdist_forward" not in {n.op for n in daemon.graph("inference").nodes}


def test_many_points_are_a_product(daemon):
    x, y = torch.randn(3, 30, 4), torch.randn(3, 40, 4)
    run = torch.compile(torch.cdist, backend="tensord")
    torch.testing.assert_close(run(x, y), torch.cdist(x, y))
    assert "aten::bmm" in {n.op for n in daemon.graph("inference").nodes}


@pytest.mark.parametrize("index", [torch.tensor(0), torch.tensor([0, 0])])
def test_take_of_a_number(daemon, index):
    run = torch.compile(lambda x, i: torch.take(x, i) * 2, backend="tensord", fullgraph=True)
    torch.testing.assert_close(run(torch.tensor(3.0), index), index.float() * 0 + 6)


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_unpooling_keeps_the_layout(daemon, memory_format):
    def function(x: Tensor) -> Tensor:
        y, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
        return torch.nn.functional.max_unpool2d(y, indices, 2)

    x = torch.randn(2, 3, 8, 6).to(memory_format=memory_format)
    mine, theirs = torch.compile(function, backend="tensord")(x), function(x)
    torch.testing.assert_close(mine, theirs, check_stride=True)


@pytest.mark.parametrize("name", ["rows", "columns", "expanded", "number"])
def test_a_number_in_a_tensor_is_filled_in(daemon, name):
    x = {
        "rows": torch.ones(5, 5),
        "columns": torch.ones(5, 5).t(),
        "expanded": torch.ones(5).expand(5, 5),
        "number": torch.ones(()),
    }[name]

    def function(x: Tensor, index: Tensor, value: Tensor) -> Tensor:
        return x.index_fill(-1, index, value)

    run = torch.compile(function, backend="tensord", fullgraph=True)
    index = torch.tensor([0, -1]) if x.dim() else torch.tensor([0])
    for value in (torch.tensor(3.5), torch.tensor(2), torch.tensor(2.5, dtype=torch.float64)):
        mine, theirs = run(x, index, value), function(x, index, value)
        torch.testing.assert_close(mine, theirs, check_stride=True)


def test_nothing_repeated_is_nothing() -> None:
    """Whatever size is said to come of it, which torch takes for what does."""
    x, repeats = torch.zeros(0, 4), torch.zeros(0, dtype=torch.int64)

    def function(x: Tensor, repeats: Tensor) -> Tensor:
        return torch.repeat_interleave(x, repeats, dim=0, output_size=6)

    run = torch.compile(function, backend="tensord", fullgraph=True)
    assert run(x, repeats).shape == function(x, repeats).shape == (0, 4)


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_gradients_of_soft_margins_keep_their_last_digits(tensord_daemon, reduction):
    """Far on the right side of the margin, by a loss scaled for half precision, and of targets
    beyond what their products with inputs can be."""
    x = torch.tensor([15.0, 18.0, 20.0, -3.0, 3e38])
    target = torch.tensor([1.0, 1.0, 1.0, -1.0, 3e38])

    def function(x: Tensor) -> Tensor:
        return torch.nn.functional.soft_margin_loss(x, target, reduction=reduction) * 65536.0

    found = []
    for run in (torch.compile(function, backend="tensord"), function):
        leaf = x.clone().requires_grad_()
        run(leaf).sum().backward()
        found.append(leaf.grad)
    torch.testing.assert_close(*found, rtol=1e-5, atol=0.0)


def test_a_product_of_vectors_does_not_overflow_before_its_factor(tensord_daemon):
    most = torch.finfo(torch.float64).max
    x = torch.ones(2, 2, dtype=torch.float64)
    a = torch.tensor([2.0, -3.0], dtype=torch.float64)
    b = torch.tensor([most, 1.0], dtype=torch.float64)

    def function(x: Tensor) -> Tensor:
        return torch.addr(x, a, b, beta=0.5, alpha=0.25)

    wanted = function(x)
    assert wanted.isfinite().all()
    assert torch.equal(torch.compile(function, backend="tensord")(x), wanted)
    whole = torch.addr(torch.ones(2, 2), a.float(), a.float(), alpha=0.25)
    run = torch.compile(torch.addr, backend="tensord")
    assert torch.equal(run(torch.ones(2, 2), a.float(), a.float(), alpha=0.25), whole)
