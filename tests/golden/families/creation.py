# SPDX-License-Identifier: Apache-2.0
"""Tensors out of nothing, and triangles."""

from __future__ import annotations

import torch
from recorder import aten, case, prims, rand, special


def cases() -> None:
    like = rand(2, 3)
    case(aten.full, [2, 3], 1.5)
    case(aten.full, [2], 7)
    case(aten.full, [2], True)
    case(aten.full, [], 0.1, dtype=torch.bfloat16)
    case(aten.full_like, like, 2)
    case(aten.full_like, like, 2.7, dtype=torch.int32)
    case(aten.new_full, like, [4], 3)
    for name in ("zeros", "ones"):
        case(getattr(aten, name), [2, 3])
        case(getattr(aten, name + "_like"), like.t())
        case(getattr(aten, name + "_like"), like, dtype=torch.bool)
        case(getattr(aten, "new_" + name), like, [4, 1], dtype=torch.int64)
    # What is in an empty tensor is not promised; here it is zeros.
    case(aten.empty.memory_format, [2, 3], reference=lambda *a, **k: torch.zeros(2, 3))
    case(aten.empty_like, like, reference=lambda *a, **k: torch.zeros(2, 3))
    case(aten.new_empty, like, [4], reference=lambda *a, **k: torch.zeros(4))
    strided = torch.zeros(3, 2).t()
    case(aten.empty_strided, [2, 3], [1, 2], reference=lambda *a, **k: strided)
    case(aten.new_empty_strided, like, [2, 3], [1, 2], reference=lambda *a, **k: strided)
    case(aten.empty_permuted, [2, 3], [1, 0], reference=lambda *a, **k: strided)
    case(aten.fill.Scalar, like, 1.5)
    case(aten.fill.Tensor, like, torch.tensor(2, dtype=torch.int64))
    case(aten.zero, like)
    case(aten.scalar_tensor, 2.5)
    case(aten.scalar_tensor, 3, dtype=torch.float64)
    case(aten.arange, 5)
    case(aten.arange, 2.5)
    case(aten.arange.start, 2, 7, dtype=torch.float32)
    case(aten.arange.start_step, 10, 1, -3)
    case(aten.arange.start_step, 0, 1, 0.3)
    case(aten.arange.start_step, 0, 9, 2, dtype=torch.int32)
    for dtype in (torch.int64, torch.int32, torch.uint8):
        case(aten.arange.start_step, -0.9, 2.1, 2.0, dtype=dtype)
        case(aten.arange.start_step, 5.9, 0.2, -1.6, dtype=dtype)
        case(aten.arange.start_step, 0.5, 0.9, 1.0, dtype=dtype)
        case(aten.arange, 2.5, dtype=dtype)
    case(
        prims.iota,
        5,
        start=3,
        step=2,
        dtype=torch.int64,
        device=torch.device("cpu"),
        requires_grad=False,
    )
    case(aten.linspace, 0, 1, 7)
    case(aten.linspace, 3.5, -1, 4)
    case(aten.linspace, 2, 3, 1)
    case(aten.eye, 3)
    case(aten.eye.m, 2, 4, dtype=torch.int64)
    for diagonal in (-1, 0, 2):
        case(aten.tril, special(), diagonal)
        case(aten.triu, rand(2, 3, 4), diagonal)
