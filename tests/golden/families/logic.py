# SPDX-License-Identifier: Apache-2.0
"""Comparisons, truth values, bits, and choices between tensors."""

from __future__ import annotations

import torch
from recorder import INF, aten, bools, case, integers, rand, special, uniform


def logic() -> None:
    for name in ["eq", "ne", "lt", "le", "gt", "ge"]:
        op = getattr(aten, name)
        case(op.Tensor, integers(9, low=0, high=3), integers(9, low=0, high=3))
        case(op.Tensor, special(), special())
        case(op.Tensor, integers(3), rand(3))
        case(op.Scalar, integers(9), 2)
        case(op.Scalar, integers(9), 2.5)
        case(op.Scalar, torch.tensor([0.1, 0.2]).bfloat16(), 0.1)
        case(op.Scalar, bools(4), True)
    for name in ["logical_and", "logical_or", "logical_xor"]:
        case(getattr(aten, name), integers(9, low=0, high=2), rand(9))
        case(getattr(aten, name), bools(9), bools(9))
    case(aten.logical_not, integers(9, low=0, high=2))
    case(aten.logical_not, special())
    case(aten.bitwise_not, integers(5))
    case(aten.bitwise_not, bools(5))
    for name in ["and", "or", "xor"]:
        op, dunder = getattr(aten, "bitwise_" + name), getattr(aten, f"__{name}__")
        case(op.Tensor, integers(9), integers(9))
        case(op.Tensor, bools(9), bools(9))
        case(op.Scalar, integers(9, dtype=torch.int32), 5)
        case(op.Scalar_Tensor, 5, integers(9))
        case(dunder.Tensor, bools(9), bools(9))
        case(dunder.Scalar, integers(9), 6)
    for name, dunder in (("left", "lshift"), ("right", "rshift")):
        op = getattr(aten, f"bitwise_{name}_shift")
        shift = integers(9, low=0, high=5)
        case(op.Tensor, integers(9), shift)
        case(op.Tensor_Scalar, integers(9), 2)
        case(op.Scalar_Tensor, 64, shift)
        case(getattr(aten, f"__{dunder}__").Tensor, integers(9), shift)
        case(getattr(aten, f"__{dunder}__").Scalar, integers(9), 3)
    for name in ["isnan", "isinf", "isfinite"]:
        case(getattr(aten, name), special())
        case(getattr(aten, name), integers(3))


def choices() -> None:
    mask = bools(4, 5)
    case(aten.where.self, mask, rand(4, 5), rand(5))
    case(aten.where.self, mask, integers(4, 5), rand(5))
    case(aten.where.self, mask, torch.tensor(2.0), rand(4, 5, dtype=torch.bfloat16))
    case(aten.where.ScalarSelf, mask, 1.5, rand(4, 5))
    case(aten.where.ScalarOther, mask, rand(4, 5), -INF)
    case(aten.where.Scalar, mask, 1.0, 0.0)
    case(aten.masked_fill.Scalar, rand(4, 5), bools(5), -INF)
    case(aten.masked_fill.Scalar, integers(4, 5), mask, 3)
    case(aten.masked_fill.Tensor, rand(4, 5), mask, torch.tensor(2.5))
    case(aten.clamp, special(), -1.0, 1.0)
    case(aten.clamp, special(), None, 1.0)
    case(aten.clamp, integers(9), 2, None)
    case(aten.clamp, integers(9), -1.5, 3)
    case(aten.clamp.Tensor, rand(4, 5), rand(5), rand(4, 1))
    case(aten.clamp.Tensor, rand(4, 5), None, rand(4, 1))
    case(aten.clamp_min, special(), 0.5)
    case(aten.clamp_min.Tensor, rand(9), rand(9))
    case(aten.clamp_max, special(), 0.5)
    case(aten.clamp_max.Tensor, rand(9), rand(9))
    for weight in (0.0, 0.3, 0.7, 1.0):
        case(aten.lerp.Scalar, rand(9), rand(9), weight)
    case(aten.lerp.Tensor, rand(9), rand(9), uniform(9))
    case(aten.addcmul, rand(4, 5), rand(5), rand(4, 1), value=0.5)
    case(aten.addcmul, integers(5), integers(5), integers(5), value=2)
    case(aten.addcdiv, rand(4, 5), rand(5), rand(4, 1) + 9, value=0.5)
    case(aten.addcdiv, rand(5), rand(5), rand(5) + 9)


def cases() -> None:
    logic()
    choices()
