# SPDX-License-Identifier: Apache-2.0
"""Tensors and arguments between Python and libtensord_runtime, by ctypes (runtime.py)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from .. import torch_compat
from ..wire.call_backs import OPERATOR, leaves
from . import call_backs


class _Payload(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
        ("items", ctypes.c_void_p),
    ]


class Value(ctypes.Structure):
    _anonymous_ = ("payload",)
    _fields_ = [("kind", ctypes.c_int), ("payload", _Payload), ("size", ctypes.c_size_t)]


class OperatorCall(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_char_p),
        ("overload", ctypes.c_char_p),
        ("args", ctypes.POINTER(Value)),
        ("num_args", ctypes.c_size_t),
        ("results", ctypes.POINTER(ctypes.c_void_p)),
        ("num_results", ctypes.c_size_t),
        ("again", ctypes.c_int32),
    ]


OperatorFn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(OperatorCall))

# TensordKind.
_NONE, TENSOR, INT, _DOUBLE, _BOOL, _STRING, _DTYPE, _DEVICE, _FORMAT, _LAYOUT, _LIST = range(11)

# c10::ScalarType, DeviceType, MemoryFormat and Layout by number.
_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    27: torch.uint16,
    28: torch.uint32,
    29: torch.uint64,
}
_DEVICES = {0: "cpu", 1: "cuda"}
_FORMATS = {
    0: torch.contiguous_format,
    1: torch.preserve_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}

_CALL_BACK = OPERATOR.encode()

_to_pointers = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors
_from_pointers = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs

# Typed copies, so that other users of ctypes.pythonapi keep theirs.
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


def to_handles(tensors: list[torch.Tensor]) -> list[int]:
    """New owned handles (at::Tensor*), one per tensor."""
    return [_capsule_pointer(capsule, None) for capsule in _to_pointers(tensors)]


def from_handles(handles: list[int]) -> list[torch.Tensor]:
    """The tensors of owned handles, which are used up."""
    return _from_pointers([_new_capsule(handle, None, None) for handle in handles])


# Of a TensordValue's `size`: the program drops the tensor when it needs it no more, and may write
# results into its memory.
_GIVEN, _DONATED = 1, 2


@contextlib.contextmanager
def as_values(values: Any, given: Sequence[int] = ()) -> Iterator[Any]:
    """An array of TensordValue for a block.

    values: a sequence; a list where something is given. given: tensors that the program may drop.
    Their places in `values` are None meanwhile, and stay so where they are dropped; those that
    are left come back as other tensors on the same memory, which no gradient is asked of.
    """
    inputs = (Value * max(1, len(values)))()
    tensors = [i for i, value in enumerate(values) if isinstance(value, torch.Tensor)]
    given = [i for i in given if i < len(values) and isinstance(values[i], torch.Tensor)]
    storages = dict[int, torch_compat.StorageUse]()
    for i in [] if torch_compat.a_mode_sees() else given:
        if type(values[i]) is torch.Tensor and values[i].layout is torch.strided:
            # Another tensor on its memory: whoever has the one that it was counts as a user.
            values[i] = values[i].detach()
            storages[i] = torch_compat.StorageUse(values[i])
    # The handles are ours, and made into tensors again to drop them.
    for i, handle in zip(tensors, to_handles([values[i] for i in tensors]), strict=True):
        inputs[i].kind = TENSOR
        inputs[i].tensor = handle
    try:
        # By number: a variable would keep the last one.
        for i in range(len(values)):
            if inputs[i].kind != TENSOR and isinstance(values[i], int):
                inputs[i].kind = INT
                inputs[i].integer = values[i]
        for i in given:
            values[i] = None
            inputs[i].size = _DONATED if i in storages and storages[i].is_only() else _GIVEN
        yield inputs
    finally:
        left = [i for i in tensors if inputs[i].tensor]
        for i, tensor in zip(left, from_handles([inputs[i].tensor for i in left]), strict=True):
            if inputs[i].size in (_GIVEN, _DONATED):
                values[i] = tensor


def call_operator(library: ctypes.CDLL, shim: ctypes.CDLL, call: OperatorCall) -> None:
    """Runs an operator through torch.ops and stores new handles of its results."""

    def convert(value: Value) -> Any:
        kind = value.kind
        if kind == TENSOR:
            handle = ctypes.c_void_p()
            if shim.aoti_torch_new_tensor_handle(
                ctypes.c_void_p(value.tensor), ctypes.byref(handle)
            ):
                raise RuntimeError("cannot share a tensor")
            return from_handles([handle.value or 0])[0]
        if kind == INT:
            return value.integer
        if kind == _DOUBLE:
            return value.real
        if kind == _BOOL:
            return bool(value.integer)
        if kind == _STRING:
            return value.text.decode()
        if kind == _DTYPE:
            return _DTYPES[value.integer]
        if kind == _DEVICE:
            device = _DEVICES[value.integer]
            return torch.device(device, value.size) if device == "cuda" else torch.device(device)
        if kind == _FORMAT:
            return _FORMATS[value.integer]
        if kind == _LAYOUT:
            return torch.strided
        if kind == _LIST:
            items = ctypes.cast(value.items, ctypes.POINTER(Value))
            return [convert(items[i]) for i in range(value.size)]
        return None

    if call.op == _CALL_BACK:
        number, writes, reads, sizes = (convert(call.args[i]) for i in range(4))
        _store(call, call_backs.run_step(number, [*writes, *reads], sizes))
        return
    op = torch_compat.named_operator(call.op.decode(), call.overload.decode())
    args, kwargs = [], {}
    for i, parameter in enumerate(op._schema.arguments[: call.num_args]):
        value = convert(call.args[i])
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    with torch_compat.below_autograd():
        _store(call, leaves(op(*args, **kwargs)))


def _store(call: OperatorCall, flat: Sequence[Any]) -> None:
    """New handles of an operator's results."""
    for i in range(call.num_results):
        result = flat[i] if i < len(flat) else None
        # Fused attention also returns sizes, which the graph has as numbers.
        if not isinstance(result, torch.Tensor):
            call.results[i] = None
            continue
        # Memory is all that kernels see: what fake tensors do not show, such as the conjugate bit
        # of a complex decomposition on a GPU, is computed.
        call.results[i] = to_handles([result.resolve_conj().resolve_neg()])[0]
