# SPDX-License-Identifier: Apache-2.0
"""Code objects as FrameCode and back, constants and nested code included, without their files."""

from __future__ import annotations

import dis
import itertools
import types
from collections.abc import Iterable, Iterator
from typing import Any

from ..v1 import frame_pb2
from . import constants

_LOOKS_UP = ("LOAD_GLOBAL", "LOAD_NAME", "STORE_GLOBAL", "DELETE_GLOBAL")


def write(code: types.CodeType) -> frame_pb2.FrameCode:
    """Raises ValueError for a constant that has no form in frame.proto."""
    message = frame_pb2.FrameCode(
        bytecode=code.co_code,
        names=code.co_names,
        variables=code.co_varnames,
        free=code.co_freevars,
        cells=code.co_cellvars,
        positional=code.co_argcount,
        positional_only=code.co_posonlyargcount,
        keyword_only=code.co_kwonlyargcount,
        stack_size=code.co_stacksize,
        flags=code.co_flags,
        name=code.co_name,
        qualified_name=getattr(code, "co_qualname", code.co_name),
        first_line=code.co_firstlineno,
        lines=code.co_linetable,
        exceptions=getattr(code, "co_exceptiontable", b""),
    )
    message.constants.SetInParent()
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            message.constants.items.add().code.CopyFrom(write(constant))
        else:
            message.constants.items.append(constants.write(constant))
    return message


def read(message: frame_pb2.FrameCode, file: str) -> types.CodeType:
    """The code object, which tells tracebacks that it lies in `file`.

    Raises ValueError for a constant that is not there in this process, and for what is no code.
    """
    fields: dict[str, Any] = {
        "co_code": message.bytecode,
        "co_consts": tuple(
            read(item.code, file) if item.HasField("code") else constants.read(item)
            for item in message.constants.items
        ),
        "co_names": tuple(message.names),
        "co_varnames": tuple(message.variables),
        "co_freevars": tuple(message.free),
        "co_cellvars": tuple(message.cells),
        "co_argcount": message.positional,
        "co_posonlyargcount": message.positional_only,
        "co_kwonlyargcount": message.keyword_only,
        "co_nlocals": len(message.variables),
        "co_stacksize": message.stack_size,
        "co_flags": message.flags,
        "co_name": message.name,
        "co_firstlineno": message.first_line,
        "co_linetable": message.lines,
        "co_filename": file,
    }
    if hasattr(_ANY, "co_qualname"):  # from 3.11
        fields["co_qualname"] = message.qualified_name
        fields["co_exceptiontable"] = message.exceptions
    try:
        return _ANY.replace(**fields)
    except (TypeError, ValueError, OverflowError, SystemError) as error:
        raise ValueError(f"no code object: {error}") from error


def renamed(code: types.CodeType, names: dict[str, str]) -> types.CodeType:
    """The code and what it nests, with other names of globals."""
    return code.replace(
        co_names=tuple(names.get(name, name) for name in code.co_names),
        co_consts=tuple(
            renamed(constant, names) if isinstance(constant, types.CodeType) else constant
            for constant in code.co_consts
        ),
    )


def integers(code: types.CodeType) -> Iterator[int]:
    """Constants of the code and of what it nests."""
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from integers(constant)
        elif type(constant) is int:
            yield constant


def global_names(code: types.CodeType) -> list[str]:
    """Names that the code, or what it nests, may look up in its globals; in order, each once."""
    found = dict.fromkeys(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(global_names(constant)))
    return list(found)


def looked_up(code: types.CodeType) -> list[str]:
    """Names that instructions of the code, or of what it nests, look up in its globals or change
    there; in order, each once."""
    found = dict.fromkeys(
        instruction.argval
        for instruction in dis.get_instructions(code)
        if instruction.opname in _LOOKS_UP
    )
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found.update(dict.fromkeys(looked_up(constant)))
    return list(found)


def is_continuation(name: str) -> bool:
    """Whether a code of this name is one that Dynamo makes of what goes on behind a break."""
    return name.startswith("torch_dynamo_resume_in_")


def difference(stored: frame_pb2.FrameCode, fresh: frame_pb2.FrameCode) -> str:
    """The first part that differs, for people: "constant 3: 2 instead of 1"; empty: none does."""
    if stored == fresh:
        return ""
    for name, one, other in (
        ("name", stored.names, fresh.names),
        ("variable", stored.variables, fresh.variables),
        ("constant", stored.constants.items, fresh.constants.items),
        ("instruction", _instructions(stored), _instructions(fresh)),
    ):
        if found := _first(one, other):
            return f"{name} {found}"
    for field in fresh.DESCRIPTOR.fields:
        one, other = getattr(stored, field.name), getattr(fresh, field.name)
        if one != other:
            return f"{field.name}: {_short(other)} instead of {_short(one)}"
    return ""


def _first(stored: Iterable[Any], fresh: Iterable[Any]) -> str:
    for number, (one, other) in enumerate(itertools.zip_longest(stored, fresh)):
        if one == other:
            continue
        if all(isinstance(x, frame_pb2.FrameConstant) and x.HasField("code") for x in (one, other)):
            return f"{number}, {difference(one.code, other.code)}"
        return f"{number}: {_short(other)} instead of {_short(one)}"
    return ""


def _instructions(message: frame_pb2.FrameCode) -> list[str]:
    try:
        code = read(message, "")
    except ValueError:  # of constants that this process does not have
        return []
    return [
        f"{one.opname} {'code' if isinstance(one.argval, types.CodeType) else one.argrepr}"
        for one in dis.get_instructions(code)
    ]


def _short(value: Any) -> str:
    return " ".join(str(value).split())[:120] or repr(value)


def _any() -> None:
    """Whose code object others are made of."""


_ANY = _any.__code__
