# SPDX-License-Identifier: Apache-2.0
"""What a guard asks of a tensor (TensorFacts): written of a capture, and read as the native check
has it."""

from __future__ import annotations

from typing import Any

import torch

from .. import torch_compat
from ..v1 import frame_pb2
from . import constants, names, native, object_digests, words
from .errors import UnfitError, UnrecordableError
from .recorder import Recorder

# By which a user says that a dimension is dynamic or not.
_MARKS = (
    "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices", "_dynamo_static_indices",
)  # fmt: skip
# What a user may say beside them, for which a frame has no form.
_MORE_MARKS = ("_dynamo_shape_ids", "_dynamo_unbacked_bounds")


def write(recorder: Recorder, guard: Any) -> None:
    source = guard.originating_source
    if torch_compat.matches_by_identity(guard):
        raise UnrecordableError("a tensor that is known by its address alone")
    tensor = recorder.capture.value(source)
    number, name = recorder.table.number(source), recorder.name(source)
    sizes, strides = recorder.capture.sizes_and_strides(source)
    facts = frame_pb2.TensorFacts(
        type=names.name_of(type(tensor)),
        dtype=str(tensor.dtype).removeprefix("torch."),
        device=_device(tensor.device),
        requires_grad=torch.is_grad_enabled() and tensor.requires_grad,
        has_sizes=tensor.layout is torch.strided,
        dispatch_keys=native.module().dispatch_keys(tensor),
    )
    if facts.has_sizes:
        facts.sizes.extend(frame_pb2.OptionalInt(value=size) for size in sizes)
        facts.strides.extend(frame_pb2.OptionalInt(value=stride) for stride in strides)
    else:
        raise UnrecordableError(f"a tensor of layout {tensor.layout}")
    for attribute in _MARKS:
        if hasattr(tensor, attribute):
            marked = sorted(getattr(tensor, attribute))
            facts.marks.add(attribute=attribute, dimensions=marked)
    if any(hasattr(tensor, attribute) for attribute in _MORE_MARKS):
        raise UnrecordableError("a tensor whose unbacked sizes are bounded by hand")
    recorder.add(number, f"{name} is {words.tensor(tensor, sizes, strides)}", tensor=facts)
    if not object_digests.is_known_by_name(type(tensor)):
        # A subclass of somebody else's: what it does with functions of torch.
        text = f"type({name}) is {type(tensor).__qualname__} as it was"
        recorder.add(number, text, type=recorder.class_facts(type(tensor)))
    if not _may_be_shared(source, tensor):
        recorder.tensors[number] = name


def _device(device: torch.device) -> str:
    return device.type if device.index is None else constants.own_device(device)


def _may_be_shared(source: Any, tensor: torch.Tensor) -> bool:
    """Parameters, what modules of torch hold, and tensors made of arrays: Dynamo does not ask
    whether two are one."""
    kinds = {type(one).__name__ for one in torch_compat.chain(source)}
    unasked = {"UnspecializedBuiltinNNModuleSource", "NumpyTensorSource"}
    return type(tensor) is torch.nn.Parameter or bool(kinds & unasked)


def read(facts: frame_pb2.TensorFacts) -> tuple[Any, ...]:
    """The argument of the native check; raises UnfitError."""
    cls, dtype = names.find(facts.type), getattr(torch, facts.dtype, None)
    if not (isinstance(cls, type) and issubclass(cls, torch.Tensor)):
        raise UnfitError(f"{names.shown(facts.type)} is no class of tensors")
    if not isinstance(dtype, torch.dtype):
        raise UnfitError(f"torch has no data type {facts.dtype}")
    if len(facts.sizes) != len(facts.strides):
        raise UnfitError("a tensor with other strides than sizes")
    sizes = strides = None
    if facts.has_sizes:
        sizes, strides = _numbers(facts.sizes), _numbers(facts.strides)
    marks = {mark.attribute: set(mark.dimensions) for mark in facts.marks}
    index = constants.own_index(facts.device)
    return cls, dtype, index, facts.requires_grad, facts.dispatch_keys, sizes, strides, marks


def _numbers(numbers: Any) -> tuple[int | None, ...]:
    return tuple(one.value if one.HasField("value") else None for one in numbers)
