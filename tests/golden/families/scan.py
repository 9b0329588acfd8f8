# SPDX-License-Identifier: Apache-2.0
"""Sums, products and extremes of all prefixes along a dimension."""

from __future__ import annotations

import math

import torch
from recorder import INF, aten, case, integers, later, rand, special, uniform


@later
def tied() -> torch.Tensor:
    return torch.tensor(
        [[1.0, 3.0, 3.0, 2.0, 3.0, math.nan, 4.0, math.nan, 1.0], [0.0, -0.0] * 4 + [-INF]]
    )


def cases() -> None:
    x = rand(2, 3, 19)
    nans = special()
    for op in (aten.cumsum, aten.cumprod):
        case(op, x, -1)
        case(op, x, 0)
        case(op, x.transpose(0, 1), 1)
        case(op, x.double(), 2)
        case(op, rand(2, 19, dtype=torch.bfloat16, scale=0.5), 1)
        case(op, rand(2, 19, dtype=torch.float16, scale=0.5), 0)
        case(op, torch.arange(1, 7).view(2, 3), 1)
        case(op, torch.arange(1, 7, dtype=torch.uint8).view(2, 3), 0)
        case(op, uniform(3, 4) > 0.5, 1)
        case(op, torch.arange(100).to(torch.int8), 0, dtype=torch.int8)
        case(op, rand(3, 5, scale=3), 1, dtype=torch.int32)
        case(op, rand(3, 5), 1, dtype=torch.float64)
        case(op, nans, 1)
        case(op, torch.tensor(2.5), 0)
        case(op, torch.empty(0, 3), 0)
        case(op, torch.empty(3, 0), 1)
        case(op, rand(5, 1, 3), 1)
    tops = torch.tensor([0.0, 1e200, 1e200, -1e300, 2.0], dtype=torch.float64)
    case(aten.cumprod, tops, 0)
    case(aten.cumsum, tops * 1e8, 0)
    ties = tied()
    for op in (aten.cummax, aten.cummin):
        case(op, x, -1)
        case(op, x, 1)
        case(op, ties, 1)
        case(op, ties, 0)
        case(op, ties.double().t(), 0)
        case(op, torch.tensor([[1, 3, 3, 2, 1], [2, 2, 1, 4, 0]]), 1)
        case(op, uniform(2, 19) > 0.5, 1)
        case(op, rand(2, 19, dtype=torch.bfloat16), 1)
        case(op, integers(9).to(torch.int8), 0)
        case(op, torch.tensor(2.5), 0)
        case(op, torch.empty(2, 0), 1)
    for y in (x, nans, ties, x.double(), x.to(torch.bfloat16), torch.tensor(2.5)):
        case(aten.logcumsumexp, y, -1)
    case(aten.logcumsumexp, x, 0)
    case(aten.logcumsumexp, rand(19, 3, dtype=torch.float16, scale=20), 0)
    case(aten.logcumsumexp, torch.full((5,), -INF), 0)
