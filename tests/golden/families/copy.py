# SPDX-License-Identifier: Apache-2.0
"""Copies, casts and the lists of torch._foreach."""

from __future__ import annotations

import torch
import torch._inductor.inductor_prims  # defines prims::fma
from recorder import aten, case, integers, prims, rand, uniform


def cases() -> None:
    case(aten.clone, rand(3, 4).t())
    case(aten.lift_fresh_copy, rand(3))
    for dtype in (torch.float64, torch.bfloat16, torch.int32, torch.bool, torch.uint8):
        case(aten._to_copy, (uniform(7) * 9).round(), dtype=dtype)
    case(aten._to_copy, rand(3, 4).t())
    case(prims.convert_element_type, rand(5), torch.float16)
    case(prims.fma, rand(3, 5), rand(3, 5), rand(3, 5))
    case(aten.copy, rand(3, 4), rand(4, dtype=torch.bfloat16))
    case(aten.copy, integers(3), rand(3))
    x, y = rand(3), rand(2, 2)
    for name in ["sqrt", "rsqrt", "exp", "reciprocal", "neg", "abs", "sign"]:
        case(getattr(aten, "_foreach_" + name), [x.abs() + 1, y.abs() + 1])
    for name in ["add", "sub", "mul", "div", "maximum", "minimum", "clamp_min", "clamp_max", "pow"]:
        op = getattr(aten, "_foreach_" + name)
        positive = [x.abs() + 0.5, y.abs() + 0.5]
        case(op.List, positive, [rand(3), rand(2, 2)])
        case(op.Scalar, positive, 2.5)
        case(op.ScalarList, positive, [2.5, 1.0])
    case(aten._foreach_add.List, [x, y], [y[0, 0], x[:2]], alpha=3)
    case(aten._foreach_add.Tensor, [x, y], torch.tensor(2.0), alpha=2)
    case(aten._foreach_mul.Tensor, [x, y], torch.tensor(2.0))
    case(aten._foreach_div.Tensor, [x, y], torch.tensor(2.0))
    case(aten._foreach_pow.ScalarAndTensor, 2.0, [x, y])
    case(aten._foreach_lerp.List, [x, y], [x + 1, y + 2], [uniform(3), uniform(2, 2)])
    case(aten._foreach_lerp.Scalar, [x, y], [x + 1, y + 2], 0.1)
    case(aten._foreach_lerp.ScalarList, [x, y], [x + 1, y + 2], [0.1, 0.9])
    for name in ("addcmul", "addcdiv"):
        op = getattr(aten, "_foreach_" + name)
        case(op.Scalar, [x, y], [x, y], [x.abs() + 1, y.abs() + 1], 0.5)
        case(op.ScalarList, [x, y], [x, y], [x.abs() + 1, y.abs() + 1], [0.5, 2.0])
    case(aten._foreach_copy, [x, y], [x.double(), y[0]])
