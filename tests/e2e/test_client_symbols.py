# SPDX-License-Identifier: Apache-2.0
"""Sizes on the wire mean what torch's expressions mean: the shared vectors of tests/golden."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import sympy
from tensord.v1 import graph_pb2
from tensord.wire.symbols import Symbols
from torch.utils._sympy import functions

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
import expression_vectors

VECTORS = json.loads(expression_vectors.OUT.read_text())
NAMES = {
    "a": sympy.Symbol("a", integer=True, positive=True),
    "b": sympy.Symbol("b", integer=True, positive=True),
    **{name: getattr(functions, name) for name in ("FloorDiv", "PythonMod", "CeilDiv")},
    "Min": sympy.Min,
    "Max": sympy.Max,
}


def form_of(expression: graph_pb2.SymExpr) -> object:
    kind = expression.WhichOneof("kind")
    if kind == "constant":
        return expression.constant
    if kind == "symbol":
        return "ab"[expression.symbol]
    op = expression.op
    return (graph_pb2.SymOp.Kind.Name(op.kind), *(form_of(a) for a in op.args))


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["sympy"]], ids=lambda v: v["sympy"])
def test_expressions_mean_the_same_on_the_wire(vector: dict) -> None:
    symbols = Symbols(None)
    symbols._numbers = {NAMES["a"]: 0, NAMES["b"]: 1}
    written = form_of(symbols._convert(sympy.sympify(vector["sympy"], NAMES)))
    for result in vector["results"]:
        values = dict(zip("ab", result["symbols"], strict=True))
        assert expression_vectors.value_of(written, values) == result["result"]
