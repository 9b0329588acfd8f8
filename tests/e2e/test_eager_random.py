# SPDX-License-Identifier: Apache-2.0
"""options={"eager_random": True}: a seed gives eager's numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def _draws(x: Tensor) -> list[Tensor]:
    """One of each kind, between operators that are compiled."""
    y = x.sin()
    return [
        torch.rand_like(y) * 2,
        torch.randn(5) + y.sum(),
        torch.bernoulli(y.abs()) - 1,
        torch.empty(7).uniform_(-1, 2).exp(),
        torch.empty(7).exponential_(0.5),
        torch.randint(-3, 9, (6,)) * 3,
        torch.normal(y, y.abs() + 1),
        torch.randperm(9) + 1,
        F.dropout(y, 0.3) * 2,
    ]


def _same(run: Callable[..., Any], function: Callable[..., Any], x: Tensor) -> None:
    for seed in range(3):
        results = []
        for call in (run, function):
            torch.manual_seed(seed)
            results.append(call(x))
        torch.testing.assert_close(*results)


def test_every_kind() -> None:
    run = torch.compile(_draws, backend="tensord", options={"eager_random": True})
    _same(run, _draws, torch.rand(4, 3))


def test_without_it_the_numbers_are_others() -> None:
    run = torch.compile(_draws, backend="tensord")
    with pytest.raises(AssertionError):
        _same(run, _draws, torch.rand(4, 3))


def test_the_environment_says_so_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_EAGER_RANDOM", "1")
    _same(torch.compile(_draws, backend="tensord"), _draws, torch.rand(4, 3))


def test_training_with_dropout() -> None:
    def loss(x: Tensor, w: Tensor) -> Tensor:
        return F.dropout(torch.relu(x @ w), 0.5).square().sum()

    run = torch.compile(loss, backend="tensord", options={"eager_random": True})
    x, w = torch.randn(8, 16), torch.randn(16, 4)
    gradients = []
    for call in (run, loss):
        torch.manual_seed(5)
        leaf = w.clone().requires_grad_()
        call(x, leaf).backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients)
