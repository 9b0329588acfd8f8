# SPDX-License-Identifier: Apache-2.0
"""Sizes on the wire mean what torch's expressions mean: the shared vectors of tests/golden."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sympy
import tensord
import torch
from real_daemon import RealDaemon
from tensord.errors import ExportError
from tensord.v1 import graph_pb2
from tensord.wire.symbols import Symbols
from torch.utils._sympy import functions

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
import expression_vectors

VECTORS = json.loads(expression_vectors.OUT.read_text())
NAMES = {
    "a": sympy.Symbol("a", integer=True, positive=True),
    "b": sympy.Symbol("b", integer=True, positive=True),
    **{
        name: getattr(functions, name)
        for name in (
            "FloorDiv",
            "PythonMod",
            "CeilDiv",
            "IntTrueDiv",
            "CeilToInt",
            "FloorToInt",
            "TruncToInt",
        )
    },
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


def _written(expression: str) -> object:
    symbols = Symbols(None)
    symbols._numbers = {NAMES["a"]: 0, NAMES["b"]: 1}
    return form_of(symbols._convert(sympy.sympify(expression, NAMES)))


@pytest.mark.parametrize("vector", [v for v in VECTORS if v["sympy"]], ids=lambda v: v["sympy"])
def test_expressions_mean_the_same_on_the_wire(vector: dict) -> None:
    written = _written(vector["sympy"])
    for result in vector["results"]:
        values = dict(zip("ab", result["symbols"], strict=True))
        assert expression_vectors.value_of(written, values) == result["result"]


@pytest.mark.parametrize(
    ("name", "rounds"), [("CeilToInt", math.ceil), ("FloorToInt", math.floor), ("TruncToInt", int)]
)
@pytest.mark.parametrize("numerator", ["a", "-a", "a * b + 1"])
def test_rounded_quotients_are_whole_divisions(
    name: str, rounds: Callable[[float], int], numerator: str
) -> None:
    written = _written(f"{name}(IntTrueDiv({numerator}, 32))")
    for a in (1, 31, 32, 33, 64, 1000):
        exact = {"a": a, "-a": -a, "a * b + 1": a * 7 + 1}[numerator]
        assert expression_vectors.value_of(written, {"a": a, "b": 7}) == rounds(exact / 32)


def test_what_may_be_rounded_either_way_is_refused() -> None:
    with pytest.raises(ExportError, match="may be negative"):
        _written("TruncToInt(IntTrueDiv(a - b, 32))")
    with pytest.raises(ExportError, match="no form on the wire"):
        _written("CeilToInt(IntTrueDiv(a, 32) * 2.5)")


def test_a_size_that_is_rounded_up(tensord_daemon: RealDaemon) -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        rows = math.ceil(x.shape[0] / 32) * 32
        return torch.nn.functional.pad(x, (0, 0, 0, rows - x.shape[0])).tanh().sum(0)

    compiled = torch.compile(padded, backend="tensord", dynamic=True)
    for rows in (33, 64, 95):
        x = torch.randn(rows, 7)
        torch.testing.assert_close(compiled(x), padded(x))
    assert tensord.stats()["fallbacks"] == 0
