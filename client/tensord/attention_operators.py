# SPDX-License-Identifier: Apache-2.0
"""Attention whose scores are never in memory, as operators of tensord's own.

    products = attention_products(query, key, 0)
    out, sums, largest = attention(masked(products), unmasked(products), value, ...)

Between them stand plain operators, of every score. The daemon makes one kernel of such a chain
(compiler/decompose/attention_chains.h), which goes over tiles of keys, and of what its functions
give only a tile is there at a time. In eager, or where that cannot be, the operators do what they
say, with all scores in memory.

Tensors are (batch, heads, rows, width); keys and values may have fewer heads, each for a group of
the queries'. `blocks` are a block mask's lists: of the partial and of the whole blocks counts
(batch or 1, heads or 1, rows of blocks) and numbers (.., columns), int32; none where all is seen.
Of partial blocks the masked scores count, of whole ones the unmasked, of others nothing. `sizes`:
queries and keys of a block. `order`: dimensions of a result, the outermost in memory first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

_LIBRARY = torch.library.Library("tensord", "FRAGMENT")


def _define(schema: str, function: Any, fake: Any) -> Any:
    name = schema[: schema.index("(")]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, function, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tensord::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.tensord, name).default


def _in_order(like: Tensor, sizes: Sequence[Any], order: Sequence[int]) -> Tensor:
    """A tensor of these sizes, laid out so."""
    made = like.new_empty([sizes[dim] for dim in order])
    return made.permute([order.index(dim) for dim in range(len(order))])


def _grouped(x: Tensor, groups: Any) -> Tensor:
    """(batch, heads, ..) as (batch, groups, heads / groups, ..)."""
    return x.unflatten(1, (groups, x.shape[1] // groups))


def _products(a: Tensor, b: Tensor, step: int) -> Tensor:
    return (_grouped(a, b.shape[1]).float() @ b.float().unsqueeze(2).mT).flatten(1, 2)


def _products_fake(a: Tensor, b: Tensor, step: int) -> Tensor:
    return a.new_empty((*a.shape[:3], b.shape[2]), dtype=torch.float32)


# The products of all rows of `a` and of `b`, float32. Calls with another `step` are not taken for
# one: what backward computes again is not saved. Of one kernel's products those of queries and keys
# have the lesser one.
products = _define(
    "attention_products(Tensor a, Tensor b, int step) -> Tensor", _products, _products_fake
)


def _kinds(
    blocks: Sequence[Tensor], sizes: Sequence[int], like: Tensor, by_keys: bool = False
) -> tuple[Tensor, Tensor]:
    """Of every score: whether it is in a partial block, and in a whole one."""
    batch, heads, queries, keys = like.shape
    if not blocks:
        seen = torch.ones_like(like, dtype=torch.bool)
        return ~seen, seen
    rows, columns = (keys, queries) if by_keys else (queries, keys)
    row_size, column_size = reversed(sizes) if by_keys else sizes
    kinds = []
    for counts, numbers in zip(blocks[::2], blocks[1::2], strict=True):
        is_listed = torch.arange(numbers.shape[-1], device=like.device) < counts[..., None]
        beyond = -(-columns // column_size)
        of_blocks = torch.zeros(
            (*numbers.shape[:3], beyond + 1), dtype=torch.bool, device=like.device
        )
        of_blocks.scatter_(3, torch.where(is_listed, numbers, beyond).long(), True)
        of_scores = of_blocks[..., :beyond].repeat_interleave(row_size, 2)
        of_scores = of_scores.repeat_interleave(column_size, 3)[:, :, :rows, :columns]
        of_scores = of_scores.mT if by_keys else of_scores
        kinds.append(of_scores.expand(batch, heads, queries, keys))
    partial, whole = kinds[0], kinds[1] if len(kinds) > 1 else torch.zeros_like(kinds[0])
    return partial, whole


def _chosen(
    masked: Tensor, unmasked: Tensor, kinds: tuple[Tensor, Tensor], otherwise: float
) -> Tensor:
    partial, whole = kinds
    return torch.where(whole, unmasked, torch.where(partial, masked, otherwise))


def _attention(
    masked: Tensor,
    unmasked: Tensor,
    value: Tensor,
    blocks: Sequence[Tensor],
    sizes: Sequence[int],
    order: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    scores = _chosen(masked, unmasked, _kinds(blocks, sizes, masked), -math.inf)
    weights = torch.ops.aten._safe_softmax(scores, -1).to(value.dtype)
    out = _weighed(weights, value)
    laid_out = _in_order(value, out.shape, order).copy_(out)
    return laid_out, torch.logsumexp(scores, -1), scores.amax(-1)


def _weighed(weights: Tensor, rows: Tensor) -> Tensor:
    return (_grouped(weights, rows.shape[1]) @ rows.unsqueeze(2)).flatten(1, 2)


def _attention_fake(
    masked: Tensor,
    unmasked: Tensor,
    value: Tensor,
    blocks: Sequence[Tensor],
    sizes: Sequence[int],
    order: Sequence[int],
) -> tuple[Tensor, Tensor, Tensor]:
    rows = masked.shape[:3]
    out = _in_order(value, (*rows, value.shape[3]), order)
    sums, largest = (masked.new_empty(rows) for _ in range(2))
    return out, sums, largest


# The values weighed by the scores' softmax, zeros of a row that sees nothing; of each row the
# logarithm of its sum of exponentials, and its largest score.
attention = _define(
    "attention(Tensor masked, Tensor unmasked, Tensor value, Tensor[] blocks, int[] sizes, "
    "int[] order) -> (Tensor, Tensor, Tensor)",
    _attention,
    _attention_fake,
)


def _query_gradient(
    masked: Tensor,
    unmasked: Tensor,
    key: Tensor,
    blocks: Sequence[Tensor],
    sizes: Sequence[int],
    order: Sequence[int],
) -> Tensor:
    of_products = _chosen(masked, unmasked, _kinds(blocks, sizes, masked), 0)
    out = _weighed(of_products.to(key.dtype), key)
    return _in_order(key, out.shape, order).copy_(out)


def _query_gradient_fake(
    masked: Tensor,
    unmasked: Tensor,
    key: Tensor,
    blocks: Sequence[Tensor],
    sizes: Sequence[int],
    order: Sequence[int],
) -> Tensor:
    return _in_order(key, (*masked.shape[:3], key.shape[3]), order)


# The gradient of queries, of that of their products with keys.
query_gradient = _define(
    "attention_query_gradient(Tensor masked, Tensor unmasked, Tensor key, Tensor[] blocks, "
    "int[] sizes, int[] order) -> Tensor",
    _query_gradient,
    _query_gradient_fake,
)


def _key_gradients(
    masked: Tensor,
    unmasked: Tensor,
    masked_weights: Tensor,
    unmasked_weights: Tensor,
    query: Tensor,
    grad: Tensor,
    like_key: Tensor,
    like_value: Tensor,
    blocks: Sequence[Tensor],
    sizes: Sequence[int],
    orders: Sequence[int],
) -> tuple[Tensor, Tensor]:
    kinds = _kinds(blocks, sizes, masked, by_keys=True)
    groups = like_key.shape[1]

    def summed(weights: Tensor, rows: Tensor) -> Tensor:
        of_heads = _grouped(weights.to(rows.dtype), groups).mT @ _grouped(rows, groups)
        return of_heads.sum(2)

    of_key = summed(_chosen(masked, unmasked, kinds, 0), query)
    of_value = summed(_chosen(masked_weights, unmasked_weights, kinds, 0), grad)
    first, second = orders[:4], orders[4:]
    return (
        _in_order(query, of_key.shape, first).copy_(of_key),
        _in_order(grad, of_value.shape, second).copy_(of_value),
    )


def _key_gradients_fake(
    masked: Tensor,
    unmasked: Tensor,
    masked_weights: Tensor,
    unmasked_weights: Tensor,
    query: Tensor,
    grad: Tensor,
    like_key: Tensor,
    like_value: Tensor,
    blocks: Sequence[Tensor],
    sizes: Sequence[int],
    orders: Sequence[int],
) -> tuple[Tensor, Tensor]:
    of_key = _in_order(query, like_key.shape, orders[:4])
    of_value = _in_order(grad, like_value.shape, orders[4:])
    return of_key, of_value


# The gradients of keys, of that of their products with queries, and of values, of the softmax's
# weights and the result's gradient: sums over the heads of a group. The lists are of blocks of
# queries, by blocks of keys.
key_gradients = _define(
    "attention_key_gradients(Tensor masked, Tensor unmasked, Tensor masked_weights, "
    "Tensor unmasked_weights, Tensor query, Tensor grad, Tensor like_key, Tensor like_value, "
    "Tensor[] blocks, int[] sizes, int[] orders) -> (Tensor, Tensor)",
    _key_gradients,
    _key_gradients_fake,
)
