# SPDX-License-Identifier: Apache-2.0
"""What Dynamo's bytecode calls of Dynamo's own modules, without importing them.

A name that is not here imports the module itself.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import threading
import types
from collections.abc import Callable
from typing import Any

from ..torch_compat.dispatch import function_mode_at
from ..torch_compat.eval_frame import leave, without_hook


def nothing() -> None:
    """What Dynamo's bytecode calls to be rid of a NULL; a lambda of its own, without a name."""


leave(nothing)


def is_nothing(function: types.FunctionType) -> bool:
    """Whether it takes nothing, does nothing and returns None."""
    code = function.__code__
    takes = code.co_argcount + code.co_kwonlyargcount + len(code.co_varnames)
    return takes == 0 and (code.co_code, code.co_consts) == (_NOTHING.co_code, _NOTHING.co_consts)


_NOTHING = (lambda: None).__code__


def _set_own(instance: Any, name: str, value: Any) -> None:
    """Sets an attribute of the instance itself, whatever its class says to it."""
    try:
        own = object.__getattribute__(instance, "__dict__")
    except AttributeError:
        if not isinstance(instance, threading.local):
            raise
        own = threading.local.__getattribute__(instance, "__dict__")
    own[name] = value


def _begin() -> None:
    """Of the bytecode before a graph is called, for profilers."""


def _end(_: None) -> None:
    """Likewise."""


def _tuple_iterator_item(iterator: Any, index: int) -> Any:
    """Of what a tuple's iterator has left."""
    _, (items,), start = iterator.__reduce__()
    return items[start + index]


def _key(dictionary: dict[Any, Any], number: int) -> Any:
    """Of a dictionary's keys, in order."""
    return next(itertools.islice(dict.keys(dictionary), number, None))


def _size(tensor: Any, dimension: int) -> int:
    size: int = tensor.size(dimension)
    return size


def _stride(tensor: Any, dimension: int) -> int:
    stride: int = tensor.stride(dimension)
    return stride


def _storage_offset(tensor: Any) -> int:
    offset: int = tensor.storage_offset()
    return offset


def _cell(value: Any = None) -> types.CellType:
    return types.CellType(value)


def _nested_function(
    code: types.CodeType,
    globals: dict[str, Any],
    name: str,
    defaults: tuple[Any, ...] | None,
    closure: tuple[types.CellType, ...] | None,
    keyword_defaults: dict[str, Any] | None,
    annotations: Any,
) -> types.FunctionType:
    """A function that a captured one makes; annotations: a dictionary, or its keys and values in
    turn."""
    function = types.FunctionType(code, globals, name, defaults, closure)
    function.__kwdefaults__ = keyword_defaults
    if isinstance(annotations, tuple):
        annotations = dict(zip(annotations[::2], annotations[1::2], strict=True))
    function.__annotations__ = annotations
    return function


MODULES: dict[str, dict[str, Callable[..., Any]]] = {
    "torch._dynamo.utils": {
        "record_pregraph_bytecode_enter": _begin,
        "record_pregraph_bytecode_exit": _end,
        "object_setattr_ignore_descriptor": _set_own,
        "object_new": object.__new__,
        "dict_getitem": dict.__getitem__,
        "dict_keys_getitem": _key,
        "list_getitem": list.__getitem__,
        "tuple_iterator_getitem": _tuple_iterator_item,
        "iter_next": next,
        "get_torch_function_mode_stack_at": function_mode_at,
        "call_size": _size,
        "call_stride": _stride,
        "call_storage_offset": _storage_offset,
        "make_cell": _cell,
    },
    "torch._dynamo.variables.functions": {"_create_nested_fn": _nested_function},
}


class _StandIn:
    """Of a module."""

    def __init__(self, module: str) -> None:
        self.__name__ = module
        self.__dict__.update(MODULES[module])

    def __getattr__(self, name: str) -> Any:
        return getattr(_import(self.__name__), name)


@functools.cache
def _import(module: str) -> types.ModuleType:
    return without_hook(importlib.import_module)(module)


@functools.cache
def stand_in(module: str) -> Any:
    """For a module of MODULES."""
    for function in MODULES[module].values():
        if isinstance(function, types.FunctionType):
            leave(function)
    leave(_StandIn.__getattr__)
    return _StandIn(module)
