# SPDX-License-Identifier: Apache-2.0
"""Numbers that change with each change of a class or of a base: CPython's own version tags.

They have no name in Python, and are read where they lie in a class's object; whether they lie there
in this interpreter, and change as they should, is tried once. Where not, a class has no version,
and is asked about each time.
"""

from __future__ import annotations

import ctypes
import functools
from builtins import id, int, issubclass, type  # noqa: UP029
from collections.abc import Callable
from typing import Any

# PyTypeObject as 3.10 to 3.14 have it: a word each, and behind them the tag, an unsigned int.
_WORDS = (
    "ob_refcnt ob_type ob_size tp_name tp_basicsize tp_itemsize tp_dealloc tp_vectorcall_offset "
    "tp_getattr tp_setattr tp_as_async tp_repr tp_as_number tp_as_sequence tp_as_mapping tp_hash "
    "tp_call tp_str tp_getattro tp_setattro tp_as_buffer tp_flags tp_doc tp_traverse tp_clear "
    "tp_richcompare tp_weaklistoffset tp_iter tp_iternext tp_methods tp_members tp_getset tp_base "
    "tp_dict tp_descr_get tp_descr_set tp_dictoffset tp_init tp_alloc tp_new tp_free tp_is_gc "
    "tp_bases tp_mro tp_cache tp_subclasses tp_weaklist tp_del"
).split()
_WORD = ctypes.sizeof(ctypes.c_void_p)
_TAG = len(_WORDS) * _WORD


def type_version(cls: type) -> int:
    """Another after each change of the class or of a base; 0: it cannot be said."""
    if not issubclass(type(cls), type):
        raise TypeError("a class is expected")
    if not _are_known():
        return 0
    return _assigned(cls)


def _assigned(cls: type) -> int:
    # Looking up an attribute gives the class a version: one that the class of classes has too, and
    # not as what goes before the class's own.
    type.__getattribute__(cls, "__init__")
    return int(_tag_of(cls).value)


def _tag_of(cls: type) -> Any:
    """Where its number lies; to be read only while the class is known to live."""
    return ctypes.c_uint.from_address(id(cls) + _TAG)


@functools.cache
def _are_known() -> bool:
    """Whether classes of this interpreter lie as _WORDS says and their numbers change."""

    class Base:
        pass

    class Probe(Base):
        pass

    before = _assigned_if_laid(Probe)
    Probe.own = 1  # type: ignore[attr-defined]
    after_own, again = int(_tag_of(Probe).value), _assigned_if_laid(Probe)
    Base.inherited = 1  # type: ignore[attr-defined]
    after_base = int(_tag_of(Probe).value)
    return 0 not in (before, again) and before not in (after_own, again) and again != after_base


def _assigned_if_laid(probe: type) -> int:
    """The probe's number; 0 where its object is not laid out as _WORDS says."""
    type.__getattribute__(probe, "__init__")
    expected = {
        "tp_basicsize": probe.__basicsize__,
        "tp_itemsize": probe.__itemsize__,
        "tp_flags": probe.__flags__,
        "tp_weaklistoffset": probe.__weakrefoffset__,
        "tp_dictoffset": probe.__dictoffset__,
        "tp_base": id(probe.__base__),
        "tp_bases": id(probe.__bases__),
        "tp_mro": id(probe.__mro__),
    }
    for name, value in expected.items():
        place = id(probe) + _WORDS.index(name) * _WORD
        if ctypes.c_ssize_t.from_address(place).value != value:
            return 0
    return int(_tag_of(probe).value)


class AskedOfClass:
    """What a callable says of a class; asked again when the class has changed or is another."""

    __slots__ = ("_ask", "_known")

    def __init__(self, ask: Callable[[Any], bool]) -> None:
        self._ask = ask
        # The class that it said yes to last, where its number lies, and what that was.
        self._known: tuple[object, Any, int] = (None, None, 0)

    def __call__(self, cls: type) -> bool:
        known, tag, version = self._known
        if known is cls and version != 0 and tag.value == version:
            return True
        # Of before the question: what changes the class meanwhile is asked about again.
        version = type_version(cls)
        if not self._ask(cls):
            return False
        self._known = (cls, _tag_of(cls), version)
        return True


class AskedOfObject:
    """What a callable says of an object; asked once for each."""

    __slots__ = ("_ask", "_known")

    def __init__(self, ask: Callable[[Any], bool]) -> None:
        self._ask = ask
        self._known: Any = self  # which nobody asks about

    def __call__(self, value: object) -> bool:
        if value is self._known:
            return True
        if not self._ask(value):
            return False
        self._known = value
        return True
