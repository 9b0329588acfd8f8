# SPDX-License-Identifier: Apache-2.0
"""Sums, extremes, moments and norms."""

from __future__ import annotations

import torch
from recorder import INF, aten, case, rand, special, uniform


def cases() -> None:
    x = rand(3, 4, 5)
    case(aten.sum, x)
    case(aten.sum, torch.tensor(2.5))
    case(aten.sum, torch.tensor([True, False, True]))
    case(aten.sum, rand(3, 300, dtype=torch.bfloat16, scale=0.1))
    case(aten.sum.dim_IntList, x, [1], False)
    case(aten.sum.dim_IntList, x, [0, -1], True)
    case(aten.sum.dim_IntList, x, [], False)
    case(aten.sum.dim_IntList, x, None, True)
    case(aten.sum.dim_IntList, torch.arange(12).view(3, 4), [0], False)
    case(aten.sum.dim_IntList, x, [1], False, dtype=torch.float64)
    case(aten.sum.dim_IntList, torch.empty(0, 3), [0], False)
    case(aten.sum.dim_IntList, torch.eye(3, 40), [1], False, dtype=torch.bool)
    case(aten.sum.dim_IntList, torch.eye(4, 3).bool(), [1], True, dtype=torch.bool)
    case(aten.prod.dim_int, torch.eye(3, 40) + 1, 1, dtype=torch.bool)
    case(aten.mean, x)
    case(aten.mean.dim, x, [1, 2], True)
    case(aten.mean.dim, x.bfloat16(), [1], False, dtype=torch.float32)
    case(aten.mean.dim, x.transpose(0, 2), [0], False)
    case(aten.prod, x)
    case(aten.prod.dim_int, torch.arange(1, 7).view(2, 3), 1, False)
    case(aten.nansum, special(), [1], False)
    nans = special()
    for op in (aten.amax, aten.amin):
        case(op, x, [1], False)
        case(op, nans, [1], True)
        case(op, x, [], False)
        case(op, torch.arange(6).view(2, 3), [0], False)
        case(op, uniform(3, 4) > 0.5, [1], False)
    for op in (aten.max, aten.min):
        case(op, x)
        case(op, torch.tensor(3))
        case(op.dim, x, 1, False)
        case(op.dim, nans, 0, True)
        case(op.dim, torch.tensor([[1, 3, 3], [2, 2, 1]]), 1, False)
        case(op.dim, uniform(3, 4) > 0.5, 1, False)
    for op in (aten.argmax, aten.argmin):
        case(op, x)
        case(op, x, 2, False)
        case(op, x, None, True)
        case(op, nans, 1, True)
        case(op, x.transpose(0, 1))
    case(aten.aminmax, x, dim=1, keepdim=False)
    for op in (aten.any, aten.all):
        case(op, x > 1)
        case(op.dim, x > 1, 1, False)
        case(op.dim, x, -1, True)
        case(op.dims, x > 1, [0, 2], False)
        case(op, torch.tensor([0, 1, 2], dtype=torch.uint8))
    case(aten.count_nonzero.dim_IntList, x > 0, [1])
    case(aten.count_nonzero, torch.arange(5))
    for op in (aten.var, aten.std, aten.var_mean, aten.std_mean):
        case(op.correction, x, [2], correction=0, keepdim=False)
        case(op.correction, x + 100, [0, 1], correction=1, keepdim=True, tolerance=1e-4)
        case(op.correction, x, None)
        case(op.correction, x.bfloat16(), [0])
        case(op, x, True)
        case(op.dim, x, [1], False, True)
    case(aten.var.correction, x[:, :1], [1])
    for p in (0, 1, 2, 3, 2.5, INF, -INF):
        case(aten.linalg_vector_norm, x, p, [1], False)
    case(aten.linalg_vector_norm, x, 2, None, True)
    for p in (2, 3, -2, 0):
        case(aten.linalg_vector_norm, torch.tensor([[3e38], [-1e-30], [0.0]]), p, [1], False)
    case(aten.linalg_vector_norm, x.bfloat16(), 2, [0], False, dtype=torch.float32)
    case(aten.norm.Scalar, x, 2)
    case(aten.norm.ScalarOpt_dim, x, 2, [1], True)
    case(aten.norm.ScalarOpt_dtype, x, 3, dtype=torch.float64)
    case(aten.norm.ScalarOpt_dim_dtype, x.bfloat16(), 2, [1], False, dtype=torch.float32)
    case(aten._foreach_norm.Scalar, [x, rand(7)], 2)
    case(aten.logsumexp, x * 50, [1], False)
    case(aten.logsumexp, torch.tensor([[-INF, -INF], [INF, 1.0], [2.0, -INF]]), [1], False)
