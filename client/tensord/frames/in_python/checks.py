# SPDX-License-Identifier: Apache-2.0
"""What a guard asks of a value (_native/guard_checks.h): a line for each check, which makes of the
check's argument a function of the value and what is expected. What raises does not hold."""

from __future__ import annotations

import math
import operator
from builtins import (  # noqa: UP029
    bool,
    dict,
    float,
    frozenset,
    hasattr,
    id,
    issubclass,
    len,
    map,
    next,
    set,
    type,
    vars,
)
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .class_versions import AskedOfClass, AskedOfObject
from .sources import TUPLE_ITERATOR
from .tensors import tensor_check
from .thread_state import thread_state

# Of the value and what is expected. None: what is expected is itself asked, of the value and of
# what the thread adds to dispatch keys (tensors.py).
Holds = Callable[[Any, Any], Any] | None


def _as_it_is(holds: Callable[[Any, Any], Any]) -> Callable[[Any], tuple[Holds, Any]]:
    return lambda argument: (holds, argument)


def _asked(kind: Callable[[Any], Any]) -> Callable[[Any], tuple[Holds, Any]]:
    return lambda argument: (_ask, kind(argument))


def _ask(value: Any, asked: Callable[[Any], bool]) -> bool:
    return asked(value)


def _is_type(value: Any, cls: Any) -> bool:
    return type(value) is cls


def _equals(constant: Any) -> tuple[Holds, Any]:
    """Type and value."""
    if constant is None or constant is ... or type(constant) is bool:
        return operator.is_, constant
    return (_equals_float if type(constant) is float else _equals_other), constant


def _equals_float(value: Any, constant: float) -> bool:
    """Zeros of both signs compare equal, and are not the same constant."""
    return (
        type(value) is float
        and value == constant
        and math.copysign(1.0, value) == math.copysign(1.0, constant)
    )


def _equals_other(value: Any, constant: Any) -> bool:
    return type(value) is type(constant) and (value is constant or bool(value == constant))


def _has_length(value: Any, length: int) -> bool:
    return (dict.__len__(value) if issubclass(type(value), dict) else len(value)) == length


def _keys(keys: tuple[Any, ...]) -> tuple[Holds, Any]:
    return _has_keys, (keys, (*map(type, keys),))


def _has_keys(dictionary: Any, expected: tuple[tuple[Any, ...], tuple[type, ...]]) -> bool:
    """In order."""
    found = (*dict.keys(dictionary),)
    return (found, (*map(type, found),)) == expected


def _has_keys_unordered(dictionary: Any, keys: frozenset[Any]) -> bool:
    return dict.keys(dictionary) == keys


def _contains(container: Any, key: object) -> bool:
    """Not by what a subclass of dict or set makes of it."""
    for kind in (dict, set, frozenset):
        if issubclass(type(container), kind):
            return bool(kind.__contains__(container, key))
    return key in container


def _has_plain_dictionary(cls: type) -> bool:
    """Whether `__dict__` of its instances is what they have, and nothing that a class calls so."""
    found = next((vars(one)["__dict__"] for one in cls.__mro__ if "__dict__" in vars(one)), None)
    return type(found) is type(vars(type)["__dict__"])


def _lacks_own(name: str) -> tuple[Holds, Any]:
    is_plain = AskedOfClass(_has_plain_dictionary)

    def lacks(value: Any, name: str) -> bool:
        own = object.__getattribute__(value, "__dict__")
        return is_plain(type(value)) and name not in own

    return lacks, name


def _is_nan(value: Any, _: object) -> bool:
    # By the comparison itself: others take an object for equal to itself.
    return (value != value) is True


def _of_class(value: Any, asked: AskedOfClass) -> bool:
    return asked(type(value))


def _is_class(value: Any, asked: AskedOfClass) -> bool:
    return issubclass(type(value), type) and asked(value)


def _has_left(value: Any, left: int) -> bool:
    return type(value) is TUPLE_ITERATOR and operator.length_hint(value, -1) == left


@dataclass(frozen=True)
class Check:
    """made: of the argument, the function and what it expects. takes: the argument's own class;
    None: any; `callable`: what can be called."""

    made: Callable[[Any], tuple[Holds, Any]]
    takes: Callable[[Any], bool] | type | None = None

    def takes_argument(self, argument: Any) -> bool:
        if self.takes is None:
            return True
        if isinstance(self.takes, type):
            return type(argument) is self.takes
        return self.takes(argument)


# Of one source, by the numbers of _native/guard_checks.h.
OF_ONE: dict[int, Check] = {
    0: Check(_as_it_is(_is_type)),
    1: Check(_as_it_is(operator.is_)),
    2: Check(_equals),
    3: Check(_as_it_is(_has_length), int),
    4: Check(_keys, tuple),
    5: Check(_as_it_is(_has_keys_unordered), frozenset),
    6: Check(_as_it_is(_contains)),
    7: Check(_as_it_is(lambda container, key: not _contains(container, key))),
    8: Check(_as_it_is(hasattr), str),
    9: Check(_as_it_is(lambda value, name: not hasattr(value, name)), str),
    10: Check(_lacks_own, str),
    11: Check(lambda argument: (None, tensor_check(argument)), tuple),
    13: Check(_as_it_is(lambda value, _: value is not None)),
    16: Check(_as_it_is(_is_nan)),
    17: Check(lambda argument: (_of_class, AskedOfClass(argument)), callable),
    18: Check(lambda argument: (_is_class, AskedOfClass(argument)), callable),
    19: Check(_asked(AskedOfObject), callable),
    20: Check(_as_it_is(_has_left), int),
}

# Of the values of several sources, or of none.
OfSeveral = Callable[..., Any]


def _are_distinct(*objects: object) -> bool:
    return len(set(map(id, objects))) == len(objects)


def _same_as(source: int, argument: int) -> tuple[OfSeveral, tuple[int, ...]]:
    if source < 0 or type(argument) is not int:
        raise ValueError("another source is expected")
    return operator.is_, (source, argument)


def _distinct(source: int, argument: tuple[int, ...]) -> tuple[OfSeveral, tuple[int, ...]]:
    if type(argument) is not tuple:
        raise TypeError("a tuple of numbers of sources is expected")
    return _are_distinct, argument


def _holds(source: int, argument: Any) -> tuple[OfSeveral, tuple[int, ...]]:
    if type(argument) is not tuple or len(argument) != 2 or not callable(argument[0]):
        raise ValueError("a callable and its sources are expected")
    if type(argument[1]) is not tuple:
        raise TypeError("a tuple of numbers of sources is expected")
    return argument


def _has_state(source: int, argument: int) -> tuple[OfSeveral, tuple[int, ...]]:
    if type(argument) is not int:
        raise ValueError("a number is expected")
    return (lambda: thread_state() == argument), ()


# Makes of the check's source (-1: none) and its argument what is asked, and of which sources.
# Raises ValueError or TypeError.
OF_SEVERAL: dict[int, Callable[[int, Any], tuple[OfSeveral, tuple[int, ...]]]] = {
    12: _same_as,
    14: _distinct,
    15: _holds,
    21: _has_state,
}
