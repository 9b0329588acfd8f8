# SPDX-License-Identifier: Apache-2.0
"""Constants of Python as messages (FrameConstant), and back."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..v1 import frame_pb2
from . import dynamo_stand_ins, names
from .errors import UnfitError, UnrecordableError

Constant = frame_pb2.FrameConstant


def write(value: Any) -> Constant:
    """Raises UnrecordableError for what no other process could make the same."""
    writer = _WRITERS.get(type(value))
    if writer is not None:
        return writer(value)
    if type(value).__module__ == "numpy" and hasattr(value, "dtype") and hasattr(value, "tobytes"):
        return _numpy(value)
    return Constant(named=names.name_of(value))


def read(constant: Constant) -> Any:
    """What was written; raises UnfitError for what this process does not have, or is malformed."""
    kind = constant.WhichOneof("kind")
    if kind not in _READERS:
        raise UnfitError("a constant of no kind")
    try:
        return _READERS[kind](getattr(constant, kind))
    except UnfitError:
        raise
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise UnfitError(f"no {kind}: {error}") from error


def write_all(values: Iterable[Any]) -> frame_pb2.FrameConstants:
    return frame_pb2.FrameConstants(items=[write(value) for value in values])


def read_all(constants: frame_pb2.FrameConstants) -> list[Any]:
    return [read(item) for item in constants.items]


def range_left(iterator: Any) -> range:
    """What an iterator of a range has left; raises TypeError for another value."""
    if type(iterator) is not type(iter(range(0))):
        raise TypeError(f"a {type(iterator).__name__} is no iterator of a range")
    reduced: Any = iterator.__reduce__()  # of iter, the range, and the place in it
    whole: range = reduced[1][0]
    return whole[(reduced[2] if len(reduced) > 2 else None) or 0 :]


def _device(device: torch.device) -> Constant:
    if device.index is None or device.type == "cpu":
        return Constant(device=device.type)
    return Constant(own_device=own_device(device))


def own_device(device: torch.device) -> str:
    """The kind of a device with an index, which is to be the process's own: a rank has another."""
    if device.index != own_index(device.type):
        raise UnrecordableError(f"device {device} is not the process's own")
    return device.type


def own_index(kind: str) -> int:
    """The index of the device of that kind that is the process's own; -1 for the CPU's."""
    if kind in ("cpu", "meta"):
        return -1
    module = getattr(torch, kind, None)
    if module is None or not module.is_available():
        raise UnfitError(f"there is no device {kind}")
    return int(module.current_device())


def _numpy(value: Any) -> Constant:
    if value.shape != () or value.dtype.hasobject or not value.dtype.isbuiltin:
        raise UnrecordableError(f"NumPy's {type(value).__name__}")
    data = value.astype(value.dtype.newbyteorder("<")).tobytes()
    return Constant(numpy=frame_pb2.NumpyScalar(dtype=value.dtype.name, data=data))


def _read_numpy(scalar: frame_pb2.NumpyScalar) -> Any:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        raise UnfitError("NumPy is not loaded")
    try:
        dtype = numpy.dtype(scalar.dtype)
        return numpy.frombuffer(scalar.data, dtype.newbyteorder("<")).astype(dtype)[0]
    except (TypeError, ValueError, IndexError) as error:
        raise UnfitError(f"no number of NumPy: {error}") from error


def _dictionary(value: dict[Any, Any]) -> Constant:
    module = sys.modules.get(str(value.get("__name__")))
    if module is not None and module.__dict__ is value:  # globals, as a function that is made needs
        return Constant(
            named=frame_pb2.NamedObject(module=module.__name__, qualified_name="__dict__")
        )
    flat = [part for item in value.items() for part in item]
    return Constant(dictionary=write_all(flat))


def _sorted(value: Iterable[Any]) -> frame_pb2.FrameConstants:
    """Of a set, whose order is another in each process."""
    items = [write(item) for item in value]
    items.sort(key=lambda item: item.SerializeToString())
    return frame_pb2.FrameConstants(items=items)


def _torch_name(value: Any) -> str:
    return str(value).removeprefix("torch.")


def _of_torch(kind: type) -> Callable[[str], Any]:
    def read_name(name: str) -> Any:
        value = getattr(torch, name, None)
        if not isinstance(value, kind):
            raise UnfitError(f"torch has no {kind.__name__} {name}")
        return value

    return read_name


def _function(value: types.FunctionType) -> Constant:
    try:
        return Constant(named=names.name_of(value))
    except UnrecordableError:
        if not dynamo_stand_ins.is_nothing(value):
            raise
    return Constant(named=names.name_of(dynamo_stand_ins.nothing))


_WRITERS: dict[type, Callable[[Any], Constant]] = {
    type(None): lambda value: Constant(none=True),
    bool: lambda value: Constant(boolean=value),
    int: lambda value: Constant(integer=str(value)),
    float: lambda value: Constant(real=value),
    complex: lambda value: Constant(
        complex=frame_pb2.FrameComplex(real=value.real, imaginary=value.imag)
    ),
    str: lambda value: Constant(text=_utf8(value)),
    bytes: lambda value: Constant(data=value),
    tuple: lambda value: Constant(tuple=write_all(value)),
    list: lambda value: Constant(list=write_all(value)),
    frozenset: lambda value: Constant(frozenset=_sorted(value)),
    set: lambda value: Constant(set=_sorted(value)),
    torch.Size: lambda value: Constant(size=write_all(value)),
    slice: lambda value: Constant(slice=write_all((value.start, value.stop, value.step))),
    range: lambda value: Constant(range=write_all((value.start, value.stop, value.step))),
    torch.dtype: lambda value: Constant(dtype=_torch_name(value)),
    torch.device: _device,
    torch.layout: lambda value: Constant(layout=_torch_name(value)),
    torch.memory_format: lambda value: Constant(memory_format=_torch_name(value)),
    type(Ellipsis): lambda value: Constant(ellipsis=True),
    dict: _dictionary,
    types.FunctionType: _function,
    types.ModuleType: lambda value: Constant(named=names.name_of(value)),
}

_READERS: dict[str, Callable[[Any], Any]] = {
    "none": lambda value: None,
    "boolean": bool,
    "integer": int,
    "real": float,
    "complex": lambda value: complex(value.real, value.imaginary),
    "text": str,
    "data": bytes,
    "tuple": lambda value: tuple(read_all(value)),
    "list": read_all,
    "frozenset": lambda value: frozenset(read_all(value)),
    "set": lambda value: set(read_all(value)),
    "size": lambda value: torch.Size(read_all(value)),
    "slice": lambda value: slice(*read_all(value)),
    "range": lambda value: range(*read_all(value)),
    "named": names.find_own,
    "dtype": _of_torch(torch.dtype),
    "device": lambda value: torch.device(value),
    "own_device": lambda value: torch.device(value, own_index(value)),
    "layout": _of_torch(torch.layout),
    "memory_format": _of_torch(torch.memory_format),
    "ellipsis": lambda value: Ellipsis,
    "dictionary": lambda value: _pairs(read_all(value)),
    "numpy": _read_numpy,
}


def _utf8(value: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise UnrecordableError("a text with half a character") from None
    return value


def _pairs(flat: list[Any]) -> dict[Any, Any]:
    return dict(zip(flat[::2], flat[1::2], strict=True))
