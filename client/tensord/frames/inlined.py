# SPDX-License-Identifier: Apache-2.0
"""The functions that a capture followed into (InlinedFunction): how another process finds them, and
whether it has the same.

A path leads from a module through attributes, then through what wraps the function: "__wrapped__",
"__func__", "fget" and the like, and "()name" for a cell of a closure. It is followed exactly, so a
function that somebody has wrapped since is not taken for itself.

Within one process a function changed after loading is seen by other guards: Dynamo compares the
code of every function that it finds in globals, closures and attributes, and a class is asked about
again when its dictionary has changed.
"""

from __future__ import annotations

import functools
import os
import re
import sys
import types
from collections.abc import Iterable, Iterator
from typing import Any

from .. import torch_compat
from ..v1 import frame_pb2
from . import digests, names
from .errors import UnfitError, UnrecordableError

_DEEPEST = 6


def write(codes: Iterable[types.CodeType], covered: set[bytes]) -> list[frame_pb2.InlinedFunction]:
    """Of the codes, each once; those that no module has must be among the digests of `covered`,
    which other guards compare. Raises UnrecordableError."""
    found: dict[bytes, frame_pb2.InlinedFunction] = {}
    index = _Index()
    seen: set[int] = set()
    for code in codes:
        if id(code) in seen:
            continue
        seen.add(id(code))
        modules = index.modules_of(code)
        if any(names.is_within(module, names.NOT_TO_IMPORT) for module in modules):
            continue  # the version of torch says what it is
        place = index.place_of(code, modules)
        if place is None:
            if digest_of(code) in covered or any(_is_of_a_version(module) for module in modules):
                continue
            name = getattr(code, "co_qualname", code.co_name)
            raise UnrecordableError(f"no module has the function {name}, which was followed into")
        module, path, outer = place
        inlined = frame_pb2.InlinedFunction(code=digests.identity(outer, module), path=path)
        inlined.code.digest = digests.of_code_within(outer, vars(sys.modules[module]))
        found[inlined.SerializeToString(deterministic=True)] = inlined
    return list(found.values())


def check(inlined: Iterable[frame_pb2.InlinedFunction]) -> None:
    """Raises UnfitError unless this process has all of them."""
    for function in inlined:
        where = f"{function.code.module}.{'.'.join(function.path)}"
        value: Any = sys.modules.get(function.code.module)
        if value is None:
            raise UnfitError(f"module {function.code.module} is not loaded")
        for step in function.path:
            value = _follow(value, step)
        code = getattr(value, "__code__", None)
        if not isinstance(value, types.FunctionType) or not isinstance(code, types.CodeType):
            raise UnfitError(f"there is no function {where}")
        if digests.of_code_within(code, value.__globals__) != function.code.digest:
            raise UnfitError(f"function {where} is another")


def _follow(value: Any, step: str) -> Any:
    """Null leads on to null."""
    if step.startswith("()"):
        return dict(_cells(value)).get(step[2:])
    if isinstance(value, (type, types.ModuleType)):
        return torch_compat.below_dynamo(vars(value).get(step))
    return dict(_wrapped(value)).get(step)


def digest_of(code: types.CodeType) -> bytes:
    """Raises UnrecordableError for a code that no compiler of Python writes."""
    try:
        return digests.of_code(code)
    except ValueError as error:
        raise UnrecordableError(f"function {code.co_name} has {error}") from error


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    """The code and those within it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)


def codes_within(value: Any) -> Iterator[types.CodeType]:
    """Codes of the function that is the value or that it wraps, with those nested in them."""
    for _, function in _functions(value):
        yield from nested(function.__code__)


def _is_of_a_version(module: str) -> bool:
    """Of Python or torch, whose versions are in a frame's environment."""
    package = module.partition(".")[0]
    return package == "torch" or (package in sys.stdlib_module_names and package != "__main__")


def _cells(value: Any) -> Iterator[tuple[str, Any]]:
    """What the closure of a function holds, by name."""
    if isinstance(value, types.FunctionType):
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=False):
            try:
                yield name, cell.cell_contents
            except ValueError:  # empty
                continue


def _wrapped(value: Any) -> Iterator[tuple[str, Any]]:
    """Functions that a descriptor or a wrapper is made of."""
    if isinstance(value, (staticmethod, classmethod, types.MethodType)):
        yield "__func__", value.__func__
    elif isinstance(value, property):
        yield from (("fget", value.fget), ("fset", value.fset), ("fdel", value.fdel))
    elif isinstance(value, (functools.cached_property, functools.partial)):
        yield "func", value.func
    elif callable(value) and not isinstance(value, type):
        own = getattr(value, "__dict__", None) or {}
        if "__wrapped__" in own:
            yield "__wrapped__", own["__wrapped__"]


def _functions(value: Any) -> Iterator[tuple[list[str], types.FunctionType]]:
    """Functions that the value is or wraps, the outermost first, with the steps to each."""
    seen: set[int] = set()
    level: list[tuple[list[str], Any]] = [([], value)]
    for _ in range(_DEEPEST):
        following: list[tuple[list[str], Any]] = []
        for steps, one in level:
            if id(one) in seen:
                continue
            seen.add(id(one))
            if isinstance(one, types.FunctionType):
                yield steps, one
            following += [([*steps, name], inner) for name, inner in _wrapped(one)]
            following += [
                ([*steps, "()" + name], inner)
                for name, inner in _cells(one)
                if isinstance(inner, (types.FunctionType, functools.partial))
            ]
        level = following


_FROZEN = re.compile(r"<frozen ([\w.]+)>")
_Place = tuple[str, list[str], types.CodeType]


class _Index:
    """Where the modules that are loaded have codes."""

    def __init__(self) -> None:
        self._by_file: dict[str, list[str]] = {}
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None)
            if isinstance(file, str):
                self._by_file.setdefault(os.path.abspath(file), []).append(name)
        self._places: dict[str, dict[int, _Place]] = {}

    def modules_of(self, code: types.CodeType) -> list[str]:
        if frozen := _FROZEN.fullmatch(code.co_filename):  # within Python's own program
            return [frozen[1]] if frozen[1] in sys.modules else []
        return self._by_file.get(os.path.abspath(code.co_filename), [])

    def place_of(self, code: types.CodeType, modules: list[str]) -> _Place | None:
        """Module, path, and the code of the function there, in which the code is nested."""
        for module in modules:
            if module not in self._places:
                self._places[module] = _places(module)
            place = self._places[module].get(id(code))
            if place is not None:
                return place
        return None


def _places(module: str) -> dict[int, _Place]:
    places: dict[int, _Place] = {}

    def add(path: list[str], value: Any) -> None:
        for steps, function in _functions(torch_compat.below_dynamo(value)):
            for code in nested(function.__code__):
                places.setdefault(id(code), (module, path + steps, function.__code__))

    for name, value in list(vars(sys.modules[module]).items()):
        if not isinstance(value, type):
            add([name], value)
        elif value.__module__ == module:
            for member, inner in list(vars(value).items()):
                add([name, member], inner)
    return places
