# SPDX-License-Identifier: Apache-2.0
"""Complex numbers: arithmetic, functions, parts, and what moves them."""

from __future__ import annotations

import torch
from recorder import aten, bools, case, complex_rand, integers, later, rand

C64, C128 = torch.complex64, torch.complex128


@later
def signs() -> torch.Tensor:
    """Zeros, and numbers on the axes and around them."""
    numbers = [0.0, -1.5, 2.0]
    return torch.tensor([complex(x, y) for x in numbers for y in numbers])


def cases() -> None:
    functions = (
        aten.neg, aten.reciprocal, aten.square, aten.sgn, aten.sqrt, aten.rsqrt, aten.exp,
        aten.exp2, aten.expm1, aten.log, aten.log2, aten.log10, aten.log1p, aten.sin, aten.cos,
        aten.tan, aten.sinh, aten.cosh, aten.tanh, aten.sigmoid, aten._conj_physical, aten.abs,
        aten.angle, aten.isnan, aten.isinf, aten.isfinite, aten.logical_not, aten.clone,
    )  # fmt: skip
    for op in functions:
        case(op, complex_rand(3, 5))
        case(op, complex_rand(2, 3, dtype=C128))
    for op in (aten.sqrt, aten.sgn, aten.abs, aten.angle, aten.exp, aten.log1p, aten.logical_not):
        case(op, signs())
    case(aten.exp, complex_rand(5, 3).t())
    for overload in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor):
        case(overload, complex_rand(4, 3), complex_rand(3))
        case(overload, complex_rand(4, 3), rand(4, 3))
        case(overload, rand(4, 1), complex_rand(3))
        case(overload, complex_rand(4), complex_rand(4, dtype=C128))
    for overload in (aten.add.Scalar, aten.sub.Scalar, aten.mul.Scalar, aten.div.Scalar):
        case(overload, complex_rand(4), 3)
    case(aten.add.Tensor, complex_rand(4), complex_rand(4), alpha=3)
    case(aten.sub.Tensor, rand(4), complex_rand(4), alpha=2)
    case(aten.rsub.Tensor, complex_rand(4), complex_rand(4))
    case(aten.rsub.Scalar, complex_rand(4), 2.5)
    case(aten.true_divide.Tensor, complex_rand(4), complex_rand(4))
    case(aten.true_divide.Scalar, complex_rand(4), 2.0)
    case(aten.div.Tensor_mode, complex_rand(4), complex_rand(4), rounding_mode=None)
    case(aten.addcmul, complex_rand(4), complex_rand(4), complex_rand(4), value=2)
    case(aten.addcdiv, complex_rand(4), complex_rand(4), complex_rand(4))
    for exponent in (2, 3, 0.5, -0.5, -1, -2):
        case(aten.pow.Tensor_Scalar, complex_rand(4), exponent)
    case(aten.complex, rand(4, 1), rand(3))
    case(aten.polar, rand(4), rand(4))
    for overload in (aten.eq.Tensor, aten.ne.Tensor):
        case(overload, signs(), signs().flip(0))
        case(overload, complex_rand(4), rand(4))
    for overload in (aten.eq.Scalar, aten.ne.Scalar):
        case(overload, signs(), 2)
    for op in (aten.logical_and, aten.logical_or, aten.logical_xor):
        case(op, signs(), signs().flip(0))
    case(aten.where.self, bools(4, 3), complex_rand(4, 3), complex_rand(3))
    case(aten.where.ScalarSelf, bools(4), 2.0, complex_rand(4))
    case(aten.where.ScalarOther, bools(4), complex_rand(4), 2.0)
    case(aten.masked_fill.Scalar, complex_rand(4), bools(4), 2.0)
    case(aten.masked_fill.Tensor, complex_rand(4), bools(4), complex_rand())
    # Views
    case(aten.view_as_real, complex_rand(4, 3))
    case(aten.view_as_real, complex_rand(4, 3).t())
    case(aten.view_as_complex, rand(4, 2))
    case(aten.permute, complex_rand(4, 3, 2), [2, 0, 1])
    case(aten.slice.Tensor, complex_rand(7), 0, 1, 7, 2)
    # Copies, and to real numbers and back
    case(aten._to_copy, complex_rand(4), dtype=torch.float32)
    case(aten._to_copy, complex_rand(4), dtype=C128)
    case(aten._to_copy, signs(), dtype=torch.bool)
    case(aten._to_copy, rand(4), dtype=C64)
    case(aten._to_copy, integers(4), dtype=C64)
    case(aten.copy, complex_rand(4, 3), complex_rand(3))
    case(aten.full, [2, 3], 1.5, dtype=C64)
    case(aten.zeros_like, complex_rand(4))
    case(aten.fill.Tensor, complex_rand(4), complex_rand())
    case(aten.triu, complex_rand(4, 4), 0)
    # Parts and places
    case(aten.cat, [complex_rand(2, 3), complex_rand(4, 3)])
    case(aten.stack, [complex_rand(3), complex_rand(3)])
    case(aten.constant_pad_nd, complex_rand(2, 3), [1, 2], 1.5)
    case(aten.flip, complex_rand(4, 3), [0])
    case(aten.roll, complex_rand(5), [2])
    case(aten.slice_scatter, complex_rand(5), complex_rand(2), 0, 1, 3)
    case(aten.select_backward, complex_rand(3), [3, 4], 1, 2)
    case(aten.index.Tensor, complex_rand(5, 3), [integers(4, low=0, high=5)])
    case(aten.index_put, complex_rand(5), [torch.tensor([1, 3])], complex_rand(2))
    case(aten.index_put, complex_rand(5), [torch.tensor([1, 1, 3])], complex_rand(3), True)
    case(aten.gather, complex_rand(5), 0, integers(4, low=0, high=5))
    case(aten.scatter_add, complex_rand(5), 0, integers(4, low=0, high=5), complex_rand(4))
    case(aten.index_select, complex_rand(5, 2), 0, torch.tensor([4, 0]))
    case(aten.index_add, complex_rand(5), 0, torch.tensor([1, 1]), complex_rand(2), alpha=2)
    # Sums
    case(aten.sum, complex_rand(4, 3))
    case(aten.sum.dim_IntList, complex_rand(4, 3), [0])
    case(aten.sum.dim_IntList, rand(4, 3), [1], dtype=C64)
    case(aten.mean.dim, complex_rand(4, 3), [1], True)
    for order in (2, 1, float("inf")):
        case(aten.linalg_vector_norm, complex_rand(4, 3), order, [1])
    case(aten.norm.ScalarOpt_dim, complex_rand(4, 3), 2, [0], True)
    case(aten.any, signs())
    case(aten.all, signs())
