# SPDX-License-Identifier: Apache-2.0
"""The values of SymExpr and Definition messages."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence

from ..v1 import graph_pb2

_OPERATIONS: dict[int, Callable[[int, int], int]] = {
    graph_pb2.SymOp.ADD: operator.add,
    graph_pb2.SymOp.MUL: operator.mul,
    graph_pb2.SymOp.FLOOR_DIV: operator.floordiv,
    graph_pb2.SymOp.MOD: operator.mod,
    graph_pb2.SymOp.MIN: min,
    graph_pb2.SymOp.MAX: max,
}
_REAL_OPERATIONS: dict[int, Callable[..., float]] = {
    graph_pb2.RealOp.ADD: lambda *args: functools.reduce(operator.add, args),
    graph_pb2.RealOp.MUL: lambda *args: functools.reduce(operator.mul, args),
    graph_pb2.RealOp.DIV: operator.truediv,
    graph_pb2.RealOp.POW: math.pow,
    graph_pb2.RealOp.SQRT: math.sqrt,
}
_ROUNDINGS: dict[int, Callable[[float], int]] = {
    graph_pb2.Definition.TRUNC: math.trunc,
    graph_pb2.Definition.FLOOR: math.floor,
    graph_pb2.Definition.CEIL: math.ceil,
    graph_pb2.Definition.NEAREST: round,
}


def evaluate(expression: graph_pb2.SymExpr, symbols: Sequence[int]) -> int:
    """The value of an expression over symbols of these values; 0 of one that is absent.

    Raises ValueError for what the wire cannot mean: an unknown operation or symbol, a division by
    zero.
    """
    kind = expression.WhichOneof("kind")
    if kind is None:
        return 0
    if kind == "constant":
        return expression.constant
    if kind == "symbol":
        if expression.symbol >= len(symbols):
            raise ValueError(f"there is no symbol {expression.symbol}")
        return symbols[expression.symbol]
    operation = _OPERATIONS.get(expression.op.kind)
    if operation is None or not expression.op.args:
        raise ValueError(f"an operation {expression.op.kind} of integers is not known")
    values = [evaluate(one, symbols) for one in expression.op.args]
    try:
        return functools.reduce(operation, values)
    except ZeroDivisionError as error:
        raise ValueError("an expression divides by zero") from error


def evaluate_definition(definition: graph_pb2.Definition, symbols: Sequence[int]) -> int:
    """The value of a defined symbol, where those before it have these.

    Raises ValueError for what the wire cannot mean, and where the value is no integer.
    """
    rounded = _ROUNDINGS.get(definition.rounding)
    if rounded is None:
        raise ValueError(f"a rounding {definition.rounding} is not known")
    try:
        value = rounded(_real(definition.real, symbols))
        if not -(2**63) <= value < 2**63:
            raise OverflowError(f"{value} does not fit into 64 bits")
        return value
    except (OverflowError, ZeroDivisionError, TypeError) as error:
        raise ValueError(f"a definition has no value: {error}") from error


def _real(real: graph_pb2.RealExpr, symbols: Sequence[int]) -> float:
    kind = real.WhichOneof("kind")
    if kind == "constant":
        return real.constant
    if kind == "integer":
        return float(evaluate(real.integer, symbols))
    operation = _REAL_OPERATIONS.get(real.op.kind)
    if operation is None or not real.op.args:
        raise ValueError(f"an operation {real.op.kind} of real numbers is not known")
    return operation(*(_real(one, symbols) for one in real.op.args))


def symbols_in(real: graph_pb2.RealExpr | graph_pb2.SymExpr) -> set[int]:
    """The numbers of all symbols in it."""
    kind = real.WhichOneof("kind")
    if kind == "symbol" and isinstance(real, graph_pb2.SymExpr):
        return {real.symbol}
    if kind == "integer" and isinstance(real, graph_pb2.RealExpr):
        return symbols_in(real.integer)
    return set[int]().union(*(symbols_in(one) for one in real.op.args)) if kind == "op" else set()
