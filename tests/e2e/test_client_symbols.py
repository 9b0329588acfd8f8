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
from google.protobuf import json_format
from real_daemon import RealDaemon
from tensord.errors import ExportError
from tensord.v1 import graph_pb2
from tensord.wire.expressions import evaluate_definition
from tensord.wire.symbols import Symbols
from torch.utils._sympy import functions

sys.path.insert(0, str(Path(__file__).parents[1] / "golden"))
import expression_vectors

VECTORS = json.loads(expression_vectors.OUT.read_text())
DEFINITIONS = json.loads(expression_vectors.DEFINITIONS_OUT.read_text())
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
            "RoundToInt",
            "ToFloat",
            "FloatPow",
            "FloatTrueDiv",
            "OpaqueUnaryFn_sqrt",
            "OpaqueUnaryFn_log2",
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


def _symbols() -> Symbols:
    symbols = Symbols(None)
    symbols._numbers = {NAMES["a"]: 0, NAMES["b"]: 1}
    return symbols


def _written(expression: str) -> object:
    return form_of(_symbols()._convert(sympy.sympify(expression, NAMES)))


def _defined(expression: str) -> graph_pb2.Definition:
    symbols = _symbols()
    written = symbols._convert(sympy.sympify(expression, NAMES))
    assert written.symbol == 2
    (definition,) = symbols._definitions.values()
    return definition


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


@pytest.mark.parametrize("vector", [v for v in DEFINITIONS if v["sympy"]], ids=lambda v: v["sympy"])
def test_definitions_mean_the_same_on_the_wire(vector: dict) -> None:
    definition = _defined(vector["sympy"])
    assert definition == json_format.ParseDict(vector["definition"], graph_pb2.Definition())
    for result in vector["results"]:
        assert evaluate_definition(definition, result["symbols"]) == result["result"]


@pytest.mark.parametrize("vector", DEFINITIONS, ids=range(len(DEFINITIONS)))
def test_what_a_definition_gives_a_client(vector: dict) -> None:
    definition = json_format.ParseDict(vector["definition"], graph_pb2.Definition())
    for result in vector["results"]:
        if result["result"] is None:
            with pytest.raises(ValueError, match=r"no value|divides by zero|math domain"):
                evaluate_definition(definition, result["symbols"])
        else:
            assert evaluate_definition(definition, result["symbols"]) == result["result"]


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.5, 0.75, -1.25])
@pytest.mark.parametrize(
    ("name", "rounds"), [("CeilToInt", math.ceil), ("FloorToInt", math.floor), ("TruncToInt", int)]
)
def test_multiples_by_few_bits_are_whole_divisions(
    name: str, rounds: Callable[[float], int], factor: float
) -> None:
    written = _written(f"{name}({factor}*ToFloat(a))")
    for a in (1, 2, 3, 31, 1000):
        value = expression_vectors.value_of(written, {"a": a, "b": 7})
        assert value == rounds(factor * a)


def test_what_may_be_rounded_either_way_is_defined() -> None:
    assert _defined("TruncToInt(IntTrueDiv(a - b, 32))").rounding == graph_pb2.Definition.TRUNC
    # One symbol, however often it is met.
    symbols = _symbols()
    twice = sympy.sympify("TruncToInt(1.7*ToFloat(a)) * b + TruncToInt(1.7*ToFloat(a))", NAMES)
    symbols._convert(twice)
    assert len(symbols._definitions) == 1
    with pytest.raises(ExportError, match="no form on the wire"):
        _written("CeilToInt(OpaqueUnaryFn_log2(ToFloat(a)))")


def test_only_the_code_knows_the_order_of_operations() -> None:
    for several in ("2.3*IntTrueDiv(a, b)", "0.7*ToFloat(a) + 1.5", "0.1*ToFloat(a)*ToFloat(b)"):
        with pytest.raises(ExportError, match="no form on the wire"):
            _written(f"CeilToInt({several})")


# Of numbers that torch's expressions have otherwise: 7.0 * n, 0.3 * n, 0.7 * n + 2.1, 0.2 * n.
LENGTHS: dict[str, Callable[[int, int], int]] = {
    "a product of products": lambda n, m: int(n * 0.7 * 10),
    "rounded up": lambda n, m: math.ceil(n * 0.1 * 3),
    "a sum": lambda n, m: int((n + 3.0) * 0.7),
    "a difference": lambda n, m: int(n * 0.7 - n * 0.5),
    "of two sizes": lambda n, m: math.ceil(0.1 * m * n),
    "a quotient's product": lambda n, m: int(n / m * 2.3),
    "a root": lambda n, m: int(math.sqrt(n) * 1.1),
    "to the nearest": lambda n, m: round(n * 0.5) + round(n / 3),
    "twice": lambda n, m: int(int(1.7 * n) * 1.7),
}


@pytest.mark.parametrize("length", LENGTHS.values(), ids=LENGTHS)
def test_lengths_are_the_codes_own(
    tensord_daemon: RealDaemon, length: Callable[[int, int], int]
) -> None:
    def cut(x: torch.Tensor) -> torch.Tensor:
        n = length(x.shape[0], x.shape[1])
        return x.new_ones(n + 1, 3).cumsum(0) * x[:1, :1].tanh()

    compiled = torch.compile(cut, backend="tensord", dynamic=True)
    for rows, columns in ((11, 4), (3, 10), (5, 6), (6, 5), (10, 3), (7, 9), (30, 8)):
        # torch itself expects gradients of 0.2 * n.
        x = torch.randn(rows, columns, requires_grad=length is not LENGTHS["a difference"])
        result, expected = compiled(x), cut(x)
        torch.testing.assert_close(result, expected)
        if x.requires_grad:
            result.sum().backward()
    stats = tensord.stats()
    assert (stats["fallbacks"], stats["call_backs"]) == (0, 0)


@pytest.mark.parametrize("factor", [0.5, 1.7])
@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_upsampling_by_a_factor_is_compiled(
    tensord_daemon: RealDaemon, mode: str, factor: float
) -> None:
    def upsampled(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.interpolate(x.relu(), scale_factor=factor, mode=mode).tanh()

    compiled = torch.compile(upsampled, backend="tensord", dynamic=True)
    for height in (9, 12, 31):
        x = torch.randn(2, 3, height, height + 5, requires_grad=True)
        result, expected = compiled(x), upsampled(x)
        torch.testing.assert_close(result, expected)
        weights = torch.randn_like(expected)
        (gradient,) = torch.autograd.grad(result, x, weights)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, x, weights)[0])
    stats = tensord.stats()
    assert (stats["fallbacks"], stats["call_backs"]) == (0, 0)


def test_a_size_that_is_rounded_up(tensord_daemon: RealDaemon) -> None:
    def padded(x: torch.Tensor) -> torch.Tensor:
        rows = math.ceil(x.shape[0] / 32) * 32
        return torch.nn.functional.pad(x, (0, 0, 0, rows - x.shape[0])).tanh().sum(0)

    compiled = torch.compile(padded, backend="tensord", dynamic=True)
    for rows in (33, 64, 95):
        x = torch.randn(rows, 7)
        torch.testing.assert_close(compiled(x), padded(x))
    assert tensord.stats()["fallbacks"] == 0


def test_halves_of_a_symbolic_size(tensord_daemon: RealDaemon) -> None:
    """That it is even only torch's guards say."""

    def gated(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.glu(x.sin(), 1)

    compiled = torch.compile(gated, backend="tensord", dynamic=True)
    for columns in (6, 8, 14):
        x = torch.randn(5, columns, requires_grad=True)
        result, expected = compiled(x), gated(x)
        torch.testing.assert_close(result, expected)
        weights = torch.randn_like(expected)
        (gradient,) = torch.autograd.grad(result, x, weights)
        torch.testing.assert_close(gradient, torch.autograd.grad(expected, x, weights)[0])
    assert tensord.stats()["fallbacks"] == 0


def test_a_size_that_is_a_number_in_a_tensor_as_well(tensord_daemon: RealDaemon) -> None:
    """A call-back makes the tensor, of a number whose product torch writes the other way round."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        half = torch.full((1,), 0.5 * x.size(1))
        return torch.nn.functional.interpolate(x - half, scale_factor=0.5)

    compiled = torch.compile(scaled, backend="tensord", dynamic=True)
    for rows in (4, 5, 8):
        x = torch.randn(3, rows, rows)
        torch.testing.assert_close(compiled(x), scaled(x))
    assert tensord.stats()["fallbacks"] == 0
