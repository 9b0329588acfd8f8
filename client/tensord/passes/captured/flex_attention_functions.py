# SPDX-License-Identifier: Apache-2.0
"""FlexAttention's functions of one score, over tensors of all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


def autocast_type(x: Tensor, dtype: torch.dtype | None) -> torch.dtype:
    """In which autocast to `dtype` has an operand of a product."""
    casts = dtype is not None and x.is_floating_point() and x.dtype != torch.float64
    return dtype if dtype is not None and casts else x.dtype


def autocast_to(x: Tensor, dtype: torch.dtype) -> Tensor:
    """What autocast makes of an operand of a product."""
    return x.to(autocast_type(x, dtype))


def modified(
    scores: Tensor,
    score: Callable[..., Tensor],
    mask: Callable[..., Tensor] | None,
    score_arguments: Sequence[Any],
    mask_arguments: Sequence[Any],
) -> Tensor:
    """The scores behind both functions, -inf where a query does not see a key."""
    places = [torch.arange(size, device=scores.device) for size in scores.shape]
    excluded = scores.new_full((), -math.inf)
    with _TensorsAreIndices():
        seen = None
        if mask is not None:
            seen = _for_all(mask, 0, len(mask_arguments))(*places, *mask_arguments)
            # No gradient comes back from keys that are not seen, as in eager, not even NaN.
            scores = torch.where(seen, scores, scores.detach())
        changed = _for_all(score, 1, len(score_arguments))(scores, *places, *score_arguments)
    if seen is not None:
        return torch.where(seen, changed, excluded)
    return changed if changed.is_floating_point() else changed.to(scores.dtype)


def _for_all(function: Callable[..., Any], scores: int, others: int) -> Callable[..., Any]:
    """A function of `scores` scores (0 or 1), four places and others, over a tensor of scores and
    vectors of places: batches, heads, queries, keys."""
    for place in reversed(range(4)):
        over = [0 if i == place else None for i in range(4)]
        dims = (*(0,) * scores, *over, *(None,) * others)
        function = torch.vmap(function, in_dims=dims)
    return function


class _TensorsAreIndices(TorchFunctionMode):
    """table[head, query - key] reads at what tensors say, where torch would ask a scalar tensor for
    its number."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is not torch.Tensor.__getitem__:
            return func(*args, **(kwargs or {}))
        table, index = args
        places = index if isinstance(index, tuple) else (index,)
        tensors = [place for place in places if isinstance(place, Tensor)]
        numbers = [
            place
            for place in places
            if isinstance(place, (int, torch.SymInt)) and not isinstance(place, bool)
        ]
        if not tensors or len(tensors) + len(numbers) != len(places):
            return func(*args)
        for dim in reversed(range(len(places))):
            if not isinstance(places[dim], Tensor):
                table = table.select(dim, places[dim])
        return torch.ops.aten.index.Tensor(table, tensors)


def order_of(query: Tensor) -> list[int]:
    """Dimensions from the outermost to the innermost of a result whose batches, heads and queries
    lie in the order of the query's strides."""
    order = sorted(range(3), key=lambda dim: query.stride(dim))
    return [*reversed(order), 3]
