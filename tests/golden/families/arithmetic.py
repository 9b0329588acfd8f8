# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of tensors and numbers in all their mixtures of types."""

from __future__ import annotations

import torch
from recorder import INF, aten, bools, case, integers, nonzero, rand, special, uniform


def cases() -> None:
    for name in ("add", "sub", "rsub"):
        both = getattr(aten, name)
        case(both.Tensor, rand(3, 5), rand(5))
        case(both.Tensor, rand(3, 1), rand(1, 4), alpha=2.5)
        case(both.Tensor, integers(4), integers(4), alpha=3)
        case(both.Tensor, integers(4), rand(4))
        case(both.Tensor, rand(4, dtype=torch.bfloat16), rand(4))
        case(both.Tensor, rand(4, dtype=torch.bfloat16), torch.tensor(1.5))
        case(both.Scalar, rand(4), 1.5)
        case(both.Scalar, integers(4), 2.5)
        case(both.Scalar, integers(4, dtype=torch.int32), 7, 2)
    case(aten.add.Tensor, bools(4), bools(4))
    case(aten.mul.Tensor, bools(4), bools(4))
    case(aten.mul.Tensor, rand(2, 3, 1), rand(4))
    case(aten.mul.Tensor, bools(4), rand(4))
    case(aten.mul.Tensor, integers(4, dtype=torch.uint8, low=0), integers(4, dtype=torch.int8))
    case(aten.mul.Scalar, rand(4, dtype=torch.float16), 0.1)
    for name in ("div", "true_divide"):
        case(getattr(aten, name).Tensor, integers(6), nonzero(6))
        case(getattr(aten, name).Tensor, special(), rand(4, 5))
        case(getattr(aten, name).Scalar, integers(6), 4)
    for mode in (None, "trunc", "floor"):
        case(aten.div.Tensor_mode, integers(20), nonzero(20), rounding_mode=mode)
        case(aten.div.Tensor_mode, rand(20), rand(20), rounding_mode=mode)
        case(aten.div.Scalar_mode, rand(20), 0.1, rounding_mode=mode)
        case(aten.div.Scalar_mode, integers(20), -3, rounding_mode=mode)
    case(aten.div.Tensor_mode, special(), torch.tensor([0.0, 1, -1, 2, INF]), rounding_mode="floor")
    case(aten.floor_divide, integers(20), nonzero(20))
    case(aten.floor_divide, rand(20), rand(20))
    case(aten.floor_divide.Scalar, integers(20), -3)
    for name in ("fmod", "remainder"):
        op = getattr(aten, name)
        case(op.Tensor, integers(20), nonzero(20))
        case(op.Tensor, rand(20), rand(20))
        case(op.Scalar, rand(20), -0.7)
        case(op.Scalar, integers(20), 4)
    case(aten.remainder.Scalar_Tensor, 7, nonzero(9))
    for exponent in (0, 1, 2, 3, 4, 7, -1, -2, 0.5, -0.5, 2.7, 2.0, 40):
        case(aten.pow.Tensor_Scalar, uniform(5) + 0.5, exponent, tolerance=1e-4)
    for exponent in (0, 1, 2, 3, 9):
        case(aten.pow.Tensor_Scalar, integers(5), exponent)
        case(aten.pow.Tensor_Scalar, rand(5), exponent)
    case(aten.pow.Tensor_Scalar, integers(5, low=1), 0.5)
    case(aten.pow.Tensor_Tensor, uniform(5) + 0.5, rand(5))
    case(aten.pow.Scalar, 2, rand(5))
    case(aten.pow.Scalar, 3.5, rand(5))
    case(aten.atan2, rand(3, 5), rand(5))
    case(aten.atan2, integers(5), nonzero(5))
    case(aten.hypot, rand(5), rand(5))
    case(aten.copysign.Tensor, rand(5), rand(5))
    case(aten.copysign.Scalar, rand(5), -1.0)
    for name in ("minimum", "maximum", "fmin", "fmax"):
        op = getattr(aten, name)
        case(op, special(), special().flip(1))
        case(op, rand(4, 1), rand(3))
        case(op, integers(5), integers(5))
    x = torch.tensor([0.0, 0.0, 2.0, 1.0])
    y = torch.tensor([0.0, torch.nan, 3.0, 0.5])
    case(aten.xlogy.Tensor, x, y)
    case(aten.xlogy.Scalar_Other, x, 2.5)
    case(aten.xlogy.Scalar_Self, 2.0, x + 1)
