# SPDX-License-Identifier: Apache-2.0
"""Integers that are rounded real numbers, such as int(1.7 * n), to Definition of graph.proto.

Real numbers are rounded at each operation, so their order counts. torch's expressions do not keep
it: `n * 0.7 * 10` is 7.0 * n to them. The graph's nodes do, where the job's code computed a number;
what torch's own functions compute, as the size of what is scaled by a factor, is one operation.
"""

from __future__ import annotations

import math
import operator
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import sympy
import torch
from torch import fx

from ..errors import ExportError
from ..v1 import graph_pb2
from .call_backs import COMPUTED_BY

_REAL = graph_pb2.RealOp
_DEFINITION = graph_pb2.Definition

# By the class's name: torch's classes moved between modules from version to version.
_ROUNDINGS = {
    "TruncToInt": _DEFINITION.TRUNC,
    "FloorToInt": _DEFINITION.FLOOR,
    "CeilToInt": _DEFINITION.CEIL,
    "RoundToInt": _DEFINITION.NEAREST,
}
_KINDS = {
    "Mul": _REAL.MUL,
    "Add": _REAL.ADD,
    "IntTrueDiv": _REAL.DIV,
    "FloatTrueDiv": _REAL.DIV,
    "FloatPow": _REAL.POW,
    "OpaqueUnaryFn_sqrt": _REAL.SQRT,
}
_ROUNDING_NODES: dict[Any, graph_pb2.Definition.Rounding] = {
    math.trunc: _DEFINITION.TRUNC,
    torch.sym_int: _DEFINITION.TRUNC,
    math.floor: _DEFINITION.FLOOR,
    math.ceil: _DEFINITION.CEIL,
    round: _DEFINITION.NEAREST,
}
_NODE_KINDS: dict[Any, graph_pb2.RealOp.Kind] = {
    operator.mul: _REAL.MUL,
    operator.add: _REAL.ADD,
    operator.truediv: _REAL.DIV,
    operator.pow: _REAL.POW,
    pow: _REAL.POW,
    math.sqrt: _REAL.SQRT,
    torch._sym_sqrt: _REAL.SQRT,  # type: ignore[attr-defined]
}
# Products of a size with such a factor are exact in float64 for all sizes below 2**40.
_MOST_BITS = 12


@dataclass(frozen=True)
class Operation:
    """Of real numbers: float constants, integers as sympy expressions, operations."""

    kind: graph_pb2.RealOp.Kind
    args: tuple[Any, ...]

    @staticmethod
    def of(kind: graph_pb2.RealOp.Kind, args: Iterable[Any]) -> Operation:
        """The same one for operands in either order, of a product or a sum of two."""
        given = tuple(args)
        if kind in (_REAL.MUL, _REAL.ADD) and len(given) == 2:
            given = tuple(sorted(given, key=str))
        return Operation(kind, given)


@dataclass(frozen=True)
class Rounded:
    """A real number and how it is rounded."""

    rounding: graph_pb2.Definition.Rounding
    real: Any


def has_rounded(e: Any) -> bool:
    """Whether a sympy expression is or contains a rounded real number."""
    return any(type(part).__name__ in _ROUNDINGS for part in sympy.preorder_traversal(e))


# How nodes compute what they round, or why that has no form, by what torch's expressions of it are:
# of all graphs of a ShapeEnv, for backward has sizes that forward's nodes compute.
_Ways = dict[Any, set[Rounded | str]]
_WAYS: weakref.WeakKeyDictionary[Any, _Ways] = weakref.WeakKeyDictionary()


class Makers:
    """How nodes of a graph, and of those before it of the same sizes, compute what they round.
    `expression_of`: the expression of a SymInt."""

    def __init__(
        self, shape_env: Any, nodes: Iterable[fx.Node], expression_of: Callable[[Any], Any]
    ) -> None:
        self._expression_of = expression_of
        self._ways: _Ways = {} if shape_env is None else _WAYS.setdefault(shape_env, {})
        for node in nodes:
            value = node.meta.get("val") if node.target in _ROUNDING_NODES else None
            if isinstance(value, torch.SymInt):
                self._ways.setdefault(expression_of(value), set()).add(self._of_node(node))

    def rounded(self, e: Any) -> Rounded:
        """What `e` is. ExportError for what has no definition, or where that is not known."""
        ways = self._ways.get(e)
        if ways is None:  # no node computes it
            return Rounded(_ROUNDINGS[type(e).__name__], _one_operation(e.args[0]))
        if len(ways) > 1:
            raise ExportError(f"the size {e} is computed in several ways")
        (way,) = ways
        if isinstance(way, str):
            raise ExportError(way)
        return way

    def _of_node(self, node: fx.Node) -> Rounded | str:
        if any(more is not None for more in (*node.args[1:], *node.kwargs.values())):
            return f"{node.name} has no form on the wire"  # to so many decimal places
        try:
            return Rounded(_ROUNDING_NODES[node.target], self._real(node.args[0]))
        except ExportError as error:
            return str(error)

    def _real(self, given: Any) -> Any:
        if isinstance(given, (int, float)):
            return float(given)
        if isinstance(given, fx.Node):
            given = given.meta.get(COMPUTED_BY, given)
        value = given.meta.get("val") if isinstance(given, fx.Node) else given
        if isinstance(value, torch.SymInt):
            return self._expression_of(value)
        if not isinstance(given, fx.Node):
            raise ExportError(f"{given} has no form on the wire")
        if given.target is torch.sym_float:
            return self._real(given.args[0])
        if given.target in (operator.sub, operator.neg):
            *first, last = (self._real(one) for one in given.args)
            negated = Operation.of(_REAL.MUL, (-1.0, last))
            return Operation.of(_REAL.ADD, (first[0], negated)) if first else negated
        kind = _NODE_KINDS.get(given.target)
        if kind is None or given.kwargs:
            raise ExportError(f"the number {given.name} has no form on the wire")
        return Operation.of(kind, map(self._real, given.args))


def _one_operation(e: Any) -> Any:
    """A real number of no more than one operation as torch has it."""
    kind = _KINDS.get(type(e).__name__)
    if type(e).__name__ == "IntTrueDiv":
        return Operation(_REAL.DIV, e.args)
    if kind is None or len(e.args) > 2:
        return _leaf(e)
    return Operation.of(kind, map(_leaf, e.args))


def _leaf(e: Any) -> Any:
    if e.is_Float or e.is_Rational:
        return float(e)
    if type(e).__name__ == "ToFloat":
        return e.args[0]
    raise ExportError(f"the number {e} has no form on the wire ({type(e).__name__})")


def as_quotient(real: Any) -> tuple[Any, Any] | None:
    """A real number as a dividend and a divisor that are integers, where float64 has their quotient
    exactly or, for a dividend below 2**53, rounds it as their whole division does."""
    if not isinstance(real, Operation) or len(real.args) != 2:
        return None
    first, second = real.args
    if real.kind == _REAL.DIV and _is_integer(first) and _is_integer(second):
        return first, second
    if isinstance(second, float):
        first, second = second, first
    if real.kind != _REAL.MUL or not isinstance(first, float) or not _is_integer(second):
        return None
    if not math.isfinite(first):
        return None
    ratio = Fraction(first)
    if max(abs(ratio.numerator), ratio.denominator).bit_length() > _MOST_BITS:
        return None
    return ratio.numerator * second, sympy.Integer(ratio.denominator)


def _is_integer(real: Any) -> bool:
    return not isinstance(real, (float, Operation))


def definition_of(
    rounded: Rounded, convert: Callable[[Any], graph_pb2.SymExpr]
) -> graph_pb2.Definition:
    """The message; `convert` says its integers."""
    return _DEFINITION(rounding=rounded.rounding, real=_real_expr(rounded.real, convert))


def _real_expr(real: Any, convert: Callable[[Any], graph_pb2.SymExpr]) -> graph_pb2.RealExpr:
    if isinstance(real, float):
        return graph_pb2.RealExpr(constant=real)
    if not isinstance(real, Operation):
        return graph_pb2.RealExpr(integer=convert(real))
    args = [_real_expr(one, convert) for one in real.args]
    if real.kind in (_REAL.ADD, _REAL.MUL):  # of two, in the order of names in torch's expressions
        args.sort(key=lambda one: one.SerializeToString(deterministic=True))
    return graph_pb2.RealExpr(op=_REAL(kind=real.kind, args=args))
