# SPDX-License-Identifier: Apache-2.0
"""TENSORD_FRAMES=verify: a recorded frame serves, and the function is captured all the same, to
compare what came of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..errors import FrameMismatchError
from ..v1 import frame_pb2
from . import code_objects
from .capture_recorder import CaptureRecorder
from .entered import Entered
from .errors import UnfitError, UnrecordableError
from .serving import check


def verify(
    served: frame_pb2.Frame,
    others: Iterable[frame_pb2.Frame],
    entered: Entered,
    recorder: CaptureRecorder,
) -> None:
    """Raises FrameMismatchError where a capture, which has been run now, gives other programs, or
    finds their inputs or results elsewhere, than the frame that served has.

    others: frames of the same code. Dynamo makes symbols of the sizes that it has seen change, and
    a process that has seen fewer captures for one size what another's frame serves for all. Such a
    capture is to be as one of the others that hold of the call, if any has as many symbols.
    """
    name = f"{served.code.module}.{served.code.qualified_name}"
    try:
        fresh = recorder.frame()
    except UnrecordableError as error:
        raise FrameMismatchError(f"{name} was recorded, and cannot be now: {error}") from error
    difference = next(_differences(served, fresh), None)
    if difference is None:
        return
    symbols = _symbols(fresh)
    if symbols < _symbols(served) and len(fresh.graphs) == len(served.graphs):
        alike = [
            one
            for one in others
            if one.graphs and _symbols(one) == symbols and _holds(one, entered)
        ]
        if not alike or any(next(_differences(one, fresh), None) is None for one in alike):
            return
    raise FrameMismatchError(f"{name} is captured otherwise than it was recorded: {difference}")


def _holds(frame: frame_pb2.Frame, entered: Entered) -> bool:
    try:
        check(frame, entered)
    except UnfitError:
        return False
    return True


def _symbols(frame: frame_pb2.Frame) -> int:
    """Of how many sizes and numbers the frame's programs leave open what they are."""
    return sum(
        len(getattr(graph, program).graph.symbols)
        for graph in frame.graphs
        for program in ("inference", "forward")
    )


def _differences(stored: frame_pb2.Frame, fresh: frame_pb2.Frame) -> Iterator[str]:
    if len(stored.graphs) != len(fresh.graphs):
        yield f"{len(fresh.graphs)} graphs instead of {len(stored.graphs)}"
        return
    for one, other in zip(stored.graphs, fresh.graphs, strict=True):
        for field in one.DESCRIPTOR.fields:
            if _plain(getattr(one, field.name)) != _plain(getattr(other, field.name)):
                yield f"{field.name} of {one.name}"
    kept, made = (_comparable(frame.result.code) for frame in (stored, fresh))
    if difference := code_objects.difference(kept, made):
        yield f"the bytecode, {difference}"
    for had, has in zip(stored.result.globals, fresh.result.globals, strict=False):
        if had != has and not had.HasField("continuation"):
            yield f"global {had.name}"


def _comparable(code: frame_pb2.FrameCode) -> frame_pb2.FrameCode:
    """Without what only people read: of two classes that have the same method, the qualified name.
    And of what goes on behind a break, Dynamo makes another code where it did not make this one;
    with a closure it is a constant of the bytecode, else a global."""
    found = frame_pb2.FrameCode.FromString(code.SerializeToString())
    codes = [found]
    while codes:
        one = codes.pop()
        one.ClearField("qualified_name")
        for constant in one.constants.items:
            if code_objects.is_continuation(constant.code.name):
                constant.ClearField("code")
            elif constant.HasField("code"):
                codes.append(constant.code)
    return found


def _plain(value: Any) -> Any:
    """Without what only people read."""
    if isinstance(value, frame_pb2.FrameProgram):
        program = frame_pb2.FrameProgram.FromString(value.SerializeToString())
        for named in (*program.graph.inputs, *program.graph.constants, *program.graph.nodes):
            named.ClearField("name")
        return program
    return value
