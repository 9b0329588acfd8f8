# SPDX-License-Identifier: Apache-2.0
"""TENSORD_FRAMES=verify: a recorded frame serves, and the function is captured all the same, to
compare what came of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..errors import FrameMismatchError
from ..v1 import frame_pb2
from .capture_recorder import CaptureRecorder
from .errors import UnrecordableError


def verify(stored: frame_pb2.Frame, recorder: CaptureRecorder) -> None:
    """Raises FrameMismatchError where a capture, which has been run now, gives other programs, or
    finds their inputs or results elsewhere, than the stored frame has."""
    name = f"{stored.code.module}.{stored.code.qualified_name}"
    try:
        fresh = recorder.frame()
    except UnrecordableError as error:
        raise FrameMismatchError(f"{name} was recorded, and cannot be now: {error}") from error
    for difference in _differences(stored, fresh):
        raise FrameMismatchError(f"{name} is captured otherwise than it was recorded: {difference}")


def _differences(stored: frame_pb2.Frame, fresh: frame_pb2.Frame) -> Iterator[str]:
    if len(stored.graphs) != len(fresh.graphs):
        yield f"{len(fresh.graphs)} graphs instead of {len(stored.graphs)}"
    for one, other in zip(stored.graphs, fresh.graphs, strict=True):
        for field in one.DESCRIPTOR.fields:
            if _plain(getattr(one, field.name)) != _plain(getattr(other, field.name)):
                yield f"{field.name} of {one.name}"
    if stored.result.code != fresh.result.code:
        yield "the bytecode"
    for kept, made in zip(stored.result.globals, fresh.result.globals, strict=False):
        # Of what goes on behind a break, Dynamo makes another code where it did not make this one.
        if kept != made and not kept.HasField("continuation"):
            yield f"global {kept.name}"


def _plain(value: Any) -> Any:
    """Without what only people read."""
    if isinstance(value, frame_pb2.FrameProgram):
        program = frame_pb2.FrameProgram.FromString(value.SerializeToString())
        for named in (*program.graph.inputs, *program.graph.constants, *program.graph.nodes):
            named.ClearField("name")
        return program
    return value
