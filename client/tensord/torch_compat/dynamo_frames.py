# SPDX-License-Identifier: Apache-2.0
"""Dynamo's hook of frames, as others may stand around it."""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class CompileCall:
    """What torch.compile was told, as a frame's hook knows it. backend: the function; told: its
    keyword arguments (mode, options). owner: whose compiled codes torch's hook tries.
    recompile_limit: its own; None: of the configuration, as before 2.13."""

    backend: Any
    owner: Any
    told: dict[str, Any]
    dynamic: bool | None
    fullgraph: bool
    recompile_limit: int | None


Around = Callable[[CompileCall, Any, Callable[[], Any]], Any]


def around_frames(around: Around) -> bool:
    """Has Dynamo call `around(call, frame, capture)` for each frame of Python that it is to look
    at, where `capture()` is what it does itself. Once for a process; False where it cannot be.

    2.11 to 2.13: torch._dynamo.convert_frame.CatchErrorsWrapper is what the hook calls.
    """
    from torch._dynamo import convert_frame

    wrapper = getattr(convert_frame, "CatchErrorsWrapper", None)
    if wrapper is None:
        return False
    enter = wrapper.__call__
    if getattr(enter, "_is_tensords", False):
        return True

    @functools.wraps(enter)
    def enter_around(self: Any, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
        call = _call_of(self)
        if call is None:
            return enter(self, frame, cache_entry, frame_state)
        convert_frame.input_codes.add(frame.f_code)  # which a reset forgets
        return around(call, frame, lambda: enter(self, frame, cache_entry, frame_state))

    enter_around._is_tensords = True  # type: ignore[attr-defined]
    wrapper.__call__ = enter_around
    return True


_MOST_WRAPPERS = 12


def _call_of(wrapper: Any) -> CompileCall | None:
    """Of the innermost backend behind a hook's wrappers."""
    told: dict[str, Any] = {}
    dynamic: bool | None = None
    fullgraph = False
    limit: int | None = None
    current = owner = wrapper
    for _ in range(_MOST_WRAPPERS):
        fullgraph = fullgraph or bool(getattr(current, "_one_graph", False))
        if limit is None:
            limit = getattr(current, "_recompile_limit", None)
        if type(current).__name__ == "_TorchCompileWrapper":
            told, dynamic = dict(current.kwargs), current.dynamic
            owner, current = current, current.compiler_fn
            continue
        inner = getattr(current, "_torchdynamo_orig_backend", None)
        inner = inner or getattr(current, "_torchdynamo_orig_callable", None)
        if inner is None:
            return CompileCall(current, owner, told, dynamic, fullgraph, limit)
        current = inner
    return None


def is_always_left(code: Any, outcome: Any) -> bool:
    """Whether Dynamo leaves a code to Python for where it lies, whatever its arguments are;
    outcome: what its hook returned."""
    from torch._dynamo import trace_rules

    return getattr(outcome, "guarded_code", None) is None and bool(trace_rules.check(code))


# How 2.13 says why it captured nothing, where that is for what the function does.
_NOTHING_IN_IT = ("Dynamo decided to skip the frame", "an error was suppressed")


def looked_into() -> int:
    """Into how many functions Dynamo has looked so far (2.11 to 2.13)."""
    from torch._dynamo.utils import counters

    return int(counters["frames"]["total"])


def found_nothing(outcome: Any, looked: bool) -> bool:
    """Whether Dynamo looked into a function and leaves it to Python for what it does.

    looked: whether it has looked into any meanwhile. By that a version is judged that does not say
    why it leaves a function (2.11): what it leaves behind a look, it leaves for what is in it,
    unless it says how to go on.
    """
    if getattr(outcome, "guarded_code", None) is not None:
        return False
    if hasattr(outcome, "skip_reason"):
        return (outcome.skip_reason or "").startswith(_NOTHING_IN_IT)
    strategy = getattr(outcome, "frame_exec_strategy", None)
    usual = [getattr(strategy, of, None) for of in ("cur_action", "recursive_action")]
    return looked and getattr(outcome, "apply_to_code", False) and usual == _usual_actions()


def _usual_actions() -> list[Any]:
    from torch._dynamo.types import FrameAction

    return [FrameAction.SKIP, FrameAction.DEFAULT]


def guards_on_defaults() -> contextlib.AbstractContextManager[Any]:
    """A block in which Dynamo guards on functions' defaults that are plain constants too: before
    2.13 it takes those for what nobody changes, which in another process is another file."""
    from torch._dynamo import config

    if not getattr(config, _SKIPS_DEFAULTS, False):
        return contextlib.nullcontext()
    return config.patch({_SKIPS_DEFAULTS: False})


_SKIPS_DEFAULTS = "skip_guards_on_constant_func_defaults"


def is_always_captured(code: types.CodeType) -> bool:
    """Whether a user had just this code compiled, so that Dynamo captures it for all that it is
    given. 2.11 to 2.13; true where a version cannot tell."""
    from torch._dynamo import eval_frame

    return code in getattr(eval_frame, "always_optimize_code_objects", (code,))


def continuation_of(function: types.FunctionType) -> tuple[types.CodeType, dict[str, Any]] | None:
    """The code and the globals of what goes on behind a graph break, from the global that Dynamo's
    bytecode has for it: that function, or one that makes it of a closure (2.13). None for what is
    neither."""
    if function.__defaults__ or function.__kwdefaults__:
        return None
    if not function.__closure__:
        return function.__code__, function.__globals__
    held = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    if sorted(held) != ["code", "f_globals", "name"]:
        return None
    return held["code"].cell_contents, held["f_globals"].cell_contents


def has_convert_frame() -> bool:
    """Whether Dynamo's part that captures has been imported."""
    return "torch._dynamo.convert_frame" in sys.modules


def note_codes(original: Any, codes: Iterable[Any]) -> None:
    """Tells Dynamo, which logs why it compiles a function again, that these codes were made of it,
    and has a reset forget them.

    2.11 to 2.13.
    """
    from torch._dynamo import convert_frame, utils

    convert_frame.input_codes.add(original)
    for code in codes:
        utils.orig_code_map[code] = original
        convert_frame.output_codes.add(code)


def capture_by(compiled: Any, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
    """What the hook of torch.compile's function or module returns for a frame, under the settings
    under which that function would have run it (2.11 to 2.13)."""
    context = _context_of(compiled)
    leave = [enter() for enter in context.enter_exit_hooks]
    try:
        return context.callback(frame, cache_entry, frame_state)
    finally:
        for back in reversed(leave):
            back()


def backend_of(compiled: Any) -> Any:
    """By which torch's hook knows whose codes it may run: torch.compile's wrapper of the backend
    that it was told, in what it made of a function or module (2.11 to 2.13)."""
    from torch._dynamo.eval_frame import innermost_backend

    return innermost_backend(_context_of(compiled).callback)


def _context_of(compiled: Any) -> Any:
    """The _TorchDynamoContext of a module, or in the closure of torch.compile's function."""
    if (context := getattr(compiled, "dynamo_ctx", None)) is not None:
        return context
    cells = zip(compiled.__code__.co_freevars, compiled.__closure__, strict=True)
    for name, cell in cells:
        if name == "self":
            return cell.cell_contents
    raise AttributeError("torch.compile's function has no context")
