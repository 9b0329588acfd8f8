# SPDX-License-Identifier: Apache-2.0
"""Softmax and log-softmax, forward and backward."""

from __future__ import annotations

import math

import torch
from recorder import INF, aten, case, later, rand


def cases() -> None:
    x = rand(3, 4, 5)
    masked = torch.tensor([[1.0, -INF, 2.0], [-INF, -INF, -INF], [1.0, math.nan, 0.0]])
    for dim in (0, 1, 2, -1):
        case(aten._softmax, x, dim, False)
        case(aten._log_softmax, x, dim, False)
    for t in (
        masked,
        torch.tensor([[1.0, INF, 2.0], [INF, -INF, INF], [-INF, 3.0, -INF]]),
        x * 100,
        x.bfloat16(),
        torch.tensor(1.5),
        x.transpose(0, 2),
        torch.empty(2, 0),
    ):
        case(aten._softmax, t, -1, False)
        case(aten._log_softmax, t, -1, False)
    case(aten._safe_softmax, masked, -1)
    case(aten._safe_softmax, x, 1)
    case(aten.softmax.int, x.bfloat16(), 1, torch.float32)
    case(aten.softmax.int, torch.arange(6).view(2, 3), 1, torch.float32)
    case(aten.log_softmax.int, x, 1)
    y = later(torch.softmax)(x, 1)
    case(aten._softmax_backward_data, rand(3, 4, 5), y, 1, torch.float32)
    case(aten._log_softmax_backward_data, rand(3, 4, 5), y.log(), 1, torch.float32)
