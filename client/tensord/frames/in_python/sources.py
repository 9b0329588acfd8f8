# SPDX-License-Identifier: Apache-2.0
"""Where a guard finds the value that it looks at (_native/guard_sources.h): a function for each
step of FrameSource, of the base's value and the step's argument, a name or a number.

The base of LOCAL and GLOBAL are the frame's locals and globals. What raises is not there.
"""

from __future__ import annotations

import gc
import itertools
import operator
import sys
import weakref
from builtins import dict, getattr, int, isinstance, issubclass, next, tuple, type  # noqa: UP029
from collections.abc import Callable
from typing import Any

import torch

from ...torch_compat import dispatch
from ...v1 import frame_pb2

Step = frame_pb2.FrameSource
Find = Callable[[Any, Any], Any]

# Steps that start from the frame.
FROM_FRAME = frozenset(
    (Step.LOCAL, Step.GLOBAL, Step.MODULE, Step.BUILTINS, Step.FUNCTION_MODE)
)  # fmt: skip


def _argument(_: object, argument: Any) -> Any:
    return argument


def _dictionary_item(base: Any, key: object) -> Any:
    """Of a dictionary without what its class makes of a missing key."""
    if type(base) is dict or not issubclass(type(base), dict):  # whatever it says of its class
        return base[key]
    if not dict.__contains__(base, key):
        raise KeyError(key)
    return dict.get(base, key)


def _at_place(items: Any, number: int) -> Any:
    return next(itertools.islice(items, number, None))


_own_dictionary: Callable[[type], Any] = vars(type)["__dict__"].__get__
_method_order: Callable[[type], Any] = vars(type)["__mro__"].__get__


def _dictionary_of(base: Any, _: object) -> Any:
    """Of a class its dictionary itself, which `__dict__` only shows: a guard may ask for its
    keys."""
    if not issubclass(type(base), type):
        return base.__dict__
    (dictionary,) = gc.get_referents(_own_dictionary(base))
    return dictionary


def _closure_of(function: Any, _: object) -> Any:
    found = function.__closure__
    if found is None:
        raise AttributeError("a function without a closure")
    return found


def _item_of_tuple(items: Any, number: int) -> Any:
    if not issubclass(type(items), tuple) or not 0 <= number < tuple.__len__(items):
        raise IndexError(number)
    return tuple.__getitem__(items, number)


def _of_dimension(read: Callable[[Any, int], int]) -> Callable[[Any, int], int]:
    def number(tensor: Any, dimension: int) -> int:
        if not isinstance(tensor, torch.Tensor) or not 0 <= dimension < tensor.dim():
            raise IndexError(dimension)
        return read(tensor, dimension)

    return number


def _storage_offset(tensor: Any, _: object) -> int:
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("a tensor is expected")
    return int(tensor.storage_offset())


def _referent(reference: Any, _: object) -> Any:
    if not issubclass(type(reference), weakref.ref):
        raise TypeError("a weak reference is expected")
    return weakref.ref.__call__(reference)


TUPLE_ITERATOR = type(iter(()))


def _item_left(iterator: Any, number: int) -> Any:
    """Of what the iterator of a tuple has left, which it says as (iter, (tuple,), place)."""
    if type(iterator) is not TUPLE_ITERATOR:
        raise TypeError("the iterator of a tuple is expected")
    reduced: Any = iterator.__reduce__()
    _, (items,), place = reduced
    return _item_of_tuple(items, place + number)


def _tensor_of(value: Any, _: object) -> Any:
    """Shares the array's memory, so that it is cheap."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, (numpy.ndarray, numpy.generic)):
        return value
    return torch.as_tensor(value)


def _function_mode(_: object, number: int) -> Any:
    if not 0 <= number < dispatch.function_modes():
        raise IndexError(number)
    return dispatch.function_mode_at(number)


# But for CELL, which is not found from locals.
FIND: dict[int, Find] = {
    Step.LOCAL: operator.getitem,
    Step.GLOBAL: operator.getitem,
    Step.MODULE: _argument,
    Step.BUILTINS: _argument,
    Step.ATTRIBUTE: getattr,
    # From the object's own dictionary, or its class.
    Step.OWN_ATTRIBUTE: object.__getattribute__,
    Step.ITEM: operator.getitem,
    Step.DICTIONARY_ITEM: _dictionary_item,
    Step.KEY: lambda base, number: _at_place(dict.keys(base), number),
    Step.ITEM_OF_KEY: lambda base, number: _at_place(dict.values(base), number),
    Step.TYPE: lambda base, _: type(base),
    Step.TYPE_DICTIONARY: _dictionary_of,
    Step.METHOD_ORDER: lambda base, _: _method_order(base),
    Step.CODE: lambda base, _: base.__code__,
    Step.CLOSURE: _closure_of,
    Step.DEFAULT: lambda base, number: _item_of_tuple(base.__defaults__, number),
    Step.KEYWORD_DEFAULT: lambda base, name: dict.__getitem__(base.__kwdefaults__, name),
    Step.SIZE: _of_dimension(lambda tensor, dimension: int(tensor.size(dimension))),
    Step.STRIDE: _of_dimension(lambda tensor, dimension: int(tensor.stride(dimension))),
    Step.STORAGE_OFFSET: _storage_offset,
    Step.GRADIENT: lambda base, _: base.grad,
    Step.CALL: _referent,  # of a weak reference only: a guard runs no other function
    Step.TUPLE_ITEM_OF_ITERATOR: _item_left,
    Step.TENSOR_OF: _tensor_of,
    Step.FUNCTION_MODE: _function_mode,
}


def takes(step: int, argument: object) -> bool:
    """Whether it is an argument of the step."""
    if step in _BY_NAME:
        return isinstance(argument, str)
    return step not in _BY_NUMBER or type(argument) is int


_BY_NAME = frozenset(
    (Step.LOCAL, Step.GLOBAL, Step.ATTRIBUTE, Step.OWN_ATTRIBUTE, Step.KEYWORD_DEFAULT)
)  # fmt: skip
_BY_NUMBER = frozenset(
    (Step.KEY, Step.ITEM_OF_KEY, Step.DEFAULT, Step.SIZE, Step.STRIDE, Step.TUPLE_ITEM_OF_ITERATOR,
     Step.FUNCTION_MODE)
)  # fmt: skip
