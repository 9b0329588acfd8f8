#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes expression_vectors.json, which every evaluator of sizes is compared with.

    .venv/bin/python tests/golden/expression_vectors.py

A line has an expression as graph.proto's SymExpr and, where the client writes it, as sympy's text;
and for several values of the symbols the result by Python's integers, null where a step leaves 64
bits or divides by zero. The compiler refuses expressions whose divisor may be negative or 0.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

OUT = Path(__file__).with_name("expression_vectors.json")
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


def text() -> str:
    lines = [
        json.dumps(
            {
                "sympy": sympy,
                "expression": wire(form),
                "results": [
                    {"symbols": list(v), "result": value_of(form, dict(zip("ab", v, strict=True)))}
                    for v in VALUES
                ],
            }
        )
        for sympy, form in EXPRESSIONS
    ]
    return "[\n" + ",\n".join(lines) + "\n]\n"


if __name__ == "__main__":
    OUT.write_text(text())
