# SPDX-License-Identifier: Apache-2.0
"""A few operators of each kind of kernel: compute-sanitizer makes each many times slower."""

from __future__ import annotations

import functools
from collections.abc import Callable

import op_check
import torch
import torch.nn.functional as F

# Of op_table: pointwise, reductions inner and outer, tiles, several outputs, gathers, scans.
_CASES = """gelu add where sum_first mean_last softmax softmax_first var_last transpose cat_last
argmax_last cumsum cumsum_around cummax_columns three pad repeat embedding layer_norm cross_entropy
max_pool_overlap odd_columns_sum odd_scaled""".split()


def _large() -> None:
    """Rows that take a whole block, reductions split over blocks, and both passes of training."""
    torch.manual_seed(0)
    x, w = torch.randn(96, 5000, requires_grad=True), torch.randn(5000, requires_grad=True)

    def function(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = F.layer_norm(x, (5000,), w)
        return y.softmax(-1).square().sum() + y.amax(0).sum() + F.dropout(y, 0.3).mean()

    compiled = torch.compile(function, backend="tensord")
    compiled(x, w).backward()
    assert torch.isfinite(x.grad).all() and torch.isfinite(w.grad).all()


def _scatter() -> None:
    weight = torch.randn(50, 40, requires_grad=True)
    index = torch.arange(3000) % 7
    compiled = torch.compile(lambda i, w: F.embedding(i, w).tanh().sum(), backend="tensord")
    compiled(index, weight).backward()
    expected = torch.autograd.grad(F.embedding(index, weight).tanh().sum(), weight)[0]
    torch.testing.assert_close(weight.grad, expected, rtol=1e-4, atol=1e-3)


def _groups() -> None:
    """Groups of a block that are at reductions of different size, over rows loaded ahead."""

    def function(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * x.sum(1, True) + w * (x * w).sum(1, True) + x.amax(1, True) * x.amin(1, True)
        return y, y.sum(0)

    x, w = torch.randn(8192, 1024), torch.randn(8192, 1024)
    expected = function(x.double(), w.double())
    for result, wanted in zip(
        torch.compile(function, backend="tensord")(x, w), expected, strict=True
    ):
        torch.testing.assert_close(
            result.double(), wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max())
        )


def _found() -> None:
    """Rows of one table that are found by one load after the other, by two ways."""

    def function(table: torch.Tensor, a: torch.Tensor, b: torch.Tensor, i: torch.Tensor) -> list:
        return [table[a[i]] * 2, table[b[i]] * 3]

    table, i = torch.randn(500, 512), torch.arange(4096) * 7 % 300
    a, b = torch.arange(300) * 11 % 500, torch.arange(300) * 13 % 500
    compiled = torch.compile(function, backend="tensord")
    torch.testing.assert_close(compiled(table, a, b, i), function(table, a, b, i), rtol=0, atol=0)


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Large shapes first, then operators."""
    found = [("large", _large), ("scatter", _scatter), ("groups", _groups), ("found", _found)]
    for case, how in op_check.RUNS:
        if case.name in _CASES and how == "result":
            found.append((case.name, functools.partial(op_check.run, case, how)))
    return found
