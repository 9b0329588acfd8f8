# SPDX-License-Identifier: Apache-2.0
"""Gradients of what is computed of an argument before it is changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")


@torch.library.custom_op("tensord_changed::double_", mutates_args={"x"})
def _double_(x: Tensor) -> None:
    x.mul_(2.0)


def _without_gradient(x: Tensor) -> None:
    with torch.no_grad():
        x.mul_(2.0)


@pytest.mark.parametrize(
    "change", [lambda x: x.mul_(2.0), _without_gradient, _double_], ids=["method", "data", "custom"]
)
def test_backward_has_the_older_value(change: Callable[[Tensor], object]) -> None:
    def function(weight: Tensor, buffer: Tensor) -> Tensor:
        before = buffer.clone()
        halves = buffer.view(2, 3).exp().split(1)
        change(buffer)
        after = buffer.clone()
        return (weight * before * (weight * after).sin()).sum() + (weight[:3] * halves[1]).sum()

    run = torch.compile(function, backend="tensord", fullgraph=True)
    weight, buffer = torch.rand(6, requires_grad=True), torch.rand(6)
    theirs, expected = weight.detach().clone().requires_grad_(), buffer.clone()
    for _ in range(3):
        mine, loss = run(weight, buffer), function(theirs, expected)
        torch.testing.assert_close(mine, loss)
        mine.backward()
        loss.backward()
        torch.testing.assert_close(weight.grad, theirs.grad)
        torch.testing.assert_close(buffer, expected)


def test_statistics_that_training_updates_keep_nothing() -> None:
    norm, x = torch.nn.BatchNorm1d(5), torch.rand(8, 5)
    run = torch.compile(lambda x: norm(x).relu(), backend="tensord", fullgraph=True)
    saved: list[torch.Size] = []

    def save(tensor: Tensor) -> Tensor:
        saved.append(tensor.shape)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(save, lambda tensor: tensor):
        run(x)
    assert saved.count(x.shape) == 1, saved
