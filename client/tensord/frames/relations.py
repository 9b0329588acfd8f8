# SPDX-License-Identifier: Apache-2.0
"""Comparisons of sizes and numbers (Relation): written as torch prints them, and compiled again
from a subset of Python that can do nothing else."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from typing import Any

from ..v1 import frame_pb2
from .errors import UnfitError

_OPERATORS = (
    ast.And, ast.Or, ast.Not, ast.USub, ast.UAdd, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod,
    ast.Div, ast.Pow, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE,
)  # fmt: skip
_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "min": min, "max": max, "abs": abs, "int": int, "float": float, "bool": bool, "round": round,
    "math.floor": math.floor, "math.ceil": math.ceil, "math.trunc": math.trunc,
    "math.sqrt": math.sqrt, "math.isnan": math.isnan, "math.isinf": math.isinf,
    "math.log2": math.log2, "torch.sym_float": float, "torch.sym_int": int,
    "torch.sym_max": max, "torch.sym_min": min, "torch._sym_sqrt": math.sqrt,
}  # fmt: skip
_CONSTANTS = {"math.inf": math.inf, "math.nan": math.nan, "inf": math.inf}
_LONGEST = 20_000
_LARGEST_POWER = 64


def compile_relation(relation: frame_pb2.Relation) -> Callable[..., bool]:
    """A function of the symbols' values; raises UnfitError for what is no such comparison."""
    symbols = list(relation.symbols)
    if not all(name.isidentifier() for name in symbols) or len(set(symbols)) != len(symbols):
        raise UnfitError("symbols of a relation are not distinct names")
    if len(relation.expression) > _LONGEST:
        raise UnfitError("a relation is too long")
    try:
        parsed = ast.parse(relation.expression.strip(), mode="eval")
        body = _Checker(set(symbols)).visit(parsed.body)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnfitError(f"no relation: {relation.expression[:80]!r}: {error}") from error
    arguments = [ast.arg(_own(name)) for name in symbols]
    function = ast.Lambda(ast.arguments([], arguments, None, [], [], None, []), body)
    code = compile(ast.fix_missing_locations(ast.Expression(function)), "<relation>", "eval")
    scope = {_own(name): value for name, value in {**_FUNCTIONS, **_CONSTANTS}.items()}
    compiled: Callable[..., bool] = eval(code, {"__builtins__": {}, **scope})
    return compiled


def _own(name: str) -> str:
    """A name as the compiled function has it: none of Python's."""
    return "_" + name.replace(".", "__")


class _Checker(ast.NodeTransformer):
    """Gives the expression with names of its own, or raises ValueError."""

    def __init__(self, symbols: set[str]) -> None:
        self._symbols = symbols

    def generic_visit(self, node: ast.AST) -> Any:
        if not isinstance(node, (ast.BoolOp, ast.UnaryOp, ast.BinOp, ast.Compare, ast.IfExp)):
            if isinstance(node, _OPERATORS):
                return node
            raise ValueError(f"{type(node).__name__} is not allowed")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
            power = node.right
            if not isinstance(power, ast.Constant) or not _is_small(power.value):
                raise ValueError("a power that is no small number")
        return super().generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> Any:
        if type(node.value) not in (int, float, bool):
            raise ValueError(f"a constant of type {type(node.value).__name__}")
        return node

    def visit_Name(self, node: ast.Name) -> Any:
        if node.id not in self._symbols and node.id not in _CONSTANTS:
            raise ValueError(f"no symbol is called {node.id}")
        return ast.Name(_own(node.id), ast.Load())

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        if _dotted(node) not in _CONSTANTS:
            raise ValueError("an attribute")
        return ast.Name(_own(_dotted(node)), ast.Load())

    def visit_Call(self, node: ast.Call) -> Any:
        name = _dotted(node.func)
        if name not in _FUNCTIONS or node.keywords:
            raise ValueError(f"a call of {name or 'something'}")
        function = ast.Name(_own(name), ast.Load())
        return ast.Call(function, [self.visit(argument) for argument in node.args], [])


def _is_small(value: object) -> bool:
    return type(value) in (int, float) and abs(value) <= _LARGEST_POWER  # type: ignore[arg-type]


def _dotted(node: ast.AST) -> str:
    """The name "math.floor" of such an expression; "" of another."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return f"{node.value.id}.{node.attr}"
    return ""
