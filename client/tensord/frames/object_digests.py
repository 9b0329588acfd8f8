# SPDX-License-Identifier: Apache-2.0
"""Which function and which class it is: digests that two processes agree on.

A function is its code, its defaults and what its closure holds; a class is what its dictionary and
those of its bases have. Of a value that is neither a function, a class nor a plain constant the
kind alone counts: Dynamo guards on what it read of it.
"""

from __future__ import annotations

import _abc  # type: ignore[import-not-found]
import abc
import enum
import functools
import hashlib
import sys
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from .. import torch_compat
from ..v1 import frame_pb2
from . import digests, names, native
from .errors import UnfitError

# What a class has without anybody's writing it, or what says nothing of how it behaves.
_UNTOLD = frozenset(
    ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__", "__firstlineno__",
     "__static_attributes__", "__annotations__", "__annotate__", "__annotate_func__",
     "__annotations_cache__", "__parameters__", "__orig_bases__", "__abstractmethods__",
     "_abc_impl", "__slotnames__", torch_compat.LEFT_BY_DYNAMO)
)  # fmt: skip


_HEAP_TYPE = 1 << 9


def is_known_by_name(cls: type) -> bool:
    """A class of Python's own or of torch, whose versions are in the environment of a frame. Not a
    module of torch: those are what users change for all models of a process."""
    package = cls.__module__.partition(".")[0]
    if package != "torch" and (package not in sys.stdlib_module_names or package == "__main__"):
        return False
    if package == "torch" and issubclass(cls, torch.nn.Module):
        return False
    if not cls.__flags__ & _HEAP_TYPE:
        return True  # of C, and nobody can make another of that name
    try:
        found = names.find(name_of_class(cls))
    except UnfitError:
        return False
    return found is cls


def name_of_class(cls: type) -> frame_pb2.NamedObject:
    """What the class says of itself; it need not be found there."""
    return frame_pb2.NamedObject(module=cls.__module__, qualified_name=cls.__qualname__)


def of_class(cls: type) -> bytes:
    """SHA-256 over the class and its bases as they are; empty of one that is known by its name."""
    if is_known_by_name(cls):
        return b""
    hasher = hashlib.sha256()
    for base in cls.__mro__:
        _add(hasher, f"{base.__module__}.{base.__qualname__}")
        if not is_known_by_name(base):
            hasher.update(_of_own(base))
    return hasher.digest()


def of_function(function: types.FunctionType) -> bytes:
    """SHA-256 over code, defaults and what the closure holds, other functions with theirs."""
    describer = _Describer()
    describer.add(function)
    return describer.digest()


def _of_own(cls: type) -> bytes:
    """Of the class's own dictionary; computed again after the class or a base has changed."""
    version = native.module().type_version(cls)
    known = _own.get(cls)
    if known is not None and version != 0 and known[0] == version:
        return known[1]
    describer = _Describer()
    for name, value in sorted(vars(cls).items(), key=lambda item: str(item[0])):
        if name not in _UNTOLD:
            describer.say(str(name))
            describer.add(value)
    if issubclass(cls, enum.Enum):
        for member in cls.__members__.values():
            describer.add(member)
    if isinstance(cls, abc.ABCMeta):
        for name in _registered(cls):
            describer.say(f"subclass {name}")
    digest = describer.digest()
    _own[cls] = (version, digest)
    return digest


def _registered(cls: abc.ABCMeta) -> list[str]:
    """Classes that it takes for its subclasses by `register`, which does not change its version."""
    known = (reference() for reference in _abc._get_dump(cls)[0])
    return sorted(f"{one.__module__}.{one.__qualname__}" for one in known if one is not None)


# With the version that the class had.
_own: weakref.WeakKeyDictionary[type, tuple[int, bytes]] = weakref.WeakKeyDictionary()

_CONSTANTS = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))


class _Describer:
    """Says values to a hasher, each function once."""

    def __init__(self) -> None:
        self._hasher = hashlib.sha256()
        self._seen: dict[int, int] = {}

    def digest(self) -> bytes:
        return self._hasher.digest()

    def say(self, text: str) -> None:
        _add(self._hasher, text)

    def add(self, value: Any) -> None:
        value = torch_compat.below_dynamo(value)
        known = self._seen.get(id(value))
        kind = type(value)
        if isinstance(value, types.FunctionType):
            if known is not None:
                self.say(f"function {known}")
                return
            self._seen[id(value)] = len(self._seen)
            self._add_function(value)
        elif kind in _CONSTANTS:
            self.say(f"{kind.__name__} {value!r}")
        elif kind in (tuple, frozenset):
            items = sorted(value, key=repr) if kind is frozenset else value
            self.say(f"{kind.__name__} {len(items)}")
            for item in items:
                self.add(item)
        elif isinstance(value, enum.Enum):
            self.say(f"member {kind.__module__}.{kind.__qualname__}.{value.name}")
            self.add(value._value_)
        elif isinstance(value, type):
            self.say(f"class {value.__module__}.{value.__qualname__}")
        elif isinstance(value, types.ModuleType):
            self.say(f"module {value.__name__}")
        elif kind in (torch.dtype, torch.device, torch.layout, torch.memory_format):
            self.say(repr(value))
        else:
            self.say(f"a {kind.__module__}.{kind.__qualname__}")
            for part in _parts(value):
                self.add(part)

    def _add_function(self, function: types.FunctionType) -> None:
        self.say("function")
        self._hasher.update(digests.of_code(function.__code__))
        self.add(function.__defaults__)
        for name, value in sorted((function.__kwdefaults__ or {}).items()):
            self.say(name)
            self.add(value)
        for cell in function.__closure__ or ():
            try:
                self.add(cell.cell_contents)
            except ValueError:  # empty
                self.say("nothing")


_PARTS: list[tuple[type | tuple[type, ...], Callable[[Any], tuple[Any, ...]]]] = [
    ((staticmethod, classmethod), lambda value: (value.__func__,)),
    (property, lambda value: (value.fget, value.fset, value.fdel)),
    (functools.cached_property, lambda value: (value.func,)),
    ((functools.partial, functools.partialmethod), lambda value: (value.func, tuple(value.args))),
    (types.MethodType, lambda value: (value.__func__,)),
]


def _parts(value: Any) -> tuple[Any, ...]:
    """What of a descriptor or another wrapper decides what it does."""
    for kinds, parts in _PARTS:
        if isinstance(value, kinds):
            return parts(value)
    inner = getattr(value, "__wrapped__", None) if callable(value) else None
    return (inner,) if isinstance(inner, types.FunctionType) else ()


def _add(hasher: Any, text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    hasher.update(len(data).to_bytes(8, "little"))
    hasher.update(data)
