# SPDX-License-Identifier: Apache-2.0
"""Runs a Graph of graph.proto with torch's own operators: the reference for what a client exports.

It knows nothing of FX: it sees only what a daemon would see.
"""

from __future__ import annotations

import functools
import math
import operator
from typing import Any

import torch
from tensord.bridge.call_backs import run_step
from tensord.v1 import graph_pb2 as pb
from tensord.wire.arguments import DEVICES, DTYPES, MEMORY_FORMATS
from tensord.wire.call_backs import OPERATOR

_DTYPES = {number: dtype for dtype, number in DTYPES.items()}
_DEVICES = {number: name for name, number in DEVICES.items()}
_FORMATS = {number: format_ for format_, number in MEMORY_FORMATS.items()}
_SYM_OPS = {
    pb.SymOp.ADD: lambda a: sum(a),
    pb.SymOp.MUL: math.prod,
    pb.SymOp.FLOOR_DIV: lambda a: a[0] // a[1],
    pb.SymOp.MOD: lambda a: a[0] % a[1],
    pb.SymOp.MIN: min,
    pb.SymOp.MAX: max,
}
_REAL_OPS = {
    pb.RealOp.ADD: lambda a: functools.reduce(operator.add, a),  # sum() compensates
    pb.RealOp.MUL: math.prod,
    pb.RealOp.DIV: lambda a: a[0] / a[1],
    pb.RealOp.POW: lambda a: a[0] ** a[1],
    pb.RealOp.SQRT: lambda a: math.sqrt(a[0]),
}
_ROUNDINGS = {
    pb.Definition.TRUNC: int,
    pb.Definition.FLOOR: math.floor,
    pb.Definition.CEIL: math.ceil,
    pb.Definition.NEAREST: round,
}


def size_of(expr: pb.SymExpr, symbols: dict[int, int]) -> int:
    """The value of a SymExpr."""
    kind = expr.WhichOneof("kind")
    if kind == "constant":
        return expr.constant
    if kind == "symbol":
        return symbols[expr.symbol]
    return _SYM_OPS[expr.op.kind]([size_of(a, symbols) for a in expr.op.args])


def bind(graph: pb.Graph, arguments: list[Any]) -> dict[int, int]:
    """Values of the graph's symbols in a call."""
    symbols: dict[int, int] = {}
    for entry, argument in zip(graph.inputs, arguments, strict=True):
        if entry.HasField("size"):
            pairs = [(entry.size, argument)]
        else:
            pairs = list(zip(entry.tensor.sizes, argument.shape, strict=True))
        for expr, value in pairs:
            if expr.HasField("symbol"):
                symbols.setdefault(expr.symbol, value)
    for number, symbol in enumerate(graph.symbols):
        if symbol.HasField("definition"):
            real = _real_of(symbol.definition.real, symbols)
            symbols[number] = _ROUNDINGS[symbol.definition.rounding](real)
    return symbols


def _real_of(real: pb.RealExpr, symbols: dict[int, int]) -> float:
    kind = real.WhichOneof("kind")
    if kind == "constant":
        return real.constant
    if kind == "integer":
        return float(size_of(real.integer, symbols))
    return _REAL_OPS[real.op.kind]([_real_of(one, symbols) for one in real.op.args])


def check_meta(meta: pb.TensorMeta, tensor: torch.Tensor, symbols: dict[int, int]) -> None:
    """Asserts that a tensor is what its TensorMeta says."""
    assert _DTYPES[meta.dtype] == tensor.dtype
    assert [size_of(s, symbols) for s in meta.sizes] == list(tensor.shape)
    assert [size_of(s, symbols) for s in meta.strides] == list(tensor.stride())


def run(graph: pb.Graph, arguments: list[Any], check: bool = True) -> list[Any]:
    """Results of the graph; with `check`, inputs must be as their metas say."""
    symbols = bind(graph, arguments)
    values: list[Any] = list(arguments)
    for entry, argument in zip(graph.inputs, arguments, strict=True):
        if check and entry.HasField("tensor"):
            check_meta(entry.tensor, argument, symbols)
        elif check:
            assert size_of(entry.size, symbols) == argument
    values += [_constant(c, symbols) for c in graph.constants]
    for node in graph.nodes:
        if node.op == OPERATOR:
            number, writes, reads, sizes = (argument_of(a, values, symbols) for a in node.args)
            values.append(run_step(number, [*writes, *reads], sizes))
            continue
        namespace, name = node.op.split("::")
        op = getattr(getattr(getattr(torch.ops, namespace), name), node.overload or "default")
        parameters = op._schema.arguments
        given = [argument_of(a, values, symbols) for a in node.args]
        assert len(given) == len(parameters), f"{node.op}: arguments are not complete"
        positional = [g for g, p in zip(given, parameters, strict=True) if not p.kwarg_only]
        keyword = {p.name: g for g, p in zip(given, parameters, strict=True) if p.kwarg_only}
        result = _flat(op(*positional, **keyword))
        assert len(result) == len(node.outputs), f"{node.op}: outputs"
        for meta, tensor in zip(node.outputs, result, strict=True):
            if isinstance(tensor, torch.Tensor) and meta.dtype:
                assert _DTYPES[meta.dtype] == tensor.dtype, node.op
                assert [size_of(s, symbols) for s in meta.sizes] == list(tensor.shape), node.op
        values.append(result)
    return [argument_of(a, values, symbols) for a in graph.outputs]


def _flat(value: Any) -> list[Any]:
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _flat(item)]
    return [value]


def _constant(constant: pb.Constant, symbols: dict[int, int]) -> torch.Tensor:
    sizes = [size_of(s, symbols) for s in constant.meta.sizes]
    dtype = _DTYPES[constant.meta.dtype]
    if not constant.data:
        return torch.empty(sizes, dtype=dtype)
    return torch.frombuffer(bytearray(constant.data), dtype=dtype).reshape(sizes)


def argument_of(argument: pb.Argument, values: list[Any], symbols: dict[int, int]) -> Any:
    """The Python value of an Argument."""
    kind = argument.WhichOneof("kind")
    assert kind is not None, "an argument without a kind"
    if kind == "none":
        return None
    if kind == "value":
        value = values[argument.value.value]
        return value[argument.value.output] if isinstance(value, list) else value
    if kind == "integer":
        return size_of(argument.integer, symbols)
    if kind == "list":
        return [argument_of(a, values, symbols) for a in argument.list.items]
    plain = {
        "real": lambda: argument.real,
        "boolean": lambda: argument.boolean,
        "text": lambda: argument.text,
        "dtype": lambda: _DTYPES[argument.dtype],
        "device": lambda: torch.device(_DEVICES[argument.device]),
        "memory_format": lambda: _FORMATS[argument.memory_format],
        "layout_strided": lambda: torch.strided,
    }
    return plain[kind]()


def canonical(graph: pb.Graph) -> bytes:
    """The graph's bytes without the fields that are for people."""
    copy = pb.Graph()
    copy.CopyFrom(graph)
    for entry in (*copy.inputs, *copy.constants, *copy.nodes):
        entry.ClearField("name")
    for node in copy.nodes:
        node.ClearField("source")
    return copy.SerializeToString(deterministic=True)
