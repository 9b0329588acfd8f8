# SPDX-License-Identifier: Apache-2.0
"""Sources and guards of a frame in words, for people."""

from __future__ import annotations

import enum
import itertools
import re
import types
from collections.abc import Sequence
from typing import Any

import torch

from ..v1 import frame_pb2
from . import constants
from .errors import UnfitError

# How each step reads: {0} is its base, {1} its name, number or constant.
_STEPS = {
    "LOCAL": "{1}",
    "GLOBAL": "{1}",
    "MODULE": "{1}",
    "BUILTINS": "builtins.__dict__",
    "CELL": "the cell of {1}",
    "ATTRIBUTE": "{0}.{1}",
    "OWN_ATTRIBUTE": "{0}.{1}",
    "ITEM": "{0}[{1}]",
    "DICTIONARY_ITEM": "{0}[{1}]",
    "KEY": "key {1} of {0}",
    "ITEM_OF_KEY": "item {1} of {0}",
    "TYPE": "type({0})",
    "TYPE_DICTIONARY": "{0}.__dict__",
    "METHOD_ORDER": "{0}.__mro__",
    "CODE": "{0}.__code__",
    "CLOSURE": "{0}.__closure__",
    "DEFAULT": "{0}.__defaults__[{1}]",
    "KEYWORD_DEFAULT": "{0}.__kwdefaults__[{1!r}]",
    "SIZE": "{0}.size({1})",
    "STRIDE": "{0}.stride({1})",
    "STORAGE_OFFSET": "{0}.storage_offset()",
    "GRADIENT": "{0}.grad",
    "CALL": "{0}()",
    "TUPLE_ITEM_OF_ITERATOR": "item {1} of what {0} has left",
    "TENSOR_OF": "torch.as_tensor({0})",
    "FUNCTION_MODE": "mode {1} of torch functions",
}


def source(frame: frame_pb2.Frame, number: int) -> str:
    """The source of that number, as Python would have it: "model.blocks['0'].weight"."""
    one = frame.sources[number]
    argument: Any = one.name or one.number
    if one.HasField("constant"):
        try:
            argument = repr(constants.read(one.constant))
        except UnfitError:
            argument = "something that this process does not have"
    base = source(frame, one.base - 1) if 0 < one.base <= number else ""
    return _STEPS[frame_pb2.FrameSource.Step.Name(one.step)].format(base, argument)


def miss(frame: frame_pb2.Frame, tree: Any, locals_of_frame: dict[str, Any]) -> UnfitError | None:
    """The first guard of the tree loaded from the frame that does not hold, and what was there, in
    words; None when all do."""
    failed = tree.failed(locals_of_frame)
    if failed is None:
        return None
    text, values = failed
    if absent := re.fullmatch(r"source (\d+) is not there", text):
        return UnfitError(f"there is no {source(frame, int(absent[1]))}")
    found = [f"{source(frame, number)} is {described(value)}" for number, value in values]
    return UnfitError(text, "; ".join(found))


def failure(frame: frame_pb2.Frame, tree: Any, locals_of_frame: dict[str, Any]) -> str | None:
    """The first guard of the tree loaded from the frame that does not hold, in words; None when all
    do."""
    missed = miss(frame, tree, locals_of_frame)
    return None if missed is None else str(missed)


_SHOWN = (bool, int, float, complex, str, bytes, enum.Enum, torch.dtype, torch.device, torch.Size)
_LONGEST = 120
_MOST_KEYS = 8


def described(value: Any) -> str:
    """A value as far as guards may ask of it. Of a tensor no elements."""
    if isinstance(value, torch.Tensor):
        if value.layout is not torch.strided:
            return f"a {type(value).__name__} of layout {value.layout}"
        return tensor(value, value.shape, value.stride())
    if value is None or isinstance(value, _SHOWN):
        text = repr(value)
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    if isinstance(value, type):
        return f"the class {value.__module__}.{value.__qualname__}"
    if isinstance(value, (types.FunctionType, types.CodeType)):
        code = value if isinstance(value, types.CodeType) else value.__code__
        return f"{type(value).__name__} {code.co_name} of line {code.co_firstlineno}"
    if isinstance(value, dict):
        keys = ", ".join(map(repr, itertools.islice(value, _MOST_KEYS)))
        more = ", ..." if len(value) > _MOST_KEYS else ""
        return f"a dictionary of {len(value)} keys: {keys[:_LONGEST]}{more}"
    if isinstance(value, (list, tuple, set, frozenset)):
        return f"a {type(value).__name__} of {len(value)} items"
    return f"of type {type(value).__module__}.{type(value).__qualname__}"


def tensor(value: torch.Tensor, sizes: Sequence[int | None], strides: Sequence[int | None]) -> str:
    """sizes, strides: None where any will do."""
    gradient = ", with a gradient" if value.requires_grad else ""
    return (
        f"a {type(value).__name__} of {str(value.dtype).removeprefix('torch.')} {_list(sizes)}, "
        f"strides {_list(strides)}, on {value.device.type}{gradient}"
    )


def _list(numbers: Sequence[int | None]) -> str:
    return f"[{', '.join('any' if number is None else str(number) for number in numbers)}]"
