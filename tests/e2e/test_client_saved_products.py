# SPDX-License-Identifier: Apache-2.0
"""Products with an odd number of columns are saved by padded rows."""

from __future__ import annotations

import pytest
import tensord
import torch
import torch.nn.functional as F
from tensord.capture import saved_products
from torch import nn

ROWS, WIDTH, ODD, PADDED = 48, 32, 202, 256


@pytest.fixture(autouse=True)
def _small_and_on_cpus_too(monkeypatch):
    monkeypatch.setattr(saved_products, "DEVICES", ("cpu",))
    monkeypatch.setattr(saved_products, "LEAST_BYTES", 1 << 10)
    monkeypatch.setattr(saved_products, "LEAST_COLUMNS", 64)
    monkeypatch.setattr(saved_products, "LEAST_ROWS", 32)


class Head(nn.Module):
    """The loss of a language model, of logits in so many dimensions; these too, where `gives`."""

    def __init__(self, words: int = ODD, bias: bool = True, gives: bool = False) -> None:
        super().__init__()
        self.head = nn.Linear(WIDTH, words, bias=bias)
        self.gives = gives

    def forward(self, x: torch.Tensor, labels: torch.Tensor):
        logits = self.head(x)
        rows = logits.view(-1, logits.shape[-1]).float()
        loss = F.cross_entropy(rows, labels.view(-1))
        return (loss, logits) if self.gives else loss


def gradients(run, model: Head, x: torch.Tensor, labels: torch.Tensor) -> list[torch.Tensor]:
    with torch.autocast("cpu", torch.bfloat16):
        result = run(x, labels)
    loss = result[0] if isinstance(result, tuple) else result
    return [loss, *torch.autograd.grad(loss, [x, *model.parameters()])]


def trained(model: Head, shape: tuple[int, ...] = (4, 12), **options) -> int:
    """Compares a step with eager's; the number of products that were padded."""
    torch.manual_seed(0)
    x = torch.randn(*shape, WIDTH, requires_grad=True)
    labels = torch.randint(0, 64, shape)
    wanted = gradients(model, model, x, labels)
    tensord.reset_stats()
    run = torch.compile(model, backend="tensord", fullgraph=True, **options)
    torch.testing.assert_close(gradients(run, model, x, labels), wanted, rtol=2e-2, atol=2e-3)
    assert tensord.stats()["fallbacks"] == 0
    return tensord.stats()["saved_products_padded"]


def operands() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    sizes = ((ROWS, WIDTH), (WIDTH, ODD))
    x, w = (torch.randn(size, dtype=torch.bfloat16, requires_grad=True) for size in sizes)
    return x, w


def compared(function) -> int:
    """Compares gradients of a function of a product's operands with eager's; the number of products
    that were padded."""
    x, w = operands()
    wanted = torch.autograd.grad(function(x, w), [x, w])
    tensord.reset_stats()
    got = torch.autograd.grad(torch.compile(function, backend="tensord")(x, w), [x, w])
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b, rtol=5e-2, atol=2e-2 * b.abs().max().item())
    assert tensord.stats()["fallbacks"] == 0
    return tensord.stats()["saved_products_padded"]


def saved_rows(daemon) -> set[tuple[int, ...]]:
    inputs = daemon.graph("backward").inputs
    return {tuple(size.constant for size in given.tensor.sizes) for given in inputs}


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(ROWS,), (4, 12)])
def test_backward_is_given_padded_rows(daemon, bias, shape):
    assert trained(Head(bias=bias), shape) == 1
    assert (ROWS, PADDED) in saved_rows(daemon)
    assert not {(ROWS, ODD), (*shape, ODD)} & saved_rows(daemon)
    forward = daemon.graph("forward")
    assert [node.op for node in forward.nodes].count("tensord::padded_rows") == 1


def test_rows_that_are_aligned_are_left(daemon):
    assert trained(Head(words=ODD + 6)) == 0
    assert (ROWS, ODD + 6) in saved_rows(daemon)


def test_what_is_given_out_is_left(daemon):
    assert trained(Head(gives=True)) == 0


def test_sizes_that_are_not_known_are_left(daemon):
    assert trained(Head(), dynamic=True) == 0


def test_small_products_and_wide_numbers_are_left(daemon, monkeypatch):
    model = Head()
    x, labels = torch.randn(ROWS, WIDTH, requires_grad=True), torch.zeros(ROWS, dtype=torch.long)
    tensord.reset_stats()
    torch.compile(model, backend="tensord", fullgraph=True)(x, labels).backward()
    assert tensord.stats()["saved_products_padded"] == 0
    monkeypatch.setattr(saved_products, "LEAST_BYTES", 2 * ROWS * ODD + 1)
    assert trained(model) == 0


def test_products_that_backward_multiplies(daemon):
    """Rather than reads by their elements alone: both of them."""

    def function(x, w):
        y = x @ w
        return (y.t() @ y).float().square().sum()

    assert compared(function) == 2


def test_backward_that_takes_it_by_its_strides(daemon):
    """As told by the graph, where it has none to give."""

    def function(x, w):
        y = x @ w
        return y.as_strided((ODD, ROWS), (1, ODD)).sin().sum()

    assert compared(function) == 0
    assert (ROWS, ODD) in saved_rows(daemon)


def test_rows_of_another_length_are_left(daemon):
    def function(x, w):
        return (x @ w).view(-1, ODD, 2).transpose(1, 2).sin().sum()

    assert compared(function) == 0


def test_a_result_of_backward_keeps_eagers_strides(daemon):
    class Keep(torch.autograd.Function):
        @staticmethod
        def forward(ctx, y, z):
            ctx.save_for_backward(y)
            return y.sum() + z.sum()

        @staticmethod
        def backward(ctx, g):
            (y,) = ctx.saved_tensors
            return y * g, y

    z = torch.randn(ROWS, ODD, dtype=torch.bfloat16, requires_grad=True)

    def function(x, w):
        return Keep.apply(x @ w, z)

    compared(function)
    z.grad = None
    x, w = operands()
    torch.compile(function, backend="tensord")(x, w).backward()
    assert z.grad.stride() == (ODD, 1)


def test_hooks_of_saved_tensors_see_rows_that_come_back(daemon):
    seen = []

    def pack(t):
        seen.append(tuple(t.shape))
        return t.clone()

    def function(x, w):
        return (x @ w).float().log_softmax(-1)[:, 3].sum()

    x, w = operands()
    wanted = torch.autograd.grad(function(x, w), [x, w])
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        result = torch.compile(function, backend="tensord", fullgraph=True)(x, w)
    for _ in range(2):
        got = torch.autograd.grad(result, [x, w], retain_graph=True)
        torch.testing.assert_close(got, wanted, rtol=5e-2, atol=5e-2)
    assert (ROWS, PADDED) in seen


def test_infinite_rows_stay_alone(daemon):
    def function(x, w):
        return (x @ w).float().sigmoid().sum()

    x, w = operands()
    with torch.no_grad():
        x[5] = torch.inf
    wanted = torch.autograd.grad(function(x, w), [x, w])
    got = torch.autograd.grad(torch.compile(function, backend="tensord")(x, w), [x, w])
    torch.testing.assert_close(got, wanted, rtol=5e-2, atol=5e-2, equal_nan=True)


def test_the_operator_runs_in_eager():
    x = torch.randn(3, 5)
    longer = torch.ops.tensord.padded_rows(x, 8)
    assert longer.shape == (3, 8)
    torch.testing.assert_close(longer[:, :5], x)
