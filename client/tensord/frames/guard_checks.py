# SPDX-License-Identifier: Apache-2.0
"""A frame's guards made ready to be checked in this process: `load`.

Nothing of Dynamo is imported, and no text of a frame is run: names are looked up, and comparisons
are compiled from a checked subset (relations.py). A class is asked about once and again when its
dictionary or that of a base has changed, which its version tells; a function or a code object once.
What is not seen: another `__code__`, default or cell put into a function object that a guard knows
as a whole, after it was looked at. Dynamo's guards on functions that it followed into are on code,
defaults and cells one by one.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

from ..v1 import frame_pb2
from . import (
    constants,
    digests,
    inlined,
    names,
    native,
    object_digests,
    process_facts,
    process_state,
    relations,
    tensor_facts,
)
from .errors import UnfitError

Step = frame_pb2.FrameSource

# The numbers of _native/guard_checks.h.
(
    _TYPE, _OBJECT, _EQUALS, _LENGTH, _KEYS, _KEYS_UNORDERED, _CONTAINS, _LACKS, _HAS_ATTRIBUTE,
    _LACKS_ATTRIBUTE, _LACKS_OWN, _TENSOR, _SAME_AS, _NOT_NONE, _DISTINCT, _HOLDS, _NAN, _OF_CLASS,
    _CLASS, _ACCEPTED, _LEFT, _STATE,
) = range(22)  # fmt: skip


def load(frame: frame_pb2.Frame, globals_of_frame: dict[str, Any]) -> Any:
    """A native GuardTree: `tree(locals) -> bool`, `tree.failure(locals) -> str | None`, and
    `tree.failed(locals)`, which words.miss reads.

    globals_of_frame: of the frame's function. Raises UnfitError when the frame is not for this
    process: a function that the capture followed into is another, a name is not there, or it is
    malformed.
    """
    try:
        inlined.check(frame.inlined)
        tree = native.module().GuardTree(globals_of_frame)
        loader = _Loader(tree)
        for source in frame.sources:
            loader.add_source(source)
        for guard in frame.guards:
            loader.add_guard(guard)
        return tree
    except UnfitError:
        raise
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise UnfitError(f"its guards are malformed: {error}") from error


class _Loader:
    def __init__(self, tree: Any) -> None:
        self._tree = tree
        self._accept: dict[bytes, Callable[[Any], bool]] = {}

    def add_source(self, source: frame_pb2.FrameSource) -> None:
        step = source.step
        argument: Any = None
        if step == Step.MODULE:
            argument = _module(source.name)
        elif step == Step.BUILTINS:
            argument = vars(sys.modules["builtins"])
        elif step in (Step.ITEM, Step.DICTIONARY_ITEM):
            argument = constants.read(source.constant)
        elif source.name:
            argument = sys.intern(source.name)
        else:
            argument = source.number
        self._tree.add_source(step, source.base - 1, argument)

    def add_guard(self, guard: frame_pb2.FrameGuard) -> None:
        kind = guard.WhichOneof("check")
        if kind is None:
            raise UnfitError("a guard without a check")
        value = getattr(guard, kind)
        if kind in _PLAIN:
            check, read = _PLAIN[kind]
            self._add(check, guard, read(value))
        elif kind in _ASKED:
            check, make = _ASKED[kind]
            key = kind.encode() + value.SerializeToString(deterministic=True)
            if key not in self._accept:
                self._accept[key] = make(value)
            self._add(check, guard, self._accept[key])
        elif kind == "range_left":
            left = range(*constants.read_all(value))
            holds = lambda iterator: constants.range_left(iterator) == left  # noqa: E731
            self._add(_HOLDS, guard, (holds, (guard.source - 1,)))
        elif kind == "relation":
            sources = tuple(number - 1 for number in value.sources)
            self._add(_HOLDS, guard, (relations.compile_relation(value), sources))
        elif kind == "called":
            if (asks := process_facts.check(value)) is not None:
                self._add(_HOLDS, guard, (asks, ()))
        else:
            self._add_state(guard, value)

    def _add(self, check: int, guard: frame_pb2.FrameGuard, argument: Any) -> None:
        self._tree.add_check(check, guard.source - 1, argument, guard.text)

    def _add_state(self, guard: frame_pb2.FrameGuard, state: frame_pb2.ProcessState) -> None:
        self._add(_HOLDS, guard, (process_state.check(state), ()))
        self._add(_STATE, guard, process_state.thread_state(state))
        if state.function_modes:
            self._add(_HOLDS, guard, (process_state.check_modes(state), ()))


def _module(name: str) -> types.ModuleType:
    """A module that the frame's code would import: only of a package that is loaded."""
    module = sys.modules.get(name)
    if module is not None:
        return module
    if names.is_within(name, names.NOT_TO_IMPORT) or name.partition(".")[0] not in sys.modules:
        raise UnfitError(f"module {name} is not loaded")
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnfitError(f"module {name} is not to be had: {error}") from error


def _is_class(facts: frame_pb2.ClassFacts) -> Callable[[type], bool]:
    module, name, digest = facts.name.module, facts.name.qualified_name, facts.digest

    def accepts(cls: type) -> bool:
        return (
            cls.__module__ == module
            and cls.__qualname__ == name
            and object_digests.of_class(cls) == digest
        )

    return accepts


def _is_function(facts: frame_pb2.FunctionFacts) -> Callable[[Any], bool]:
    digest = facts.digest
    return lambda value: (
        type(value) is types.FunctionType and object_digests.of_function(value) == digest
    )


def _is_code(identity: frame_pb2.CodeIdentity) -> Callable[[Any], bool]:
    digest = identity.digest
    return lambda value: type(value) is types.CodeType and digests.of_code(value) == digest


_Read = Callable[[Any], Any]

# Checks of a value as it stands: the native check's number, and its argument.
_PLAIN: dict[str, tuple[int, _Read]] = {
    "same_object": (_OBJECT, names.find_native),
    "equals": (_EQUALS, constants.read),
    "length": (_LENGTH, int),
    "iterator_length": (_LEFT, int),
    "keys": (_KEYS, lambda value: tuple(constants.read_all(value))),
    "keys_unordered": (_KEYS_UNORDERED, lambda value: frozenset(constants.read_all(value))),
    "contains": (_CONTAINS, constants.read),
    "lacks": (_LACKS, constants.read),
    "has_attribute": (_HAS_ATTRIBUTE, str),
    "lacks_attribute": (_LACKS_ATTRIBUTE, str),
    "lacks_own": (_LACKS_OWN, str),
    "tensor": (_TENSOR, tensor_facts.read),
    "same_as": (_SAME_AS, lambda number: number - 1),
    "not_none": (_NOT_NONE, bool),
    "is_nan": (_NAN, bool),
    "distinct": (_DISTINCT, lambda value: tuple(number - 1 for number in value.sources)),
}

# Checks that a function is asked about, once for a class or an object.
_ASKED: dict[str, tuple[int, Callable[[Any], Callable[[Any], bool]]]] = {
    "type": (_OF_CLASS, _is_class),
    "same_class": (_CLASS, _is_class),
    "same_function": (_ACCEPTED, _is_function),
    "code": (_ACCEPTED, _is_code),
}
