# SPDX-License-Identifier: Apache-2.0
"""Embedding bags in types of which torch's fake implementation is wrong (embedding_bags.py)."""

from __future__ import annotations

import pytest
import tensord
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

pytestmark = pytest.mark.usefixtures("here")


def gradients(run: object, weight: Tensor, **given: object) -> tuple[Tensor, ...]:
    leaf = weight.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    indices = torch.tensor([3, 1, 1, 7, 0, 2])
    result = run(indices, leaf, torch.tensor([0, 2, 5]), **given)  # type: ignore[operator]
    (result * torch.arange(1.0, 4.0, dtype=weight.dtype)[:, None]).sum().backward()
    assert leaf.grad is not None
    return result.detach(), leaf.grad


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
@pytest.mark.parametrize("transposed", [False, True])
def test_training(dtype: torch.dtype, mode: str, padding: int | None, transposed: bool) -> None:
    weight = torch.randn(10, 5, dtype=dtype)
    if transposed:
        weight = weight.t().contiguous().t()
    tensord.reset_stats()
    run = torch.compile(embedding_bag, backend="tensord", fullgraph=True)
    wanted = gradients(embedding_bag, weight, mode=mode, padding_idx=padding)
    for ours, eager in zip(
        gradients(run, weight, mode=mode, padding_idx=padding), wanted, strict=True
    ):
        torch.testing.assert_close(ours, eager)
    assert tensord.stats()["call_backs"] == 0


@pytest.mark.parametrize("every", [1, 2])
def test_factors_and_sizes_that_differ(every: int) -> None:
    def bags(weight: Tensor, indices: Tensor, factors: Tensor) -> Tensor:
        offsets = torch.arange(0, indices.shape[0], 2)
        return embedding_bag(indices, weight, offsets, mode="sum", per_sample_weights=factors)

    run = torch.compile(bags, backend="tensord", dynamic=True)
    for count in (4, 9):
        weight = torch.randn(10, 5, dtype=torch.bfloat16, requires_grad=True)
        factors = torch.randn(every * count, dtype=torch.bfloat16)[::every].requires_grad_()
        indices = torch.randint(0, 10, (count,))
        leaves = (weight, factors)
        wanted = torch.autograd.grad(bags(weight, indices, factors).float().sum(), leaves)
        ours = torch.autograd.grad(run(weight, indices, factors).float().sum(), leaves)
        torch.testing.assert_close(ours, wanted)


@pytest.mark.parametrize("training", [False, True])
def test_who_reads_the_second_result_gets_eagers(training: bool) -> None:
    def bags(weight: Tensor, indices: Tensor, offsets: Tensor) -> tuple[Tensor, ...]:
        result, second, sizes, _ = torch.embedding_bag(weight, indices, offsets)
        return result.sin(), second + 1, sizes + 1

    weight = torch.randn(10, 5, dtype=torch.bfloat16, requires_grad=training)
    given = torch.tensor([3, 1, 1, 7]), torch.tensor([0, 2])
    wanted = bags(weight, *given)
    ours = torch.compile(bags, backend="tensord")(weight, *given)
    assert wanted[1].shape == (0,)
    torch.testing.assert_close(ours, wanted)
    if training:
        gradients = [torch.autograd.grad(r[0].float().sum(), weight)[0] for r in (ours, wanted)]
        torch.testing.assert_close(*gradients)
