# SPDX-License-Identifier: Apache-2.0
"""A recorded frame, made ready to run in this process."""

from __future__ import annotations

import types
from dataclasses import dataclass

from ..errors import TensordError
from ..torch_compat.eval_frame import Checks
from ..v1 import frame_pb2
from . import bytecode, guard_checks, words
from .entered import Entered
from .errors import UnfitError
from .graph_calls import Starting


@dataclass(frozen=True)
class Served:
    """code: to run in the frame's place whenever the guards hold."""

    key: bytes
    code: types.CodeType
    guards: Checks


def check(frame: frame_pb2.Frame, entered: Entered) -> None:
    """Whether the guards hold of a call, of a frame that leaves it to Python; raises UnfitError."""
    if frame.guards:
        _guards(frame, entered)


def _guards(frame: frame_pb2.Frame, entered: Entered) -> Checks:
    guards: Checks = guard_checks.load(frame, entered.globals)
    if (miss := words.miss(frame, guards, entered.locals)) is not None:
        raise miss
    return guards


# The programs of frames that would serve once these have come, by the frames' keys.
_starting: dict[bytes, dict[str, Starting]] = {}


def is_starting(key: bytes) -> bool:
    """Whether a frame waits for its programs, and nobody for it."""
    return key in _starting


def serve(
    key: bytes, frame: frame_pb2.Frame, entered: Entered, *, waits: bool = True
) -> Served | None:
    """None: the frame would serve, but for programs that have not come and are not waited for.
    Raises UnfitError for a frame that is not for this call, or not for this process."""
    guards = _guards(frame, entered)
    try:
        starting = _starting.pop(key, None)
        if starting is None:
            starting = {call.name: Starting(call) for call in frame.graphs}
        if not waits and not all(graph.have_come() for graph in starting.values()):
            _starting[key] = starting
            return None
        graphs = {name: graph.callable() for name, graph in starting.items()}
    except TensordError as error:
        raise UnfitError(f"{error.reason}: {error}") from error
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise UnfitError(f"its graphs are malformed: {error}") from error
    prefix = f"tensord_{key.hex()[:16]}"
    code = bytecode.read(frame.result, graphs, prefix, entered.code.co_filename, entered.globals)
    if _interface(code) != _interface(entered.code):
        raise UnfitError("its bytecode takes other arguments than the function")
    return Served(key, code, guards)


def _interface(code: types.CodeType) -> tuple[object, ...]:
    """What the hook needs to be equal: arguments and free variables."""
    arguments = code.co_argcount + code.co_kwonlyargcount
    arguments += bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)  # *args, **kwargs
    return (
        code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & 0x0C,
        code.co_varnames[:arguments], code.co_freevars,
    )  # fmt: skip
