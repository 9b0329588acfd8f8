# SPDX-License-Identifier: Apache-2.0
"""Embeddings, gathers and scatters."""

from __future__ import annotations

import math

import torch
from recorder import aten, case, integers, later, rand, rand_like


@later
def ascending(*sizes: int) -> torch.Tensor:
    """Sorted rows with equal numbers in them."""
    return torch.randint(-4, 5, sizes).float().sort().values


@later
def mixed() -> torch.Tensor:
    return torch.tensor([[-9.0, -4.0, -0.5, 0.0], [2.0, 9.0, math.nan, math.inf]])


def _searches() -> None:
    for count in (1, 2, 7, 8, 13):
        case(aten.searchsorted.Tensor, ascending(count), mixed())
        case(aten.bucketize.Tensor, mixed(), ascending(count), right=True)
    case(aten.searchsorted.Tensor, ascending(2, 11), mixed(), right=True, out_int32=True)
    case(aten.searchsorted.Tensor, ascending(2, 5), mixed(), side="right")
    case(aten.bucketize.Tensor, integers(3, 4), ascending(6).long(), out_int32=True)
    case(aten.bucketize.Tensor, mixed().bfloat16(), ascending(6).bfloat16())


def cases() -> None:
    x = rand(4, 5, 6)
    i, j = torch.tensor([3, 0, -1, 2]), torch.tensor([[1], [-2]])
    case(aten.embedding, rand(7, 3), torch.tensor([[1, 6], [0, 1]]))
    case(aten.embedding, rand(7, 3), torch.tensor(2))
    for padding in (-1, 1):
        case(
            aten.embedding_dense_backward.default,
            rand(2, 2, 3),
            torch.tensor([[1, 6], [0, 1]]),
            7,
            padding,
            False,
        )
    case(
        aten.embedding_dense_backward.default,
        rand(4, 3, dtype=torch.bfloat16),
        torch.tensor([1, 1, 2, 1]),
        4,
        -1,
        False,
    )
    for indices in ([i], [None, i], [i, j], [i, None, j], [None, i, j], [None, None, i]):
        case(aten.index.Tensor, x, indices)
        case(aten.index_put, x, indices, rand_like(later(aten.index.Tensor)(x, indices)), True)
    case(
        aten.index.Tensor,
        x,
        [torch.tensor(2), None, torch.tensor([1, 0], dtype=torch.int32).long()],
    )
    case(aten._unsafe_index_put, x, [i], rand(4, 5, 6), True)
    case(aten._unsafe_index.Tensor, x, [None, torch.tensor([[0], [2]]), torch.tensor([1, 3])])
    unique = torch.tensor([2, 0])
    case(aten.index_put, x, [None, unique], rand(6))
    case(aten.index_put, x, [unique], torch.tensor(3.0), False)
    case(
        aten.index_put.default,
        rand(5, dtype=torch.bfloat16),
        [torch.tensor([1, 1, 0])],
        rand(3, dtype=torch.bfloat16),
        True,
    )
    along = torch.tensor([[0, 3, 1], [2, 2, 0]])
    _searches()
    case(aten.gather, rand(2, 4), 1, along)
    case(aten.gather, rand(4, 3), 0, along)
    distinct = torch.tensor([[0, 3, 1], [2, 1, 0]])
    case(aten.scatter.src, rand(2, 4), 1, distinct, rand(2, 3))
    case(aten.scatter.src, rand(2, 4), 1, distinct, rand(3, 5))
    case(aten.scatter.value, rand(2, 4), 1, distinct, 2.5)
    case(aten.scatter.value, torch.zeros(2, 4, dtype=torch.long), -1, distinct, 1)
    case(aten.scatter_add, rand(2, 4), 1, along, rand(2, 3))
    ones = torch.tensor([[0, 1, 1], [2, 2, 2]])
    holes = torch.tensor([[1.0, math.nan, -2.0, 4.0], [0.5, 3.0, math.inf, -1.0]])
    for reduce in ("amax", "amin", "prod"):
        for include_self in (True, False):
            case(
                aten.scatter_reduce.two,
                rand(2, 4),
                1,
                ones,
                rand(3, 4),
                reduce,
                include_self=include_self,
            )
            case(
                aten.scatter_reduce.two,
                holes,
                0,
                ones[:1] * 0,
                rand(2, 3),
                reduce,
                include_self=include_self,
            )
            case(
                aten.index_reduce,
                rand(4, 3),
                0,
                torch.tensor([2, 0, 2]),
                rand(3, 3),
                reduce,
                include_self=include_self,
            )
        case(aten.scatter_reduce.two, rand(2, 4), 1, ones, holes, reduce)
        case(
            aten.scatter_reduce.two,
            integers(2, 4),
            1,
            ones,
            integers(2, 3),
            reduce,
            include_self=False,
        )
        case(
            aten.scatter_reduce.two,
            integers(4).to(torch.uint8),
            0,
            ones[1],
            integers(3).to(torch.uint8),
            reduce,
            include_self=False,
        )
        case(
            aten.index_reduce,
            rand(3, 4, dtype=torch.bfloat16),
            1,
            torch.tensor([1, 1]),
            rand(3, 2, dtype=torch.bfloat16),
            reduce,
        )
    case(aten.index_select, x, 1, torch.tensor([3, 0, 3]))
    case(aten.index_select, x, -1, torch.tensor(2))
    case(aten.index_add, x, 1, torch.tensor([3, 0, 3]), rand(4, 3, 6), alpha=2)
    case(aten.index_copy, x, 1, torch.tensor([3, 0]), rand(4, 2, 6))
    case(aten.index_fill.int_Scalar, x, 1, torch.tensor([3, 0]), -1.5)
