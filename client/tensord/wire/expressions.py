# SPDX-License-Identifier: Apache-2.0
"""The values of SymExpr messages."""

from __future__ import annotations

import functools
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
