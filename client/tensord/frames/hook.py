# SPDX-License-Identifier: Apache-2.0
"""What happens when a function is entered that torch.compile is to capture: a frame that some
process recorded serves, or this process captures, and records what it found."""

from __future__ import annotations

import collections
import os
import threading
import types
from typing import Any

import torch

from .. import fallback, torch_compat
from ..counters import STATS
from ..errors import TensordError
from ..torch_compat import dispatch, eval_frame
from ..torch_compat.settings import recompile_limit
from . import bytecode, explaining, names, verify
from .capture_recorder import CaptureRecorder
from .entered import Call, Entered
from .look_up import look_up
from .running import running
from .store import store


def is_on() -> bool:
    """Whether frames are used: TENSORD_FRAMES is not 0 and this torch has the hook."""
    return os.environ.get("TENSORD_FRAMES", "1") != "0" and eval_frame.available()


class _Busy(threading.local):
    """While a frame is looked for or captured, what that enters is not for us."""

    now = False


_busy = _Busy()


def enter(frame: Any, call: Call) -> Any:
    """What the hook's callback returns for a frame of Python."""
    if _busy.now or not is_on() or _is_special(frame):
        return _by_dynamo(frame.f_code, call)
    if _is_dynamos(frame.f_code) or _makes_named_tuple(frame):
        return eval_frame.leave_to_python()
    entered = Entered(frame.f_code, frame.f_globals, frame.f_locals)
    _busy.now = True
    try:
        if explaining.is_on():
            return explaining.take_down(entered, call, lambda: _by_dynamo(entered.code, call))
        return _enter(entered, call)
    finally:
        _busy.now = False


def _enter(entered: Entered, call: Call) -> Any:
    if _is_at_limit(entered.code, call):
        return _by_dynamo(entered.code, call)  # which says so, and what is to come of it
    try:
        if not store().keeps_frames():
            return _by_dynamo(entered.code, call)
        found = look_up(entered, call)
    except TensordError as error:
        fallback.note(error, "frames", "are captured by this process")
        return _by_dynamo(entered.code, call)
    except Exception as error:
        fallback.note(error, f"the frame of {entered.code.co_name}", "is captured by this process")
        return _by_dynamo(entered.code, call)
    if found.outcome is None:
        return _capture(CaptureRecorder(entered, call, found.lease), entered, call)
    if found.frame is not None and os.environ.get("TENSORD_FRAMES") == "verify":
        recorder = CaptureRecorder(entered, call, 0)
        recorder.run(lambda: _by_dynamo(entered.code, call))
        others = store().fetched(call.environment, entered.digest).values()
        verify.verify(found.frame, others, entered, recorder)
    return found.outcome


def _capture(recorder: CaptureRecorder, entered: Entered, call: Call) -> Any:
    STATS.add("frames_captured")
    try:
        outcome = recorder.run(lambda: _by_dynamo(entered.code, call))
    finally:
        recorder.put()
    store().entered(entered.digest)
    return outcome


def _by_dynamo(code: types.CodeType, call: Call) -> Any:
    if served := running().served(code):
        torch_compat.note_codes(code, served)
    return call.capture()


def _is_at_limit(code: types.CodeType, call: Call) -> bool:
    """Whether what is compiled here has as many entries of a code as torch lets one have. Those of
    others are not counted: each of a model's layers may be compiled by itself."""
    limit = recompile_limit() if call.recompile_limit is None else call.recompile_limit
    return len(running().of(code, call.owner)) >= limit


def _is_special(frame: Any) -> bool:
    """What a recorded frame says nothing of: a generator that goes on, modes of dispatch,
    functorch's transforms."""
    return (
        bool(frame.f_code.co_flags & _GENERATORS)
        or dispatch.has_dispatch_modes()
        or dispatch.has_transforms()
    )


def _is_dynamos(code: types.CodeType) -> bool:
    """Whether Dynamo leaves the code to Python for being its own: of one of its files, but for what
    is there for users' functions to be called from, and captured; or made for a comprehension."""
    file = code.co_filename
    own = file.startswith(_DYNAMO) and not file.endswith("external_utils.py")
    return own or file == _DISABLES or bytecode.is_comprehension(code)


def _makes_named_tuple(frame: Any) -> bool:
    """Dynamo leaves its constructors to Python: bytecode of a frame calls them."""
    code = frame.f_code
    in_class = code.co_filename == collections.__file__ and code.co_name == "_make"
    return in_class or names.is_scope_of_named_tuple(frame.f_globals)


_TORCH = os.path.dirname(torch.__file__)
_DYNAMO = os.path.join(_TORCH, "_dynamo") + os.sep
# torch's functions of which Dynamo is to see nothing
_DISABLES = os.path.join(_TORCH, "_compile.py")
_GENERATORS = 0x20 | 0x80 | 0x200  # inspect.CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR
