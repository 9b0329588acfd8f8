#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes expression_vectors.json and definition_vectors.json, which every evaluator of sizes is
compared with.

    .venv/bin/python tests/golden/expression_vectors.py

A line of the former has an expression as graph.proto's SymExpr and, where the client writes it, as
sympy's text; and for several values of the symbols the result by Python's integers, null where a
step leaves 64 bits or divides by zero. The compiler refuses expressions whose divisor may be
negative or 0. The latter has Definitions in their place: roundings of Python's float numbers, null
where the rounded number is no integer of 64 bits.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUT = Path(__file__).with_name("expression_vectors.json")
DEFINITIONS_OUT = Path(__file__).with_name("definition_vectors.json")
MOST = 2**63 - 1

# An expression as on the wire: an integer, a symbol, or a kind and its operands.
Form = int | str | tuple[Any, ...]
ADD, MUL, DIV, MOD, MIN, MAX = "ADD", "MUL", "FLOOR_DIV", "MOD", "MIN", "MAX"
# sympy's text in the symbols a, b; the form.
EXPRESSIONS: list[tuple[str | None, Form]] = [
    ("a", "a"),
    ("a + b", (ADD, "a", "b")),
    ("2*a*b - 3", (ADD, -3, (MUL, 2, "a", "b"))),
    ("FloorDiv(a, 3)", (DIV, "a", 3)),
    ("FloorDiv(a - 7, 2)", (DIV, (ADD, -7, "a"), 2)),
    ("FloorDiv(a - 7, b)", (DIV, (ADD, -7, "a"), "b")),
    ("PythonMod(a - 7, 4)", (MOD, (ADD, -7, "a"), 4)),
    ("PythonMod(a - 7, b)", (MOD, (ADD, -7, "a"), "b")),
    ("Min(a, b)", (MIN, "a", "b")),
    ("Max(a - b, 2)", (MAX, 2, (ADD, "a", (MUL, -1, "b")))),
    ("CeilDiv(a, 4)", (MUL, -1, (DIV, (MUL, -1, "a"), 4))),
    ("a**3", (MUL, "a", "a", "a")),
    (None, (DIV, "a", -2)),
    (None, (MOD, "a", -2)),
    (None, (DIV, (ADD, -7, "a"), -3)),
    (None, (MOD, (ADD, -7, "a"), -3)),
    (None, (DIV, "a", (ADD, "b", -4))),
    (None, (MOD, "a", (ADD, "b", -4))),
    (None, (MUL, MOST, "a")),
    (None, (ADD, MOST, "a")),
    (None, (DIV, (ADD, -MOST, -1), (MUL, -1, "a"))),
]
# sympy's text; the rounding; the real number: a constant, an integer's form in a list, or an
# operation's name and its operands.
RealForm = float | list[Form] | tuple[Any, ...]
DEFINITIONS: list[tuple[str | None, str, RealForm]] = [
    ("TruncToInt(1.7*ToFloat(a))", "TRUNC", ("MUL", 1.7, ["a"])),
    ("TruncToInt(-0.3*ToFloat(a))", "TRUNC", ("MUL", -0.3, ["a"])),
    ("FloorToInt(-0.3*ToFloat(a))", "FLOOR", ("MUL", -0.3, ["a"])),
    ("CeilToInt(0.3*ToFloat(a + b))", "CEIL", ("MUL", 0.3, [(ADD, "a", "b")])),
    ("RoundToInt(0.5*ToFloat(a))", "NEAREST", ("MUL", 0.5, ["a"])),
    ("RoundToInt(-2.5*ToFloat(a))", "NEAREST", ("MUL", -2.5, ["a"])),
    ("TruncToInt(FloatPow(ToFloat(a), 0.5))", "TRUNC", ("POW", ["a"], 0.5)),
    ("FloorToInt(OpaqueUnaryFn_sqrt(ToFloat(a)))", "FLOOR", ("SQRT", ["a"])),
    (None, "TRUNC", ("ADD", 1.5, ("DIV", ["a"], 0.7))),
    (None, "CEIL", ("MUL", 2.3, ("DIV", ["a"], ["b"]))),
    ("CeilToInt(FloatTrueDiv(ToFloat(a), 0.7))", "CEIL", ("DIV", ["a"], 0.7)),
    ("TruncToInt(IntTrueDiv(a - b, 3))", "TRUNC", ("DIV", [(ADD, "a", (MUL, -1, "b"))], [3])),
    (None, "TRUNC", ("DIV", 1.0, [(ADD, "a", (MUL, -1, "b"))])),
    (None, "FLOOR", ("MUL", 3e18, ["a"])),
    (None, "CEIL", ("MUL", -9.3e18, ["a"])),
    (None, "NEAREST", ("SQRT", [(ADD, "b", (MUL, -1, "a"))])),
    (None, "TRUNC", [(DIV, "a", (ADD, "b", -4))]),
]
VALUES = [(1, 1), (2, 3), (5, 4), (7, 7), (12, 5), (4096, 17)]


def wire(form: Form) -> dict[str, Any]:
    if isinstance(form, int):
        return {"constant": str(form)}
    if isinstance(form, str):
        return {"symbol": "ab".index(form)}
    kind, *operands = form
    return {"op": {"kind": kind, "args": [wire(o) for o in operands]}}


def value_of(form: Form, symbols: dict[str, int]) -> int | None:
    """By Python's integers; nothing where a step leaves 64 bits or divides by zero."""
    if isinstance(form, int):
        return form
    if isinstance(form, str):
        return symbols[form]
    kind, *operands = form
    values = [value_of(o, symbols) for o in operands]
    total = values[0]
    for v in values[1:]:
        if total is None or v is None or (kind in (DIV, MOD) and v == 0):
            return None
        steps: dict[str, Callable[[int, int], int]] = {
            ADD: lambda x, y: x + y,
            MUL: lambda x, y: x * y,
            DIV: lambda x, y: x // y,
            MOD: lambda x, y: x % y,
            MIN: min,
            MAX: max,
        }
        total = steps[kind](total, v)
        if not -(2**63) <= total <= MOST:
            return None
    return total


def wire_real(form: RealForm) -> dict[str, Any]:
    if isinstance(form, float):
        return {"constant": form}
    if isinstance(form, list):
        return {"integer": wire(form[0])}
    kind, *operands = form
    return {"op": {"kind": kind, "args": [wire_real(o) for o in operands]}}


def real_of(form: RealForm, symbols: dict[str, int]) -> float:
    """By Python's float numbers, with NaN and infinities where Python raises."""
    if isinstance(form, float):
        return form
    if isinstance(form, list):
        value = value_of(form[0], symbols)
        return math.nan if value is None else float(value)
    kind, *operands = form
    values = [real_of(o, symbols) for o in operands]
    steps: dict[str, Callable[[float, float], float]] = {
        "ADD": lambda x, y: x + y,
        "MUL": lambda x, y: x * y,
        "DIV": lambda x, y: x / y if y else math.nan,
        "POW": math.pow,
    }
    if kind == "SQRT":
        return math.sqrt(values[0]) if values[0] >= 0 else math.nan
    return functools.reduce(steps[kind], values)


def defined_value_of(rounding: str, form: RealForm, symbols: dict[str, int]) -> int | None:
    """Nothing where the number is no integer of 64 bits."""
    real = real_of(form, symbols)
    if not math.isfinite(real):
        return None
    roundings: dict[str, Callable[[float], int]] = {
        "TRUNC": math.trunc,
        "FLOOR": math.floor,
        "CEIL": math.ceil,
        "NEAREST": round,
    }
    rounded = roundings[rounding](real)
    return rounded if -(2**63) <= rounded <= MOST else None


def _lines(key: str, entries: list[tuple[str | None, Any, Callable[..., int | None]]]) -> str:
    lines = [
        json.dumps(
            {
                "sympy": sympy,
                key: form,
                "results": [
                    {"symbols": list(v), "result": value(dict(zip("ab", v, strict=True)))}
                    for v in VALUES
                ],
            }
        )
        for sympy, form, value in entries
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


def text() -> str:
    return _lines(
        "expression",
        [(sympy, wire(form), functools.partial(value_of, form)) for sympy, form in EXPRESSIONS],
    )


def definitions_text() -> str:
    return _lines(
        "definition",
        [
            (
                sympy,
                {"real": wire_real(real), "rounding": rounding},
                functools.partial(defined_value_of, rounding, real),
            )
            for sympy, rounding, real in DEFINITIONS
        ],
    )


if __name__ == "__main__":
    OUT.write_text(text())
    DEFINITIONS_OUT.write_text(definitions_text())
