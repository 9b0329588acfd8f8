# SPDX-License-Identifier: Apache-2.0
"""Symbolic sizes: sympy expressions of torch's ShapeEnv to SymExpr of graph.proto.

Symbols are numbered by their first appearance in the graph's inputs, sizes first, so that the names
that torch gives them never reach the wire. Rounded real numbers (definitions.py) are symbols as
well: of inputs that show them, or behind those, with a definition.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import sympy
import torch
from torch import fx

from .. import torch_compat
from ..errors import ExportError
from ..v1 import graph_pb2
from .definitions import Makers, as_quotient, definition_of, has_rounded
from .expressions import evaluate, evaluate_definition, symbols_in

_MOST = 2**63 - 1
_LEAST = -(2**63)
_ADD, _MUL = graph_pb2.SymOp.ADD, graph_pb2.SymOp.MUL
_FLOOR_DIV, _MOD = graph_pb2.SymOp.FLOOR_DIV, graph_pb2.SymOp.MOD
_MIN, _MAX = graph_pb2.SymOp.MIN, graph_pb2.SymOp.MAX
_LONGEST_POWER = 8
# What schedules take a size for that data decides.
_DATA_SIZE_HINT = 4096


def constant(value: int) -> graph_pb2.SymExpr:
    """A SymExpr for an integer."""
    if not _LEAST <= value <= _MOST:
        raise ExportError(f"the integer {value} does not fit into 64 bits")
    return graph_pb2.SymExpr(constant=value)


class Symbols:
    """The symbols of one graph, of these nodes."""

    def __init__(self, shape_env: Any, nodes: Iterable[fx.Node] = ()) -> None:
        self._shape_env = shape_env
        self._makers = Makers(shape_env, nodes, _expression)
        self._numbers: dict[sympy.Expr, int] = {}
        self._hints: dict[sympy.Expr, int | None] = {}  # of what inputs show
        self._definitions: dict[sympy.Expr, graph_pb2.Definition] = {}
        self._protos: list[graph_pb2.Symbol] = []  # of as many as there were
        self._has_rounded = False  # what is being converted

    def anew(self) -> Symbols:
        """Of the same graph, with none numbered."""
        copy = Symbols(self._shape_env)
        copy._makers = self._makers
        return copy

    def show(self, value: Any) -> None:
        """Numbers a size of an input that is a symbol, or made of rounded numbers: where a call
        finds it, it is as good as a symbol."""
        if not isinstance(value, torch.SymInt):
            return
        expression = _expression(value)
        if isinstance(expression, sympy.Symbol) or has_rounded(expression):
            self._numbers.setdefault(expression, len(self._numbers))
            self._hints[expression] = torch_compat.hint_of(value)

    def add(self, value: Any) -> None:
        """Numbers the symbols of a number of an input, behind those that inputs show."""
        if isinstance(value, torch.SymInt):
            self._add(_expression(value))

    def _add(self, e: Any) -> None:
        if isinstance(e, sympy.Symbol):
            self._numbers.setdefault(e, len(self._numbers))
        elif e not in self._numbers:
            for part in e.args:
                self._add(part)

    def convert(self, value: int | torch.SymInt) -> graph_pb2.SymExpr:
        """The SymExpr of a size, stride or integer argument."""
        if isinstance(value, int):  # bool too: True is 1 as an integer
            return constant(int(value))
        self._has_rounded = False
        converted = self._convert(_expression(value))
        if self._has_rounded and (hint := torch_compat.hint_of(value)) is not None:
            said = evaluate(converted, [symbol.hint for symbol in self.protos()])
            if said != hint:
                raise ExportError(f"the size {value} is {said} to torch, but {hint} in the call")
        return converted

    def protos(self) -> list[graph_pb2.Symbol]:
        """Graph.symbols."""
        if len(self._protos) != len(self._numbers):
            self._protos = self._made_protos()
        return self._protos

    def _made_protos(self) -> list[graph_pb2.Symbol]:
        result: list[graph_pb2.Symbol] = []
        for e in self._numbers:
            least, most = self._range(e)
            definition = self._definitions.get(e)
            if definition is not None:
                hint, from_data = _hint_of(e, definition, result)
            else:
                hint = self._hints.get(e)
                if hint is None and e.is_Symbol:
                    hint = torch_compat.symbol_hint(self._shape_env, e)
                from_data = hint is None
            if from_data or hint is None:
                hint = max(least, min(most, _DATA_SIZE_HINT if hint is None else hint))
            if not least <= hint <= most:
                raise ExportError(f"the size {e} is {hint}, not from {least} to {most}")
            result.append(
                graph_pb2.Symbol(
                    hint=hint, min=least, max=most, from_data=from_data, definition=definition
                )
            )
        return result

    def _range(self, e: Any) -> tuple[int, int]:
        low, high = torch_compat.range_of(self._shape_env, e)
        least, most = _bound(low, _LEAST), _bound(high, _MOST)
        if e.is_Symbol:
            return least, most
        # By torch's order of operations, which may round to a neighbour.
        return max(least - 1, 0 if least >= 0 else _LEAST), min(most + 1, _MOST)

    def _convert(self, e: Any) -> graph_pb2.SymExpr:
        if e in self._numbers:
            return graph_pb2.SymExpr(symbol=self._numbers[e])
        if isinstance(e, sympy.Symbol):
            raise ExportError(f"the size {e} is bound by no input (it depends on data)")
        if e.is_Integer:
            return constant(int(e))
        rule = _RULES.get(type(e).__name__)
        if rule is None:
            raise ExportError(f"the size {e} has no form on the wire ({type(e).__name__})")
        return rule(self, e)

    def divisor(self, e: Any) -> graph_pb2.SymExpr:
        """What the daemon divides by, which must be positive. Of what may be 0, at least 1: a
        call in which it is 0 has raised before. ExportError for what may be negative."""
        divisor = self._convert(e)
        if e.is_Integer or self._shape_env is None:
            return divisor
        least = torch_compat.least_of(self._shape_env, e)
        if least < 0:
            raise ExportError(f"a size divided by {e}, which may be negative, has no form")
        return divisor if least > 0 else self.op(_MAX, [constant(1), divisor])

    def is_negative(self, e: Any) -> bool | None:
        """Whether an integer is always below 0; None where it may be or not."""
        if e.is_nonnegative or e.is_negative:  # by what its symbols are
            return bool(e.is_negative)
        if self._shape_env is None:
            return None
        if torch_compat.least_of(self._shape_env, e) >= 0:
            return False
        return True if torch_compat.least_of(self._shape_env, -e) >= 0 else None

    def rounded(self, e: Any) -> graph_pb2.SymExpr:
        """math.ceil, math.floor, int or round of a number: a whole division where it is one, and
        otherwise a symbol that is defined as that. ExportError for what has no definition."""
        rounded = self._makers.rounded(e)
        quotient = as_quotient(rounded.real)
        up = None if quotient is None else self._rounds_up(rounded.rounding, quotient[0])
        self._has_rounded = True
        if quotient is None or up is None or self.is_negative(quotient[1]) is not False:
            return self._define(e, definition_of(rounded, self._convert))
        by, dividend = self.divisor(quotient[1]), self._convert(quotient[0])
        return self.ceil_div(dividend, by) if up else self.op(_FLOOR_DIV, [dividend, by])

    def _define(self, e: Any, definition: graph_pb2.Definition) -> graph_pb2.SymExpr:
        number = len(self._numbers)
        self._definitions[e], self._numbers[e] = definition, number
        try:
            if self._shape_env is not None:
                self.protos()
        except ExportError:
            del self._definitions[e], self._numbers[e]
            raise
        return graph_pb2.SymExpr(symbol=number)

    def _rounds_up(self, rounding: graph_pb2.Definition.Rounding, dividend: Any) -> bool | None:
        """None where it may be either."""
        if rounding == graph_pb2.Definition.TRUNC:
            return self.is_negative(dividend)
        directions = {graph_pb2.Definition.FLOOR: False, graph_pb2.Definition.CEIL: True}
        return directions.get(rounding)

    def ceil_div(
        self, dividend: graph_pb2.SymExpr, divisor: graph_pb2.SymExpr
    ) -> graph_pb2.SymExpr:
        """-((-dividend) // divisor)."""
        negated = self.op(_MUL, [constant(-1), dividend])
        return self.op(_MUL, [constant(-1), self.op(_FLOOR_DIV, [negated, divisor])])

    def op(
        self, kind: graph_pb2.SymOp.Kind, arguments: list[graph_pb2.SymExpr]
    ) -> graph_pb2.SymExpr:
        """A SymOp. Commutative arguments are ordered by their bytes, since sympy orders by name."""
        if kind in (_ADD, _MUL, _MIN, _MAX):
            arguments = sorted(arguments, key=lambda a: a.SerializeToString(deterministic=True))
        return graph_pb2.SymExpr(op=graph_pb2.SymOp(kind=kind, args=arguments))


def _expression(value: torch.SymInt) -> Any:
    expression = value.node.expr
    # A symbol may have been replaced by another (s1 == s0) after this value was made.
    shape_env = value.node.shape_env
    if shape_env is None or expression.is_Integer or expression.is_Symbol:
        return expression if shape_env is None else shape_env.replace(expression)
    expression = shape_env.replace(expression)
    # What the guards know to divide evenly may cancel: n // (n // 2) is 2 where n is even.
    simple = shape_env.simplify(expression)
    return simple if simple.is_Integer or simple.is_Symbol else expression


def _hint_of(
    e: Any, definition: graph_pb2.Definition, before: list[graph_pb2.Symbol]
) -> tuple[int | None, bool]:
    """And whether data decides it. ExportError where the number of the call at hand is no integer
    of 64 bits."""
    from_data = any(before[number].from_data for number in symbols_in(definition.real))
    try:
        return evaluate_definition(definition, [symbol.hint for symbol in before]), from_data
    except ValueError as error:
        if from_data:
            return None, True
        raise ExportError(f"the size {e} has no form on the wire: {error}") from error


def _bound(value: Any, otherwise: int) -> int:
    try:
        return max(_LEAST, min(_MOST, int(value)))
    except (TypeError, ValueError, OverflowError, AttributeError):
        return otherwise  # an infinity, of which sympy and torch have several


def _nary(kind: graph_pb2.SymOp.Kind) -> Callable[[Symbols, Any], graph_pb2.SymExpr]:
    return lambda s, e: s.op(kind, [s._convert(a) for a in e.args])


def _quotient(kind: graph_pb2.SymOp.Kind) -> Callable[[Symbols, Any], graph_pb2.SymExpr]:
    def convert(s: Symbols, e: Any) -> graph_pb2.SymExpr:
        return s.op(kind, [s._convert(e.args[0]), s.divisor(e.args[1])])

    return convert


def _power(s: Symbols, e: Any) -> graph_pb2.SymExpr:
    base, exponent = e.args
    if not exponent.is_Integer or not 1 <= int(exponent) <= _LONGEST_POWER:
        raise ExportError(f"the size {e} has no form on the wire (power)")
    return s.op(_MUL, [s._convert(base)] * int(exponent))


def _modular_indexing(s: Symbols, e: Any) -> graph_pb2.SymExpr:
    base, divisor, modulus = (s._convert(a) for a in e.args)  # (base // divisor) % modulus
    return s.op(_MOD, [s.op(_FLOOR_DIV, [base, divisor]), modulus])


def _shift(s: Symbols, e: Any, kind: graph_pb2.SymOp.Kind) -> graph_pb2.SymExpr:
    base, bits = e.args
    if not bits.is_Integer or not 0 <= int(bits) < 63:
        raise ExportError(f"the size {e} has no form on the wire (shift)")
    return s.op(kind, [s._convert(base), constant(1 << int(bits))])


# By the class's name: torch's classes moved between modules from version to version.
_RULES: dict[str, Callable[[Symbols, Any], graph_pb2.SymExpr]] = {
    "Add": _nary(_ADD),
    "Mul": _nary(_MUL),
    "Min": _nary(_MIN),
    "Max": _nary(_MAX),
    "FloorDiv": _quotient(_FLOOR_DIV),
    "CleanDiv": _quotient(_FLOOR_DIV),
    "Mod": _quotient(_MOD),
    "PythonMod": _quotient(_MOD),
    "Pow": _power,
    "PowByNatural": _power,
    "ModularIndexing": _modular_indexing,
    "CeilDiv": lambda s, e: s.ceil_div(*(s._convert(a) for a in e.args)),
    "CeilToInt": Symbols.rounded,
    "FloorToInt": Symbols.rounded,
    "TruncToInt": Symbols.rounded,
    "RoundToInt": Symbols.rounded,
    "Identity": lambda s, e: s._convert(e.args[0]),
    "LShift": lambda s, e: _shift(s, e, _MUL),
    "RShift": lambda s, e: _shift(s, e, _FLOOR_DIV),
}
