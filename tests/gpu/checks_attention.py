# SPDX-License-Identifier: Apache-2.0
"""Attention that eager computes in float32, storing all scores, by torch's fused kernels."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import torch.nn.functional as F
from peak import peak_bytes
from torch import Tensor

BATCH, HEADS, TIME, WIDTH = 4, 8, 257, 64  # rows of masks that no kernel takes without padding
Function = Callable[..., Tensor]


def _seen() -> Tensor:
    torch.manual_seed(1)
    return (torch.rand(BATCH, 1, TIME, TIME) > 0.2) | torch.eye(TIME, dtype=torch.bool)


def _masked(seen: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def _causal(seen: Tensor, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def _biased(seen: Tensor, q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Tensor:
    """A bias by distance, in rows of heads, that two layers share."""
    places = torch.arange(TIME, device=table.device)
    bias = F.embedding((places[:, None] - places).abs(), table).permute(2, 0, 1)[None]
    mask = torch.where(seen, bias, -3e38)
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return y + F.scaled_dot_product_attention(q * 2, k, v, attn_mask=mask)


def _step(function: Function, inputs: list[Tensor]) -> tuple[list[Tensor], int]:
    """Result and gradients, and the bytes that it takes; 0 on a CPU."""
    leaves = [x.clone().requires_grad_() for x in inputs]
    results = []

    def run() -> None:
        y = function(*leaves)
        (y.float() * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
        results.append(y.detach())

    peak = peak_bytes(run)
    return [*results, *(x.grad for x in leaves if x.grad is not None)], peak


def _check(attend: Function, heads: int, dtype: torch.dtype, counts: dict[str, int]) -> None:
    import tensord

    torch.manual_seed(0)
    sizes = [(BATCH, HEADS, TIME, WIDTH), *[(BATCH, heads, TIME, WIDTH)] * 2]
    sizes += [(TIME, HEADS)] if attend is _biased else []
    inputs = [torch.randn(size, dtype=dtype) for size in sizes]
    function = functools.partial(attend, _seen())
    run = torch.compile(function, backend="tensord", fullgraph=True)
    tensord.reset_stats()
    _step(run, inputs)
    stats = tensord.stats()
    (mine, peak), (theirs, eagers) = _step(run, inputs), _step(function, inputs)
    for a, b in zip(mine, theirs, strict=True):
        error = (a.float() - b.float()).norm() / b.float().norm()
        # The table's gradient is a sum of thousands, which eager rounds to 16 bits on its way.
        assert error < (1e-5 if dtype == torch.float32 else 3e-2), error
    if torch.get_default_device().type == "cuda":
        assert {name: stats[name] for name in counts} == counts
        assert peak < eagers, (peak, eagers)


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Each in float32 and in half precision, where other kernels serve."""
    one = {"masks_packed": 0, "heads_shared": 1}
    cases = {
        "a head of keys for all queries, masked": (_masked, 1, one),
        "a head of keys for all queries, causal": (_causal, 1, one),
        "a permuted bias": (_biased, HEADS, {"masks_packed": 2, "heads_shared": 0}),
        "both": (_biased, 1, {"masks_packed": 2, "heads_shared": 2}),
    }
    return [
        (f"{name} ({dtype})", functools.partial(_check, attend, heads, dtype, counts))
        for name, (attend, heads, counts) in cases.items()
        for dtype in (torch.float32, torch.bfloat16)
    ]
