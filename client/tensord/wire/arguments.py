# SPDX-License-Identifier: Apache-2.0
"""Arguments of one operator call, normalised to the operator's full schema.

Every parameter is written out, in the schema's order, with its default where the call left it out;
an integer where the schema says float becomes a float; a single integer where it says a list
becomes a list. So two ways to write one call give the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ..errors import ExportError
from ..v1 import graph_pb2

Argument = graph_pb2.Argument
_P = graph_pb2

DTYPES: dict[torch.dtype, graph_pb2.DType] = {
    torch.bool: _P.DTYPE_BOOL,
    torch.uint8: _P.DTYPE_UINT8,
    torch.int8: _P.DTYPE_INT8,
    torch.int16: _P.DTYPE_INT16,
    torch.int32: _P.DTYPE_INT32,
    torch.int64: _P.DTYPE_INT64,
    torch.float16: _P.DTYPE_FLOAT16,
    torch.bfloat16: _P.DTYPE_BFLOAT16,
    torch.float32: _P.DTYPE_FLOAT32,
    torch.float64: _P.DTYPE_FLOAT64,
    torch.complex64: _P.DTYPE_COMPLEX64,
    torch.complex128: _P.DTYPE_COMPLEX128,
    torch.float8_e4m3fn: _P.DTYPE_FLOAT8_E4M3FN,
    torch.float8_e5m2: _P.DTYPE_FLOAT8_E5M2,
    torch.uint16: _P.DTYPE_UINT16,
    torch.uint32: _P.DTYPE_UINT32,
    torch.uint64: _P.DTYPE_UINT64,
}

DEVICES = {"cpu": _P.DEVICE_TYPE_CPU, "cuda": _P.DEVICE_TYPE_CUDA}

MEMORY_FORMATS = {
    torch.contiguous_format: _P.MEMORY_FORMAT_CONTIGUOUS,
    torch.preserve_format: _P.MEMORY_FORMAT_PRESERVE,
    torch.channels_last: _P.MEMORY_FORMAT_CHANNELS_LAST,
    torch.channels_last_3d: _P.MEMORY_FORMAT_CHANNELS_LAST_3D,
}

# Defaults in a schema are the enumerations' numbers (c10::ScalarType, MemoryFormat).
_DEFAULT_MEMORY_FORMATS = {
    0: _P.MEMORY_FORMAT_CONTIGUOUS,
    1: _P.MEMORY_FORMAT_PRESERVE,
    2: _P.MEMORY_FORMAT_CHANNELS_LAST,
    3: _P.MEMORY_FORMAT_CHANNELS_LAST_3D,
}

_DEFAULT_DTYPES = {
    4: _P.DTYPE_INT64,
    6: _P.DTYPE_FLOAT32,
    7: _P.DTYPE_FLOAT64,
    11: _P.DTYPE_BOOL,
}


def dtype_of(dtype: torch.dtype) -> graph_pb2.DType:
    """DType of graph.proto, or ExportError."""
    if dtype not in DTYPES:
        raise ExportError(f"{dtype} has no form on the wire")
    return DTYPES[dtype]


def device_of(device: torch.device | str | int) -> graph_pb2.DeviceType:
    """DeviceType of graph.proto, or ExportError; an index is dropped."""
    kind = torch.device(device).type
    if kind not in DEVICES:
        raise ExportError(f"a tensor on the device {kind!r} has no form on the wire")
    return DEVICES[kind]


class Converter:
    """Turns FX arguments into Arguments.

    value: FX node of a tensor -> ValueRef; integer: int or SymInt -> SymExpr.
    """

    def __init__(
        self,
        value: Callable[[fx.Node], graph_pb2.ValueRef],
        integer: Callable[[Any], graph_pb2.SymExpr],
    ) -> None:
        self._value = value
        self._integer = integer

    def call(self, node: fx.Node) -> list[Argument]:
        """Node.args of a call of an OpOverload."""
        operator: Any = node.target
        parameters = operator._schema.arguments
        result = []
        for position, parameter in enumerate(parameters):
            if position < len(node.args):
                given = node.args[position]
            elif parameter.name in node.kwargs:
                given = node.kwargs[parameter.name]
            elif parameter.has_default_value():
                given = parameter.default_value
            else:
                raise ExportError(f"the argument {parameter.name!r} is missing")
            try:
                result.append(self._typed(given, str(parameter.real_type)))
            except ExportError as error:
                raise ExportError(f"argument {parameter.name!r}: {error}") from error
        return result

    def plain(self, given: Any) -> Argument:
        """An argument with no schema: a graph's output."""
        return self._typed(given, "")

    def _typed(self, given: Any, kind: str) -> Argument:
        while kind.startswith("Optional[") and kind.endswith("]"):
            kind = kind[len("Optional[") : -1]
        if given is None:
            return Argument(none=True)
        if kind.startswith("List["):
            items = given if isinstance(given, (list, tuple)) else [given]
            element = kind[len("List[") : -1]
            return Argument(
                list=graph_pb2.ArgumentList(items=[self._typed(i, element) for i in items])
            )
        special = _SPECIAL.get(kind)
        if special is not None and isinstance(given, int):
            return special(given)
        return self._by_value(given, kind)

    def _by_value(self, given: Any, kind: str) -> Argument:
        if isinstance(given, fx.Node):
            symbolic = given.meta.get("val")
            if isinstance(symbolic, torch.Tensor):
                return Argument(value=self._value(given))
            return self._by_value(symbolic, kind)  # a size: the node vanishes
        if isinstance(given, (list, tuple)):
            return Argument(
                list=graph_pb2.ArgumentList(items=[self._by_value(i, "") for i in given])
            )
        if isinstance(given, bool):
            return Argument(boolean=given)
        if isinstance(given, int):
            return Argument(real=float(given)) if kind == "float" else _integer(self, given)
        if isinstance(given, torch.SymInt):
            return _integer(self, given)
        if isinstance(given, float):
            return Argument(real=given)
        for type_, convert in _BY_TYPE:
            if isinstance(given, type_):
                return convert(given)
        raise ExportError(f"{type(given).__name__} has no form on the wire")


def _integer(converter: Converter, given: Any) -> Argument:
    return Argument(integer=converter._integer(given))


def _layout(layout: Any) -> Argument:
    if layout not in (torch.strided, 0):
        raise ExportError(f"{layout} has no form on the wire")
    return Argument(layout_strided=True)


# Enumerations given as numbers, by the schema's type.
_SPECIAL: dict[str, Callable[[int], Argument]] = {
    "bool": lambda v: Argument(boolean=bool(v)),
    "ScalarType": lambda v: Argument(dtype=_DEFAULT_DTYPES[v]),
    "MemoryFormat": lambda v: Argument(memory_format=_DEFAULT_MEMORY_FORMATS[v]),
    "Layout": _layout,
}

_BY_TYPE: tuple[tuple[Any, Callable[[Any], Argument]], ...] = (
    (str, lambda v: Argument(text=v)),
    (torch.dtype, lambda v: Argument(dtype=dtype_of(v))),
    (torch.device, lambda v: Argument(device=device_of(v))),
    (torch.memory_format, lambda v: Argument(memory_format=MEMORY_FORMATS[v])),
    (torch.layout, _layout),
)
