# SPDX-License-Identifier: Apache-2.0
"""Graphs as a client sends them, made without torch: small ones, and ten kinds of bombs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tensord.v1 import graph_pb2, requests_pb2
from tensord.wire import target
from tensord.wire.caller import caller

Sizes = Sequence[Any]  # integers or SymExpr


def _expr(value: Any) -> Any:
    return graph_pb2.SymExpr(constant=value) if isinstance(value, int) else value


def _product(one: Any, other: Any) -> Any:
    if isinstance(other, int) and one.WhichOneof("kind") == "constant":
        return _expr(min(one.constant * max(other, 1), 2**62))
    return graph_pb2.SymExpr(op=graph_pb2.SymOp(kind="MUL", args=[one, _expr(other)]))


class Builder:
    """Values are numbered: inputs, then constants, then nodes; add them in this order."""

    def __init__(self) -> None:
        self.graph = graph_pb2.Graph()
        self._values = 0

    def input(self, sizes: Sizes) -> int:
        """A float32 input, contiguous."""
        self.graph.inputs.add(tensor=self._meta(sizes), name=f"x{self._values}")
        return self._next()

    def constant(self, data: bytes) -> int:
        """Float32 numbers."""
        meta = self._meta([len(data) // 4])
        self.graph.constants.add(meta=meta, data=data, name=f"c{self._values}")
        return self._next()

    def node(self, op: str, arguments: Sequence[Any], sizes: Sizes) -> int:
        """`arguments` are values as ("value", i), lists of them, integers, or None."""
        name, _, overload = op.partition(".")
        node = self.graph.nodes.add(op=f"aten::{name}", overload=overload, name=f"n{self._values}")
        for argument in arguments:
            self._argument(node.args.add(), argument)
        node.outputs.append(self._meta(sizes))
        return self._next()

    def outputs(self, values: Sequence[int]) -> Any:
        """The finished graph."""
        for value in values:
            self.graph.outputs.add().value.value = value
        return self.graph

    def _next(self) -> int:
        self._values += 1
        return self._values - 1

    def _meta(self, sizes: Sizes) -> Any:
        strides = [_expr(1)]
        for size in reversed(sizes[1:]):
            strides.append(_product(strides[-1], size))
        return graph_pb2.TensorMeta(
            dtype="DTYPE_FLOAT32",
            device="DEVICE_TYPE_CPU",
            sizes=[_expr(size) for size in sizes],
            strides=strides[: len(sizes)][::-1],
            storage_offset=_expr(0),
        )

    def _argument(self, to: Any, argument: Any) -> None:
        if isinstance(argument, list):
            to.list.SetInParent()
            for item in argument:
                self._argument(to.list.items.add(), item)
        elif isinstance(argument, tuple):
            to.value.value = argument[1]
        elif isinstance(argument, bool):
            to.boolean = argument
        elif isinstance(argument, int):
            to.integer.constant = argument
        elif isinstance(argument, float):
            to.real = argument
        else:
            to.none = True


def request(graph: Any) -> Any:
    """Of this process, for this host's CPU."""
    made = requests_pb2.CompileRequest(graph=graph, target=target.detect(None), label="inference")
    made.caller.CopyFrom(caller())
    return made


def small(number: int) -> Any:
    """A graph like many, another one for each number."""
    make = Builder()
    x = make.input([64, 32])
    y = make.node("mul.Tensor", [("value", x), 1.0 + number / 4096], [64, 32])
    z = make.node("tanh", [("value", y)], [64, 32])
    return make.outputs([make.node("sum.dim_IntList", [("value", z), [1], False, None], [64])])


def _chain() -> Any:
    make = Builder()
    x = make.input([64, 64])
    for i in range(20_000):
        x = make.node(("sin", "cos", "tanh")[i % 3], [("value", x)], [64, 64])
    return make.outputs([x])


def _doubling() -> Any:
    """Each value has two uses, so that what is computed twice is computed 2^n times."""
    make = Builder()
    x = make.input([64, 64])
    for _ in range(2_000):
        one = make.node("sin", [("value", x)], [64, 64])
        x = make.node("mul.Tensor", [("value", one), ("value", x)], [64, 64])
    return make.outputs([x])


def _wide() -> Any:
    make = Builder()
    x = make.input([64, 64])
    return make.outputs([make.node("mul.Tensor", [("value", x), float(i)], [64, 64])
                         for i in range(10_000)])  # fmt: skip


def _many_shapes() -> Any:
    """Nothing fuses: every kernel is another source."""
    make = Builder()
    inputs = [make.input([32 + i, 16 + i]) for i in range(1_500)]
    return make.outputs([make.node("sum.dim_IntList", [("value", x), [i % 2], False, None],
                                   [16 + i if i % 2 == 0 else 32 + i])
                         for i, x in enumerate(inputs)])  # fmt: skip


def _huge_sizes() -> Any:
    make = Builder()
    size = 2**20
    x = make.input([size, size, size])
    y = make.node("exp", [("value", x)], [size, size, size])
    return make.outputs([make.node("sum.dim_IntList", [("value", y), [0, 1, 2], False, None], [])])


def _huge_cat() -> Any:
    make = Builder()
    x = make.input([4, 8])
    parts = [("value", make.node("mul.Tensor", [("value", x), float(i)], [4, 8]))
             for i in range(10_000)]  # fmt: skip
    return make.outputs([make.node("cat", [parts, 0], [40_000, 8])])


def _huge_expression() -> Any:
    """A size of two hundred thousand terms."""
    make = Builder()
    make.graph.symbols.add(hint=8, min=2, max=2**30)
    symbol = graph_pb2.SymExpr(symbol=0)
    terms = [graph_pb2.SymExpr(op=graph_pb2.SymOp(kind="MUL", args=[symbol, _expr(i + 1)]))
             for i in range(100_000)]  # fmt: skip
    size = graph_pb2.SymExpr(op=graph_pb2.SymOp(kind="MAX", args=terms))
    x = make.input([symbol])
    y = make.input([size])
    return make.outputs(
        [make.node("exp", [("value", v)], [s]) for v, s in ((x, symbol), (y, size))]
    )


def _high_rank() -> Any:
    make = Builder()
    sizes = [2] * 60 + [1] * 2_000
    x = make.input(sizes)
    return make.outputs([make.node("exp", [("value", x)], sizes)])


def _many_constants() -> Any:
    make = Builder()
    constants = [make.constant(bytes([i % 256]) * (60 << 10)) for i in range(800)]
    return make.outputs([make.node("exp", [("value", c)], [15 << 10]) for c in constants])


def _many_symbols() -> Any:
    make = Builder()
    sizes = []
    for i in range(3_000):
        make.graph.symbols.add(hint=8 + i, min=2, max=2**30)
        sizes.append(graph_pb2.SymExpr(symbol=i))
    inputs = [make.input([size, 16]) for size in sizes]
    return make.outputs([make.node("softmax.int", [("value", x), 1, None], [size, 16])
                         for x, size in zip(inputs, sizes, strict=True)])  # fmt: skip


def variant(graph: Any, number: int) -> Any:
    """Another graph of the same kind: some of its results once more."""
    graph.outputs.extend([graph.outputs[0]] * number)
    return graph


BOMBS: dict[str, Callable[[], Any]] = {
    "a chain of 20,000 nodes": _chain,
    "2,000 doublings": _doubling,
    "10,000 results": _wide,
    "1,500 shapes": _many_shapes,
    "2^60 elements": _huge_sizes,
    "10,000 parts": _huge_cat,
    "an expression of 100,000 terms": _huge_expression,
    "2,060 dimensions": _high_rank,
    "800 constants of 60 KiB": _many_constants,
    "3,000 symbols": _many_symbols,
}

# What these take is memory: 350 MiB and more, some of it each second.
MEMORY_BOMBS = {name: BOMBS[name] for name in ("10,000 parts", "10,000 results")}
