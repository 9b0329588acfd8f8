# SPDX-License-Identifier: Apache-2.0
"""Masks of attention go in with their rows in one piece, as fused kernels want them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_passes import B, D, H, Passes, T
from tensord.passes.captured import dynamo
from torch import Tensor


def _run(function: Callable[..., Any], *inputs: Tensor, dynamic: bool = False) -> Passes:
    torch._dynamo.reset()
    packed = Passes()
    compiled = torch.compile(function, backend=packed, fullgraph=True, dynamic=dynamic)
    torch.testing.assert_close(compiled(*inputs), function(*inputs))
    return packed


def _masks(passes: Passes) -> list[Tensor]:
    """What its calls of attention are given."""
    return [dynamo.value_of(dynamo.argument(call, "attn_mask")) for call in passes.calls()]


def _attend(x: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(x, x + 1, x - 1, attn_mask=mask)


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_permuted_bias_is_copied_for_each_reader(dynamic: bool) -> None:
    """As T5's, an embedding of distances, which all layers share."""

    def function(x: Tensor, table: Tensor, seen: Tensor) -> Tensor:
        distances = torch.arange(x.shape[2])[None, :] - torch.arange(x.shape[2])[:, None]
        bias = F.embedding(distances.abs(), table).permute(2, 0, 1)[None]
        mask = torch.where(seen, bias, -1e30)
        return _attend(_attend(x, mask), mask)

    seen = torch.rand(B, 1, T, T) > 0.3
    seen |= torch.eye(T, dtype=torch.bool)
    packed = _run(function, torch.randn(B, H, T, D), torch.randn(T, H), seen, dynamic=dynamic)
    assert packed.counts["layouts"] == 2
    assert [mask.stride(-1) for mask in _masks(packed)] == [1, 1]
    assert _masks(packed)[0].shape == (B, H, T, T)


def test_what_is_repeated_is_copied_once() -> None:
    mask = torch.randn(1, 1, T, T).mT.expand(B, H, T, T)
    packed = _run(_attend, torch.randn(B, H, T, D), mask)
    assert packed.counts["layouts"] == 1
    assert _masks(packed)[0].stride() == (0, 0, T, 1)


LEFT_ALONE = {
    "rows": lambda: torch.randn(B, H, T, T),
    "of a wider one": lambda: torch.randn(B, H, T, 2 * T)[..., :T],
    "no batch": lambda: torch.randn(T, T).mT.expand(0, H, T, T),
    "one number a row": lambda: torch.randn(B, H, T, 1),
    "one number a row, repeated": lambda: torch.randn(B, H, T, 1).expand(B, H, T, T),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    mask = LEFT_ALONE[name]()
    batch = mask.shape[0]
    assert _run(_attend, torch.randn(batch, H, T, D), mask).counts["layouts"] == 0


@pytest.mark.parametrize("what", ["the mask", "what it is a view of"])
def test_a_mask_that_changes_between_two_readers(what: str) -> None:
    def function(x: Tensor, columns: Tensor) -> Tensor:
        base = columns.clone()
        mask = base.mT
        y = _attend(x, mask)
        (mask if what == "the mask" else base).mul_(2)
        return _attend(y, mask)

    assert _run(function, torch.randn(B, H, T, D), torch.randn(B, H, T, T)).counts["layouts"] == 2


def test_a_mask_whose_gradient_begins_at_the_second_reader() -> None:
    def function(x: Tensor, columns: Tensor) -> Tensor:
        mask = columns.mT
        with torch.no_grad():
            y = _attend(x, mask)
        return _attend(x + y, mask)

    x, columns = torch.randn(B, H, T, D), torch.randn(B, H, T, T)
    torch._dynamo.reset()
    gradients = []
    for call in (torch.compile(function, backend=Passes(), fullgraph=True), function):
        leaf = columns.clone().requires_grad_()
        call(x, leaf).square().sum().backward()
        gradients.append(leaf.grad)
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-3)


def test_who_sees_how_the_result_lies_gets_rows() -> None:
    """Of a kernel that stores scores; fused ones have heads within positions."""

    def function(x: Tensor, mask: Tensor) -> Tensor:
        return _attend(x, mask).view(B, H * T, D)

    mask = torch.randn(B, H, T, T).mT.requires_grad_()  # the fused kernel of CPUs takes none
    packed = _run(function, torch.randn(B, H, T, D), mask)
    (call,) = packed.calls()
    assert [user.target for user in call.users] == ["contiguous"]
