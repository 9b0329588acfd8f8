#!/usr/bin/env python3
"""Writes elementwise_cases.json: pointwise, view, join, creation; as decompose_cases.py does.

.venv/bin/python tests/golden/elementwise_cases.py
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch._inductor.inductor_prims  # defines prims::fma
from decompose_cases import CASES, INF, aten, case, rand, special

OUT = Path(__file__).with_name("elementwise_cases.json")
prims = torch.ops.prims
CPU = torch.device("cpu")


def integers(*sizes, low=-9, high=10, dtype=torch.int64) -> torch.Tensor:
    return torch.randint(low, high, sizes).to(dtype)


def nonzero(*sizes, dtype=torch.int64) -> torch.Tensor:
    return integers(*sizes, low=1, high=6, dtype=dtype) * (integers(*sizes, low=0, high=2) * 2 - 1)


def bools(*sizes) -> torch.Tensor:
    return torch.rand(*sizes) > 0.5


FLOAT_UNARY = {
    "sqrt rsqrt log log2 log10 log1p digamma lgamma acosh": (0.1, 4.0),
    "asin acos atanh erfinv": (-0.95, 0.95),
    "exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc reciprocal": (-2.0, 2.0),
}


def unary() -> None:
    for names, (low, high) in FLOAT_UNARY.items():
        for name in names.split():
            op = getattr(aten, name).default
            tolerance = 1e-4 if name in ("acosh", "erfinv", "tan", "digamma") else None
            case(op, torch.rand(3, 5) * (high - low) + low, tolerance=tolerance)
            case(
                op,
                torch.ones(3, dtype=torch.int64)
                if low > 0
                else integers(4, low=0, high=1) + (name == "reciprocal"),
            )
    for name in ["sqrt", "rsqrt", "exp", "log", "tanh", "erf", "reciprocal"]:
        case(getattr(aten, name).default, special())
        case(getattr(aten, name).default, torch.rand(3, 5).bfloat16() + 0.5)
    for name in ["neg", "abs", "sign", "sgn", "floor", "ceil", "round", "trunc", "square"]:
        op = getattr(aten, name).default
        case(op, rand(3, 5))
        case(op, special() if name != "sign" and name != "sgn" else rand(7))
        case(op, integers(6))
        case(op, integers(6, dtype=torch.int32))
        case(op, rand(6, dtype=torch.float16))
    case(aten.round.default, torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5]))
    case(aten.frac.default, rand(6))
    case(aten.nan_to_num.default, special())
    case(aten.nan_to_num.default, special(), 1.0, 2.0, -3.0)
    case(aten.nan_to_num.default, special().half(), None, None, None)
    case(aten.nan_to_num.default, integers(3))


def arithmetic() -> None:
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
    case(aten.floor_divide.default, integers(20), nonzero(20))
    case(aten.floor_divide.default, rand(20), rand(20))
    case(aten.floor_divide.Scalar, integers(20), -3)
    for name in ("fmod", "remainder"):
        op = getattr(aten, name)
        case(op.Tensor, integers(20), nonzero(20))
        case(op.Tensor, rand(20), rand(20))
        case(op.Scalar, rand(20), -0.7)
        case(op.Scalar, integers(20), 4)
    case(aten.remainder.Scalar_Tensor, 7, nonzero(9))
    for exponent in (0, 1, 2, 3, 4, 7, -1, -2, 0.5, -0.5, 2.7, 2.0, 40):
        case(aten.pow.Tensor_Scalar, torch.rand(5) + 0.5, exponent, tolerance=1e-4)
    for exponent in (0, 1, 2, 3, 9):
        case(aten.pow.Tensor_Scalar, integers(5), exponent)
        case(aten.pow.Tensor_Scalar, rand(5), exponent)
    case(aten.pow.Tensor_Scalar, integers(5, low=1), 0.5)
    case(aten.pow.Tensor_Tensor, torch.rand(5) + 0.5, rand(5))
    case(aten.pow.Scalar, 2, rand(5))
    case(aten.pow.Scalar, 3.5, rand(5))
    case(aten.atan2.default, rand(3, 5), rand(5))
    case(aten.atan2.default, integers(5), nonzero(5))
    case(aten.hypot.default, rand(5), rand(5))
    case(aten.copysign.Tensor, rand(5), rand(5))
    case(aten.copysign.Scalar, rand(5), -1.0)
    for name in ("minimum", "maximum", "fmin", "fmax"):
        op = getattr(aten, name).default
        case(op, special(), special().flip(1))
        case(op, rand(4, 1), rand(3))
        case(op, integers(5), integers(5))
    x = torch.tensor([0.0, 0.0, 2.0, 1.0])
    y = torch.tensor([0.0, torch.nan, 3.0, 0.5])
    case(aten.xlogy.Tensor, x, y)
    case(aten.xlogy.Scalar_Other, x, 2.5)
    case(aten.xlogy.Scalar_Self, 2.0, x + 1)


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
        case(getattr(aten, name).default, integers(9, low=0, high=2), rand(9))
        case(getattr(aten, name).default, bools(9), bools(9))
    case(aten.logical_not.default, integers(9, low=0, high=2))
    case(aten.logical_not.default, special())
    case(aten.bitwise_not.default, integers(5))
    case(aten.bitwise_not.default, bools(5))
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
        case(getattr(aten, name).default, special())
        case(getattr(aten, name).default, integers(3))


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
    case(aten.clamp.default, special(), -1.0, 1.0)
    case(aten.clamp.default, special(), None, 1.0)
    case(aten.clamp.default, integers(9), 2, None)
    case(aten.clamp.default, integers(9), -1.5, 3)
    case(aten.clamp.Tensor, rand(4, 5), rand(5), rand(4, 1))
    case(aten.clamp.Tensor, rand(4, 5), None, rand(4, 1))
    case(aten.clamp_min.default, special(), 0.5)
    case(aten.clamp_min.Tensor, rand(9), rand(9))
    case(aten.clamp_max.default, special(), 0.5)
    case(aten.clamp_max.Tensor, rand(9), rand(9))
    for weight in (0.0, 0.3, 0.7, 1.0):
        case(aten.lerp.Scalar, rand(9), rand(9), weight)
    case(aten.lerp.Tensor, rand(9), rand(9), torch.rand(9))
    case(aten.addcmul.default, rand(4, 5), rand(5), rand(4, 1), value=0.5)
    case(aten.addcmul.default, integers(5), integers(5), integers(5), value=2)
    case(aten.addcdiv.default, rand(4, 5), rand(5), rand(4, 1) + 9, value=0.5)
    case(aten.addcdiv.default, rand(5), rand(5), rand(5) + 9)


def copies() -> None:
    case(aten.clone.default, rand(3, 4).t())
    case(aten.lift_fresh_copy.default, rand(3))
    for dtype in (torch.float64, torch.bfloat16, torch.int32, torch.bool, torch.uint8):
        case(aten._to_copy.default, (torch.rand(7) * 9).round(), dtype=dtype)
    case(aten._to_copy.default, rand(3, 4).t())
    case(prims.convert_element_type.default, rand(5), torch.float16)
    case(prims.fma.default, rand(3, 5), rand(3, 5), rand(3, 5))
    case(aten.copy.default, rand(3, 4), rand(4, dtype=torch.bfloat16))
    case(aten.copy.default, integers(3), rand(3))
    x, y = rand(3), rand(2, 2)
    for name in ["sqrt", "rsqrt", "exp", "reciprocal", "neg", "abs", "sign"]:
        case(getattr(aten, "_foreach_" + name).default, [x.abs() + 1, y.abs() + 1])
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
    case(aten._foreach_lerp.List, [x, y], [x + 1, y + 2], [torch.rand(3), torch.rand(2, 2)])
    case(aten._foreach_lerp.Scalar, [x, y], [x + 1, y + 2], 0.1)
    case(aten._foreach_lerp.ScalarList, [x, y], [x + 1, y + 2], [0.1, 0.9])
    for name in ("addcmul", "addcdiv"):
        op = getattr(aten, "_foreach_" + name)
        case(op.Scalar, [x, y], [x, y], [x.abs() + 1, y.abs() + 1], 0.5)
        case(op.ScalarList, [x, y], [x, y], [x.abs() + 1, y.abs() + 1], [0.5, 2.0])
    case(aten._foreach_copy.default, [x, y], [x.double(), y[0]])


def views() -> None:
    x = rand(4, 6)
    for op in (aten.alias, aten.detach, aten.lift_fresh):
        case(op.default, x)
    case(aten.view.default, x, [2, -1, 3])
    case(aten.view.default, torch.tensor(3.0), [1, 1])
    case(aten._unsafe_view.default, x, [24])
    case(aten.reshape.default, x.t(), [3, 8])
    case(aten._reshape_alias.default, x, [8, 3], [3, 1])
    case(aten.view.dtype, torch.arange(6.0), torch.int32)
    case(aten.expand.default, rand(4, 1), [2, -1, 5])
    case(prims.broadcast_in_dim.default, rand(4, 1), [4, 3, 5], [0, 2])
    case(aten.permute.default, rand(2, 3, 4), [2, 0, -2])
    case(aten.transpose.int, rand(2, 3, 4), 0, -1)
    case(aten.swapaxes.default, rand(2, 3, 4), 0, -1)
    case(aten.t.default, x)
    case(aten.t.default, rand(3))
    case(aten.squeeze.default, rand(1, 3, 1))
    case(aten.squeeze.dim, rand(1, 3, 1), -1)
    case(aten.squeeze.dim, rand(1, 3, 1), 1)
    case(aten.squeeze.dims, rand(1, 3, 1), [0, 2])
    case(aten.unsqueeze.default, x, -1)
    case(aten.unsqueeze.default, x, 0)
    for start, end, step in (
        (1, 5, 1),
        (None, None, 2),
        (-3, -1, 1),
        (0, 2**63 - 1, 4),
        (5, 2, 1),
        (-99, 3, 1),
    ):
        case(aten.slice.Tensor, x, 1, start, end, step)
    case(aten.select.int, x, 1, -2)
    case(aten.select.int, rand(3), 0, 1)
    case(aten.unbind.int, x, 0)
    case(aten.unbind.int, x.t(), 1)
    for name in ("split", "unsafe_split"):
        case(getattr(aten, name).Tensor, x, 4, 1)
        case(getattr(aten, name).Tensor, x, 2, 0)
    case(aten.split_with_sizes.default, x, [1, 3, 2], -1)
    case(aten.unsafe_split_with_sizes.default, x, [1, 3], 0)
    case(aten.chunk.default, x, 4, 1)
    case(aten.unsafe_chunk.default, x, 3, 0)
    case(aten.as_strided.default, x, [3, 2], [6, 1], 7)
    case(aten.as_strided.default, x, [3, 3], [1, 1])
    case(aten.diagonal.default, x)
    case(aten.diagonal.default, rand(2, 5, 4), 1, 1, 2)
    case(aten.diagonal.default, rand(2, 5, 4), -2, -2, -1)
    case(aten.unfold.default, x, 1, 3, 2)
    case(aten.unfold.default, rand(7), 0, 4, 1)


def joins() -> None:
    x = rand(4, 6)
    case(aten.cat.default, [x, rand(2, 6)], 0)
    case(aten.cat.default, [x, rand(4, 1), rand(4, 3)], -1)
    case(aten.cat.default, [x, rand(0)], 0)
    case(aten.cat.default, [integers(3), rand(2)])
    case(aten.cat.default, [x.t(), x.t()], 1)
    case(aten.stack.default, [x, x + 1], 1)
    case(aten.stack.default, [torch.tensor(1.0), torch.tensor(2.0)])
    case(aten.constant_pad_nd.default, x, [1, 2], 1.5)
    case(aten.constant_pad_nd.default, x, [1, 0, -1, 2])
    case(aten.constant_pad_nd.default, x, [-1, -2])
    case(aten.constant_pad_nd.default, integers(2, 3), [0, 1, 1, 1], 7)
    case(aten.constant_pad_nd.default, x, [0, 0])
    case(aten.repeat.default, rand(2, 3), [2, 1, 3])
    case(aten.repeat.default, rand(2, 1), [1, 4])
    case(aten.repeat.default, rand(2), [1])
    case(aten.flip.default, x, [0, -1])
    case(aten.flip.default, rand(3), [0])
    case(aten.roll.default, x, [2], [1])
    case(aten.roll.default, x, [-1, 7], [0, 1])
    case(aten.roll.default, x, [5])
    case(aten.slice_scatter.default, x, rand(4, 2), 1, 1, 5, 2)
    case(aten.slice_scatter.default, x, rand(2, 6), 0, -2)
    case(aten.slice_scatter.default, integers(4), rand(2), 0, 1, 3)
    case(aten.as_strided_scatter.default, x, rand(2, 3), [2, 3], [8, 2], 1)
    case(aten.as_strided_scatter.default, rand(12), integers(3), [3], [4])
    case(aten.select_scatter.default, x, rand(4), 1, -1)
    case(aten.slice_backward.default, rand(4, 2), [4, 6], 1, 1, 5, 2)
    case(aten.slice_backward.default, rand(3, 6), [4, 6], 0, 1, 2**63 - 1, 1)
    case(aten.select_backward.default, rand(4), [4, 6], 1, 2)


def creation() -> None:
    like = rand(2, 3)
    case(aten.full.default, [2, 3], 1.5)
    case(aten.full.default, [2], 7)
    case(aten.full.default, [2], True)
    case(aten.full.default, [], 0.1, dtype=torch.bfloat16)
    case(aten.full_like.default, like, 2)
    case(aten.full_like.default, like, 2.7, dtype=torch.int32)
    case(aten.new_full.default, like, [4], 3)
    for name in ("zeros", "ones"):
        case(getattr(aten, name).default, [2, 3])
        case(getattr(aten, name + "_like").default, like.t())
        case(getattr(aten, name + "_like").default, like, dtype=torch.bool)
        case(getattr(aten, "new_" + name).default, like, [4, 1], dtype=torch.int64)
    # What is in an empty tensor is not promised; here it is zeros.
    case(aten.empty.memory_format, [2, 3], reference=lambda *a, **k: torch.zeros(2, 3))
    case(aten.empty_like.default, like, reference=lambda *a, **k: torch.zeros(2, 3))
    case(aten.new_empty.default, like, [4], reference=lambda *a, **k: torch.zeros(4))
    strided = torch.zeros(3, 2).t()
    case(aten.empty_strided.default, [2, 3], [1, 2], reference=lambda *a, **k: strided)
    case(aten.new_empty_strided.default, like, [2, 3], [1, 2], reference=lambda *a, **k: strided)
    case(aten.empty_permuted.default, [2, 3], [1, 0], reference=lambda *a, **k: strided)
    case(aten.fill.Scalar, like, 1.5)
    case(aten.fill.Tensor, like, torch.tensor(2, dtype=torch.int64))
    case(aten.zero.default, like)
    case(aten.scalar_tensor.default, 2.5)
    case(aten.scalar_tensor.default, 3, dtype=torch.float64)
    case(aten.arange.default, 5)
    case(aten.arange.default, 2.5)
    case(aten.arange.start, 2, 7, dtype=torch.float32)
    case(aten.arange.start_step, 10, 1, -3)
    case(aten.arange.start_step, 0, 1, 0.3)
    case(aten.arange.start_step, 0, 9, 2, dtype=torch.int32)
    case(prims.iota.default, 5, start=3, step=2, dtype=torch.int64, device=CPU, requires_grad=False)
    case(aten.linspace.default, 0, 1, 7)
    case(aten.linspace.default, 3.5, -1, 4)
    case(aten.linspace.default, 2, 3, 1)
    case(aten.eye.default, 3)
    case(aten.eye.m, 2, 4, dtype=torch.int64)
    for diagonal in (-1, 0, 2):
        case(aten.tril.default, special(), diagonal)
        case(aten.triu.default, rand(2, 3, 4), diagonal)


def main() -> None:
    for group in (unary, arithmetic, logic, choices, copies, views, joins, creation):
        group()
    lines = ",\n".join(json.dumps(c, separators=(",", ":")) for c in CASES)
    OUT.write_text("[\n" + lines + "\n]\n")
    print(f"{len(CASES)} cases in {OUT.name}, {OUT.stat().st_size // 1024} KiB")


if __name__ == "__main__":
    main()
