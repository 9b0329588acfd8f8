# SPDX-License-Identifier: Apache-2.0
"""Guards of a function that Dynamo found nothing to capture in: of what kinds its locals are, and
of the process's state, for what training breaks inference may have captured whole.

Dynamo says nothing of what it looked at then, and leaves the function's code to Python for the rest
of the process, whatever it is given later. That other processes do the same for locals of the same
kinds can cost speed, never a number.
"""

from __future__ import annotations

from .. import torch_compat
from ..v1 import frame_pb2
from . import code_objects, constants, object_digests, process_state
from .entered import Entered

_PLAIN = (type(None), bool, int, float, str)


def add_guards(frame: frame_pb2.Frame, entered: Entered) -> None:
    """Plain locals and globals by their values, other locals by their classes; the state as it is
    now. Raises UnrecordableError."""
    for name, value in entered.locals.items():
        if type(value) in _PLAIN:
            _add_value(frame, frame_pb2.FrameSource.LOCAL, name, value)
            continue
        frame.sources.add(step=frame_pb2.FrameSource.LOCAL, name=name)
        guard = frame.guards.add(source=len(frame.sources))
        cls = type(value)
        guard.type.name.CopyFrom(object_digests.name_of_class(cls))
        guard.type.digest = object_digests.of_class(cls)
        guard.text = f"type(L[{name!r}]) is {cls.__qualname__}"
    for name in code_objects.global_names(entered.code):
        value = entered.globals.get(name, ...)
        if type(value) in _PLAIN:
            _add_value(frame, frame_pb2.FrameSource.GLOBAL, name, value)
    guard = frame.guards.add(text="the process's state is what it was")
    guard.state.CopyFrom(
        process_state.write(
            torch_compat.global_state_guard().__getstate__(), torch_compat.function_mode_stack()
        )
    )


def _add_value(
    frame: frame_pb2.Frame, step: frame_pb2.FrameSource.Step, name: str, value: object
) -> None:
    frame.sources.add(step=step, name=name)
    guard = frame.guards.add(source=len(frame.sources))
    guard.equals.CopyFrom(constants.write(value))
    place = "L" if step == frame_pb2.FrameSource.LOCAL else "G"
    guard.text = f"{place}[{name!r}] == {value!r}"
