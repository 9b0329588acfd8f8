# SPDX-License-Identifier: Apache-2.0
"""Sources and guards of a frame in words, for people."""

from __future__ import annotations

import re
from typing import Any

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


def failure(frame: frame_pb2.Frame, tree: Any, locals_of_frame: dict[str, Any]) -> str | None:
    """The first guard of the tree loaded from the frame that does not hold, in words; None when all
    do."""
    said: str | None = tree.failure(locals_of_frame)
    absent = re.fullmatch(r"source (\d+) is not there", said or "")
    return f"there is no {source(frame, int(absent[1]))}" if absent else said
