# SPDX-License-Identifier: Apache-2.0
"""Which code it is: digests that two processes agree on, and that no path, line or address
changes."""

from __future__ import annotations

import builtins
import hashlib
import types
from collections.abc import Mapping
from typing import Any

from ..v1 import frame_pb2
from . import code_objects


def of_code(code: types.CodeType) -> bytes:
    """SHA-256 over bytecode, constants, names and nested code; not over where it lies.

    Raises ValueError for a constant that no compiler of Python writes.
    """
    known = _known.get(id(code))
    if known is None:
        hasher = hashlib.sha256()
        _add_code(hasher, code)
        known = _known[id(code)] = (code, hasher.digest())
    return known[1]


def of_code_within(code: types.CodeType, globals: Mapping[str, Any]) -> bytes:
    """Of a code with the globals that it runs with: a global that has the name of one of Python's
    built-in functions stands for another thing in the code than the built-in one."""
    shadowed = [name for name in _builtin_names(code) if name in globals]
    if not shadowed:
        return of_code(code)
    return hashlib.sha256(of_code(code) + "\0".join(shadowed).encode()).digest()


def of_entered(
    code: types.CodeType, locals: Mapping[str, Any], globals: Mapping[str, Any]
) -> bytes:
    """Of a code with the functions in its closure: what a decorator returns is one code for all
    that it decorates. locals: of the frame, the contents of its closure's cells among them."""
    own = of_code_within(code, globals)
    within = [locals.get(name) for name in code.co_freevars]
    functions = [one for one in within if isinstance(one, types.FunctionType)]
    if not functions:
        return own
    hasher = hashlib.sha256(own)
    for function in functions:
        hasher.update(of_code_within(function.__code__, function.__globals__))
    return hasher.digest()


def identity(code: types.CodeType, module: str) -> frame_pb2.CodeIdentity:
    """module: the `__name__` of the globals that the code runs with."""
    name = getattr(code, "co_qualname", code.co_name)  # from 3.11
    return frame_pb2.CodeIdentity(digest=of_code(code), module=module, qualified_name=name)


def _builtin_names(code: types.CodeType) -> list[str]:
    """Names of built-in functions and classes that the code, or what it nests, may look up."""
    known = _names.get(id(code))
    if known is None:
        names = sorted({*code_objects.global_names(code)} & _BUILTINS)
        known = _names[id(code)] = (code, names)
    return known[1]


_BUILTINS = frozenset(dir(builtins))
# As _known.
_names: dict[int, tuple[types.CodeType, list[str]]] = {}

# By number, for codes compare equal that differ in what `==` of constants does not see (0.0 and
# -0.0). The code is kept, so that the number stays its own.
_known: dict[int, tuple[types.CodeType, bytes]] = {}


def _add_code(hasher: Any, code: types.CodeType) -> None:
    counts = (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_nlocals,
        code.co_stacksize, code.co_flags,
    )  # fmt: skip
    names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    _add(hasher, repr((counts, names)).encode())
    _add(hasher, code.co_code)
    _add(hasher, getattr(code, "co_exceptiontable", b""))
    for constant in code.co_consts:
        _add_constant(hasher, constant)


def _add_constant(hasher: Any, constant: object) -> None:
    if isinstance(constant, types.CodeType):
        _add(hasher, b"code " + of_code(constant))
    elif isinstance(constant, tuple):
        _add(hasher, b"tuple %d" % len(constant))
        for item in constant:
            _add_constant(hasher, item)
    elif isinstance(constant, slice):  # from 3.14
        _add(hasher, b"slice")
        for part in (constant.start, constant.stop, constant.step):
            _add_constant(hasher, part)
    elif isinstance(constant, frozenset):
        # Its order is another in each process.
        _add(hasher, b"frozenset %d" % len(constant))
        for item in sorted(constant, key=lambda item: (type(item).__name__, repr(item))):
            _add_constant(hasher, item)
    elif constant is None or constant is Ellipsis or type(constant) in _PLAIN:
        _add(hasher, f"{type(constant).__name__} {constant!r}".encode())
    else:
        raise ValueError(f"a constant of type {type(constant).__name__}")


_PLAIN = (bool, int, float, complex, str, bytes)


def _add(hasher: Any, data: bytes) -> None:
    hasher.update(len(data).to_bytes(8, "little"))
    hasher.update(data)
