# SPDX-License-Identifier: Apache-2.0
"""Takes down each function that is entered rather than serve or record it (debug/explain.py)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..errors import TensordError
from ..torch_compat import eval_frame
from . import digests
from .capture_recorder import CaptureRecorder
from .entered import Call, Entered
from .errors import UnfitError, UnrecordableError
from .serving import check
from .store import store
from .tensorless import has_no_tensors


@dataclass(frozen=True)
class EnteredFunction:
    """A function that was captured.

    guards: of its frame, in words. unrecorded: why no other process is served by it, "" when one
    is. stored: whether the daemon had a frame that serves this very call, None when it did not
    answer. misses: why the daemon's other frames of the code do not serve.
    """

    name: str
    guards: tuple[str, ...]
    unrecorded: str
    stored: bool | None
    misses: tuple[str, ...]


class _Explaining(threading.local):
    functions: list[EnteredFunction] | None = None


_explaining = _Explaining()


def is_on() -> bool:
    """Whether this thread takes down what is entered."""
    return _explaining.functions is not None


@contextmanager
def explaining() -> Iterator[list[EnteredFunction]]:
    """A block in which every function that torch.compile captures is taken down."""
    before, _explaining.functions = _explaining.functions, []
    try:
        yield _explaining.functions
    finally:
        _explaining.functions = before


def take_down(entered: Entered, call: Call, capture: Callable[[], Any]) -> Any:
    """Captures the function; what the hook is to return."""
    if not call.entry(entered.code) and has_no_tensors(entered):
        return eval_frame.leave_to_python()
    functions = _explaining.functions
    assert functions is not None
    stored, misses = _stored(entered, call)
    recorder = CaptureRecorder(entered, call, 0)
    # In the order in which they are entered: what is captured within comes behind.
    place = len(functions)
    outcome = recorder.run(capture)
    guards: tuple[str, ...] = ()
    unrecorded = ""
    try:
        guards = tuple(guard.text for guard in recorder.frame().guards)
    except UnrecordableError as error:
        unrecorded = str(error)
    except Exception as error:
        unrecorded = f"{type(error).__name__}: {error}"
    code = digests.identity(entered.code, str(entered.globals.get("__name__", "?")))
    name = f"{code.module}.{code.qualified_name}"
    functions.insert(place, EnteredFunction(name, guards, unrecorded, stored, misses))
    return outcome


def _stored(entered: Entered, call: Call) -> tuple[bool | None, tuple[str, ...]]:
    """Whether a frame of the daemon serves, and why others do not."""
    misses: list[str] = []
    try:
        if not store().keeps_frames():
            return None, ()
        reply = store().find(call.environment, entered.digest, (), captures=False)
    except TensordError:
        return None, ()
    for frame in reply.frames.values():
        try:
            check(frame, entered)
        except UnfitError as error:
            misses.append(error.in_words())
        else:
            return True, tuple(misses)
    return False, tuple(misses)
