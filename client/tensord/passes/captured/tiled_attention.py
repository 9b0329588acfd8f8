# SPDX-License-Identifier: Apache-2.0
"""FlexAttention of which no scores are in memory (attention_operators.py).

Backward computes them again. It is for keys and values of 16 bits and of moderate width, on GPUs
whose warpgroups multiply matrices, and for block masks of whole tiles; other calls, and those whose
functions read what has a gradient, are plain operators (flex_attention.py).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from ... import attention_operators as operators
from ...wire import rpc
from .flex_attention_functions import autocast_to, modified, order_of

CAPABILITY = (9, 0)
# Columns of keys and values, and what rows are copied by, in elements.
MOST_COLUMNS, COLUMNS_AT_ONCE = 128, 8
TILE = 64  # queries, or keys


@dataclasses.dataclass(frozen=True)
class Blocks:
    """A block mask's lists: of keys by queries, and of queries by keys; queries and keys of a
    block."""

    of_keys: Sequence[Tensor]
    of_queries: Sequence[Tensor]
    sizes: Sequence[int]


def is_lowered() -> bool:
    """Whether the daemon makes kernels of it; one of before does not."""
    return rpc.client().lowers("tensord::attention")


def is_tiled(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    types: Sequence[torch.dtype],
    sizes: Sequence[Any],
    captured: Sequence[Any],
) -> bool:
    """Whether it can be, of what the operator is given. types: in which it computes; sizes: of the
    mask's blocks."""
    if not query.is_cuda or torch.cuda.get_device_capability(query.device) != CAPABILITY:
        return False
    # Scores of few queries are few; blocks of them would leave a GPU to few of its processors.
    if isinstance(query.shape[2], int) and query.shape[2] < TILE:
        return False
    widths = (query.shape[3], value.shape[3])
    if set(types) not in ({torch.float16}, {torch.bfloat16}):
        return False
    if any(isinstance(x, Tensor) and x.requires_grad for x in captured):
        return False
    fits = all(isinstance(w, int) and 0 < w <= MOST_COLUMNS for w in widths)
    fits = fits and all(w % COLUMNS_AT_ONCE == 0 for w in widths)
    return fits and all(isinstance(size, int) and size % TILE == 0 for size in sizes)


def are_lists_of(query: Tensor, lists: Sequence[Tensor]) -> bool:
    """Whether each batch and head has a block mask's lists, or all have the same."""
    sizes = [("1", str(size)) for size in query.shape[:2]]
    pairs = list(zip(lists[::2], lists[1::2], strict=True))
    return all(
        counts.dtype == numbers.dtype == torch.int32
        and str(counts.shape) == str(numbers.shape[:3])
        and all(str(n) in known for n, known in zip(numbers.shape, sizes, strict=False))
        for counts, numbers in pairs
    )


def tiled_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Callable[..., Tensor],
    mask: Callable[..., Tensor] | None,
    scale: float,
    score_arguments: Sequence[Any],
    mask_arguments: Sequence[Any],
    autocast: torch.dtype | None,
    of_keys: Sequence[Tensor],
    of_queries: Sequence[Tensor],
    sizes: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    """flex_attention.plain_attention, with the lists of `mask`; none where there is no mask."""
    if autocast is not None:
        query, key, value = (autocast_to(x, autocast) for x in (query, key, value))
    batch = query.shape[0]
    key, value = (x.expand(batch, *x.shape[1:]) for x in (key, value))

    def scores(products: Tensor) -> tuple[Tensor, Tensor]:
        scaled = products * scale
        unmasked = modified(scaled, score, None, score_arguments, ())
        if unmasked.dtype != torch.float32:
            raise TypeError("a function of scores gives another type")
        if mask is None:
            return unmasked, unmasked
        return modified(scaled, score, mask, score_arguments, mask_arguments), unmasked

    blocks = Blocks(of_keys, of_queries, sizes)
    with torch.autocast(query.device.type, enabled=False):
        out, sums, largest = _Tiled.apply(query, key, value, scores, blocks)
        return out, sums / math.log(2), largest / math.log(2)


class _Tiled(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, scores: Any, blocks: Blocks
    ) -> tuple[Tensor, Tensor, Tensor]:
        masked, unmasked = scores(operators.products(query, key, 0))
        out, sums, largest = operators.attention(
            masked, unmasked, value, blocks.of_keys, blocks.sizes, order_of(query)
        )
        ctx.save_for_backward(query, key, value, out, sums)
        ctx.scores, ctx.blocks = scores, blocks
        ctx.mark_non_differentiable(largest)
        ctx.set_materialize_grads(False)
        return out, sums, largest

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_of_sums: Tensor | None, _: None
    ) -> tuple[Tensor | None, ...]:
        query, key, value, out, sums = ctx.saved_tensors
        if grad is None:
            grad = torch.zeros_like(out)
        blocks: Blocks = ctx.blocks
        with torch.enable_grad():
            products = operators.products(query, key, 1).detach().requires_grad_()
            masked, unmasked = ctx.scores(products)
        # Of a row that sees nothing all scores are -inf.
        zero = torch.where(sums == -math.inf, 0, sums).unsqueeze(-1)
        # A weight's gradient less what the softmax takes from all of its row.
        taken = (out.float() * grad.float()).sum(-1)
        if grad_of_sums is not None:
            taken = taken - grad_of_sums
        of_weights = operators.products(grad, value, 2) - taken.unsqueeze(-1)
        weights = [torch.exp(one.detach() - zero) for one in (masked, unmasked)]
        of_products = [
            _gradient(one, products, weight * of_weights)
            for one, weight in zip((masked, unmasked), weights, strict=True)
        ]
        of_query = operators.query_gradient(
            *of_products, key, blocks.of_keys, blocks.sizes, order_of(query)
        )
        orders = [*order_of(key), *order_of(value)]
        of_key, of_value = operators.key_gradients(
            *of_products, *weights, query, grad, key, value, blocks.of_queries, blocks.sizes, orders
        )
        return of_query, of_key, of_value, None, None


def _gradient(scores: Tensor, products: Tensor, grad: Tensor) -> Tensor:
    """Of products, of that of scores; zeros where the function does not look at them."""
    if not scores.requires_grad:
        return torch.zeros_like(grad)
    (found,) = torch.autograd.grad(scores, products, grad, retain_graph=True, allow_unused=True)
    return torch.zeros_like(grad) if found is None else found
