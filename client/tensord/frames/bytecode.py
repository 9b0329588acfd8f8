# SPDX-License-Identifier: Apache-2.0
"""The bytecode that Dynamo makes of a frame, as a Result, and back.

It calls the captured graphs, and what else it needs, as globals that Dynamo puts into the module of
the user's function under names of its own (numbers, addresses). They are recorded under plain names
("tensord:0"), and put into the module under names that tell the frame when it is used.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

from .. import torch_compat
from ..torch_compat.eval_frame import leave
from ..v1 import frame_pb2
from . import code_objects, digests, dynamo_stand_ins, names, split_graphs
from .errors import UnfitError, UnrecordableError
from .recorded_graphs import record_of

# Dynamo's names of globals.
_MADE_BY_DYNAMO = re.compile(
    r"__compiled_fn_|__import_|__resume_at_|__comprehension_|__builtins_dict__|___"
)
_FUNCTIONS = ("__resume_at_", "__comprehension_")
# Its names of variables that end with a number of the process.
_NUMBERED = re.compile(r"(___context_manager_\d+_|___prev_torch_function_mode_stack_)\d+")
# Its functions for comprehensions behind a graph break, from Python 3.12 on: with the name of the
# user's function, the line and a number of the process.
_COMPREHENSION = re.compile(r"(__comprehension_.*_at)_\d+_\d+")
_PLAIN_COMPREHENSION = re.compile(r"__comprehension_.*_at_\d+")


def write(
    code: types.CodeType, globals: dict[str, Any]
) -> tuple[frame_pb2.Result, list[frame_pb2.GraphCall]]:
    """Dynamo's output code as a Result, and the graphs that it calls. Raises UnrecordableError."""
    result = frame_pb2.Result()
    graphs: list[frame_pb2.GraphCall] = []
    plain: dict[str, str] = {}
    for name in code_objects.looked_up(code):
        if not _MADE_BY_DYNAMO.match(name) or name not in globals:
            continue
        plain[name] = f"tensord:{len(plain)}"
        value = globals[name]
        if (record := record_of(value)) is not None:
            graphs.append(record.message(plain[name]))
        elif (split := torch_compat.split_graph_of(value)) is not None:
            message, parts = split_graphs.write(split, plain[name])
            result.globals.add(name=plain[name], split=message)
            graphs.extend(parts)
        else:
            result.globals.append(_global(plain[name], name, value, globals))
    try:
        code = code_objects.renamed(_with_plain_names(code), plain)
        result.code.CopyFrom(code_objects.write(code))
    except ValueError as error:
        raise UnrecordableError(f"the bytecode has {error}") from error
    return result, graphs


def _with_plain_names(code: types.CodeType) -> types.CodeType:
    """The code with names of variables and of nested code that are the same in each process."""
    plain = {
        name: f"{numbered[1]}{place}"
        for place, name in enumerate(code.co_varnames)
        if (numbered := _NUMBERED.fullmatch(name))
    }
    return code.replace(
        co_varnames=tuple(plain.get(name, name) for name in code.co_varnames),
        co_consts=tuple(
            _plainly_named(constant, place) if isinstance(constant, types.CodeType) else constant
            for place, constant in enumerate(code.co_consts)
        ),
    )


def is_comprehension(code: types.CodeType) -> bool:
    """Whether Dynamo made it for a comprehension, here or where a frame was recorded."""
    return _PLAIN_COMPREHENSION.match(code.co_name) is not None


def _plainly_named(code: types.CodeType, place: int) -> types.CodeType:
    """A nested code, which is its parent's constant of that number."""
    code = _with_plain_names(code)
    if not (made := _COMPREHENSION.fullmatch(code.co_name)):
        return code
    names = {"co_name": f"{made[1]}_{place}"}
    if hasattr(code, "co_qualname"):  # from Python 3.11
        names["co_qualname"] = names["co_name"]
    return code.replace(**names)  # type: ignore[arg-type]


def _global(plain: str, name: str, value: Any, globals: Mapping[str, Any]) -> frame_pb2.FrameGlobal:
    if isinstance(value, types.ModuleType):
        return frame_pb2.FrameGlobal(name=plain, module=value.__name__)
    if value is _builtins_of(globals):
        return frame_pb2.FrameGlobal(name=plain, builtins=True)
    if name.startswith("__compiled_fn_"):
        raise UnrecordableError("a graph runs in eager")
    if isinstance(value, types.FunctionType) and name.startswith(_FUNCTIONS):
        return frame_pb2.FrameGlobal(name=plain, continuation=_continuation(value))
    try:
        return frame_pb2.FrameGlobal(name=plain, object=names.name_of(value))
    except UnrecordableError as error:
        kind = re.sub(r"[0-9].*", "", name).strip("_")
        raise UnrecordableError(f"the bytecode needs an object ({kind}): {error}") from error


def _builtins_of(globals: Mapping[str, Any]) -> Any:
    builtins = globals.get("__builtins__")
    return builtins.__dict__ if isinstance(builtins, types.ModuleType) else builtins


def _continuation(function: types.FunctionType) -> frame_pb2.Continuation:
    found = torch_compat.continuation_of(function)
    if found is None:
        raise UnrecordableError("what goes on behind a graph break is no plain function")
    code, globals = found
    code = _plainly_named(code, 0)
    try:
        return frame_pb2.Continuation(
            code=code_objects.write(code),
            of=digests.identity(code, str(globals.get("__name__", ""))),
        )
    except ValueError as error:
        raise UnrecordableError(f"what goes on behind a graph break has {error}") from error


def read(
    result: frame_pb2.Result,
    graphs: Mapping[str, Callable[..., Any]],
    prefix: str,
    file: str,
    globals: dict[str, Any],
) -> types.CodeType:
    """The code to run in a frame's place, whose globals are put where it finds them.

    graphs: functions by the names of GraphCall. prefix: of names that are the frame's alone.
    file: of the frame's own code. Raises UnfitError.
    """
    made: dict[str, Any] = dict(graphs)
    for message in result.globals:
        if message.HasField("split"):
            made[message.name] = split_graphs.read(message.split, graphs)
            for call in message.split.calls:
                made.pop(call.graph, None)
        else:
            made[message.name] = _read_global(message, file, globals)
    own = {name: f"__{prefix}_{name.removeprefix('tensord:')}" for name in made}
    try:
        code = code_objects.renamed(code_objects.read(result.code, file), own)
    except ValueError as error:
        raise UnfitError(str(error)) from error
    globals.update({own[name]: value for name, value in made.items()})
    return code


def _read_global(message: frame_pb2.FrameGlobal, file: str, globals: dict[str, Any]) -> Any:
    kind = message.WhichOneof("value")
    if kind == "module":
        return _module(message.module)
    if kind == "builtins":
        return _builtins_of(globals)
    if kind == "object":
        return names.find(message.object)
    if kind == "continuation":
        return _function(message.continuation, file, globals)
    raise UnfitError(f"global {message.name} is of no kind")


def _module(name: str) -> Any:
    if name in dynamo_stand_ins.MODULES and name not in sys.modules:
        return dynamo_stand_ins.stand_in(name)
    if name not in sys.modules:
        raise UnfitError(f"module {name} is not loaded")
    return sys.modules[name]


def _function(
    continuation: frame_pb2.Continuation, file: str, globals: dict[str, Any]
) -> Callable[..., Any]:
    """The function, or what makes it of its closure's cells where it has any."""
    module = continuation.of.module
    if module != globals.get("__name__"):
        if module not in sys.modules:
            raise UnfitError(f"module {module} is not loaded")
        globals = sys.modules[module].__dict__
        file = getattr(sys.modules[module], "__file__", None) or file
    try:
        code = code_objects.read(continuation.code, file)
    except ValueError as error:
        raise UnfitError(str(error)) from error
    if digests.of_code(code) != continuation.of.digest:
        raise UnfitError("what goes on behind a graph break is other code than was recorded")
    name = code.co_name
    if not code.co_freevars:
        return types.FunctionType(code, globals, name)

    def make(closure: tuple[types.CellType, ...]) -> types.FunctionType:
        return types.FunctionType(code, globals, name, None, closure)

    leave(make)
    return make
