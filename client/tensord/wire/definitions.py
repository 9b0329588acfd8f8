# SPDX-License-Identifier: Apache-2.0
"""Integers that are rounded real numbers, such as int(1.7 * n): sympy expressions of torch's
ShapeEnv to Definition of graph.proto."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import sympy

from ..errors import ExportError
from ..v1 import graph_pb2

Convert = Callable[[Any], graph_pb2.SymExpr]
_REAL = graph_pb2.RealOp
_ROUNDINGS = {
    "TruncToInt": graph_pb2.Definition.TRUNC,
    "FloorToInt": graph_pb2.Definition.FLOOR,
    "CeilToInt": graph_pb2.Definition.CEIL,
    "RoundToInt": graph_pb2.Definition.NEAREST,
}
_KINDS = {
    "Add": _REAL.ADD,
    "Mul": _REAL.MUL,
    "FloatTrueDiv": _REAL.DIV,
    "FloatPow": _REAL.POW,
    "OpaqueUnaryFn_sqrt": _REAL.SQRT,
}
# Products of a size with such a factor are exact in float64 for all sizes below 2**40.
_MOST_BITS = 12


def definition_of(e: Any, convert: Convert) -> graph_pb2.Definition:
    """The Definition of a rounded real number; `convert` says its integers. ExportError for what
    has none."""
    (real,) = e.args
    rounding = _ROUNDINGS[type(e).__name__]
    return graph_pb2.Definition(real=_real(real, convert), rounding=rounding)


def as_quotient(real: Any) -> tuple[Any, Any] | None:
    """A real number as a dividend and a divisor that are integers, where float64 has their quotient
    exactly or, for a dividend below 2**53, rounds it as their whole division does."""
    if type(real).__name__ == "IntTrueDiv":
        dividend, divisor = real.args
        return dividend, divisor
    if not real.is_Mul or len(real.args) != 2:
        return None
    factor, integer = real.args
    if not factor.is_Float or type(integer).__name__ != "ToFloat":
        return None
    ratio = Fraction(float(factor))
    if max(abs(ratio.numerator), ratio.denominator).bit_length() > _MOST_BITS:
        return None
    return ratio.numerator * integer.args[0], sympy.Integer(ratio.denominator)


def _real(e: Any, convert: Convert) -> graph_pb2.RealExpr:
    name = type(e).__name__
    if e.is_Float or e.is_Rational:
        return graph_pb2.RealExpr(constant=float(e))
    if name == "ToFloat":
        return graph_pb2.RealExpr(integer=convert(e.args[0]))
    if name == "IntTrueDiv":
        parts = [graph_pb2.RealExpr(integer=convert(one)) for one in e.args]
        return graph_pb2.RealExpr(op=_REAL(kind=_REAL.DIV, args=parts))
    kind = _KINDS.get(name)
    if kind is None:
        raise ExportError(f"the number {e} has no form on the wire ({name})")
    args = [_real(one, convert) for one in e.args]
    if kind in (_REAL.ADD, _REAL.MUL):  # sympy orders by name
        args.sort(key=lambda one: one.SerializeToString(deterministic=True))
    return graph_pb2.RealExpr(op=_REAL(kind=kind, args=args))
