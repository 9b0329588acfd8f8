# SPDX-License-Identifier: Apache-2.0
"""A head of keys and values that all heads of queries share goes in as fused kernels take it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from attention_passes import B, D, H, Passes, T
from tensord.passes.captured import dynamo
from torch import Tensor


def _run(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    mask: Tensor | None = None,
    dynamic: bool = False,
    after: Callable[[Tensor], Tensor] = torch.sin,
    **more: Any,
) -> Passes:
    """Compares results and gradients with eager. dynamic: in how many positions there are."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return after(F.scaled_dot_product_attention(q, k, v, attn_mask=mask, **more))

    torch._dynamo.reset()
    shared = Passes()
    compiled = torch.compile(function, backend=shared, fullgraph=True, dynamic=None)
    results = []
    for call in (compiled, function):
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        if dynamic:
            for x in leaves:
                torch._dynamo.mark_dynamic(x, 2)
        call(*leaves).square().sum().backward()
        results.append([call(*leaves).detach(), *(x.grad for x in leaves)])
    tolerance = 1e-4 if q.dtype == torch.float32 else 6e-2
    torch.testing.assert_close(*results, rtol=tolerance, atol=tolerance)
    return shared


def _inputs(batch: int = B, heads: int = 1, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    q = torch.randn(B, H, T, D, dtype=dtype)
    return [q, *(torch.randn(batch, heads, T, D, dtype=dtype) for _ in range(2))]


def test_half_precision_takes_grouped_heads() -> None:
    shared = _run(*_inputs(dtype=torch.bfloat16), is_causal=True)
    assert shared.counts["shared"] == 1
    assert shared.calls()[0].kwargs["enable_gqa"] is True


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("what", ["mask", "float32", "batch", "both"])
def test_others_get_a_copy_for_each_head(what: str, dynamic: bool) -> None:
    dtype = torch.bfloat16 if what == "mask" else torch.float32
    inputs = _inputs(1 if what in ("batch", "both") else B, H if what == "batch" else 1, dtype)
    mask = torch.randn(H, 1, 1, dtype=dtype) if what == "mask" else None
    shared = _run(*inputs, mask, dynamic)
    assert shared.counts["shared"] == 1
    for name in ("key", "value"):
        wide = dynamo.value_of(dynamo.argument(shared.calls()[0], name))
        assert [int(size) for size in wide.shape] == [B, H, T, D]
        assert wide.is_contiguous()


def test_autocast_is_half_precision() -> None:
    before = torch.get_autocast_dtype("cuda")
    torch.set_autocast_dtype("cuda", torch.bfloat16)
    torch.set_autocast_enabled("cuda", True)
    try:
        shared = _run(*_inputs())
    finally:
        torch.set_autocast_enabled("cuda", False)
        torch.set_autocast_dtype("cuda", before)
    assert shared.calls()[0].kwargs["enable_gqa"] is True


def test_who_sees_how_the_result_lies_gets_rows() -> None:
    """Fused kernels have heads within positions: a view of all rows of a head would fail."""
    shared = _run(*_inputs(), after=lambda y: y.view(B, H * T, D))
    assert [user.target for user in shared.calls()[0].users] == ["contiguous"]


LEFT_ALONE: dict[str, Callable[[], dict[str, Any]]] = {
    "a head each": lambda: dict(zip("qkv", _inputs(heads=H), strict=True)),
    "grouped already": lambda: dict(zip("qkv", _inputs(heads=2), strict=True), enable_gqa=True),
    "queries that are shared": lambda: dict(
        q=torch.randn(B, 1, T, D), k=torch.randn(B, H, T, D), v=torch.randn(B, H, T, D)
    ),
    "keys and values unlike": lambda: dict(
        q=torch.randn(B, H, T, D), k=torch.randn(B, 1, T, D), v=torch.randn(B, H, T, D)
    ),
    "three dimensions": lambda: dict(
        q=torch.randn(H, T, D), k=torch.randn(1, T, D), v=torch.randn(1, T, D)
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    assert _run(**LEFT_ALONE[name]()).counts["shared"] == 0
