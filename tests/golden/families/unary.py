# SPDX-License-Identifier: Apache-2.0
"""Functions of one number."""

from __future__ import annotations

import torch
from recorder import aten, case, integers, rand, special, uniform

FLOAT_UNARY = {
    "sqrt rsqrt log log2 log10 log1p digamma lgamma acosh": (0.1, 4.0),
    "asin acos atanh erfinv": (-0.95, 0.95),
    "exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc reciprocal": (-2.0, 2.0),
}


def cases() -> None:
    for names, (low, high) in FLOAT_UNARY.items():
        for name in names.split():
            op = getattr(aten, name)
            tolerance = 1e-4 if name in ("acosh", "erfinv", "tan", "digamma") else None
            case(op, uniform(3, 5, low=low, high=high), tolerance=tolerance)
            of_integers = int(low > 0 or name == "reciprocal")
            case(op, torch.full((3,), of_integers))
    for name in ["sqrt", "rsqrt", "exp", "log", "tanh", "erf", "reciprocal"]:
        case(getattr(aten, name), special())
        case(getattr(aten, name), uniform(3, 5).bfloat16() + 0.5)
    for name in ["neg", "abs", "sign", "sgn", "floor", "ceil", "round", "trunc", "square"]:
        op = getattr(aten, name)
        case(op, rand(3, 5))
        case(op, special() if name != "sign" and name != "sgn" else rand(7))
        case(op, integers(6))
        case(op, integers(6, dtype=torch.int32))
        case(op, rand(6, dtype=torch.float16))
    case(aten.round, torch.tensor([0.5, 1.5, 2.5, -0.5, -1.5]))
    case(aten.frac, rand(6))
    case(aten.nan_to_num, special())
    case(aten.nan_to_num, special(), 1.0, 2.0, -3.0)
    case(aten.nan_to_num, special().half(), None, None, None)
    case(aten.nan_to_num, integers(3))
