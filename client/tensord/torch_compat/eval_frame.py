# SPDX-License-Identifier: Apache-2.0
"""torch's hook of Python's frames (PEP 523), without Dynamo: all of it is in torch's C++.

2.11 to 2.13. `available()` is false where a version lacks a part.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

try:
    from torch._C._dynamo import eval_frame as _hook
    from torch._C._dynamo.guards import RootGuardManager as _RootGuardManager

    _DEFAULT, _SKIP = _hook._FrameAction.DEFAULT, _hook._FrameAction.SKIP
    _RUN = _hook._FrameExecStrategy(_DEFAULT, _DEFAULT)
    _LEAVE = _hook._FrameExecStrategy(_SKIP, _DEFAULT)
    _LEAVE_ALL = _hook._FrameExecStrategy(_SKIP, _SKIP)
    set_callback = _hook.set_eval_frame
except (ImportError, AttributeError):
    _hook = None  # type: ignore[assignment]

# A hook's callback, or what stands for none.
Callback = Callable[[Any, Any, Any], Any] | bool | None


def available() -> bool:
    """Whether this torch has the hook."""
    return _hook is not None


class Checks(Protocol):
    """Guards of a frame, by its locals."""

    def __call__(self, locals: dict[str, Any], /) -> bool: ...

    def failure(self, locals: dict[str, Any], /) -> str | None:
        """The first that does not hold, in words."""


@dataclass
class _Failure:
    """Why guards do not hold, as Dynamo's logs of recompilations read it."""

    result: bool
    verbose_code_parts: list[str]
    user_stack: Any = None
    num_guards_executed: int = 0


@dataclass
class _Guards:
    """What torch's hook asks of a guarded code's guards, and Dynamo of a code's other entries."""

    root: Any
    checks: Checks
    global_scope: Mapping[str, Any]
    diff_guard_root: Any = None
    cache_entry: Any = None
    extra_state: Any = None
    id_matched_objs: Mapping[str, Any] = field(default_factory=dict)
    closure_vars: Mapping[str, Any] = field(default_factory=dict)
    code_parts: tuple[str, ...] = ()
    verbose_code_parts: tuple[str, ...] = ()
    guard_fail_fn: Any = None
    args: tuple[str, ...] = ()

    def check(self, locals: dict[str, Any]) -> bool:
        return bool(self.root.check(locals))

    def check_verbose(self, locals: dict[str, Any]) -> Any:
        failure = self.checks.failure(locals)
        return _Failure(failure is None, [] if failure is None else [failure])

    def collect_diff_guard_sources(self) -> Collection[Any]:
        """Dynamo checks first what told its own entries apart; these are not split."""
        return ()

    def populate_diff_guard_manager(self) -> None:
        """Likewise."""


@dataclass
class _GuardedCode:
    code: types.CodeType
    guard_manager: _Guards
    compile_id: str
    trace_annotation: str


@dataclass
class _Return:
    frame_exec_strategy: Any
    apply_to_code: bool = True
    guarded_code: _GuardedCode | None = None
    skip_reason: str | None = None


def run_guarded(code: types.CodeType, checks: Checks, globals: dict[str, Any], name: str) -> Any:
    """What a callback returns to have `code` run in the frame's place, now and whenever the checks
    hold. globals: of the frame; name: for profilers."""
    root = _RootGuardManager()
    root.add_lambda_guard(checks, [name], None)
    guards = _Guards(root, checks, {"G": globals})
    return _Return(_RUN, guarded_code=_GuardedCode(code, guards, name, name))


def codes_run_for(code: types.CodeType) -> list[types.CodeType]:
    """What torch's hook runs in place of the code, where the guards of one hold: all that was
    captured or served of it and not forgotten."""
    return [entry.code for entry in _hook._debug_get_cache_entry_list(code)]


def leave_to_python() -> Any:
    """What a callback returns to have the code run as it is, now and ever after; what it calls
    comes to the callback again."""
    return _Return(_LEAVE)


def run_in_python_once() -> Any:
    """What a callback returns to have the code run as it is, this time, with all that it calls; the
    next call comes to the callback again."""
    return _Return(_LEAVE_ALL, apply_to_code=False)


def without_hook(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function; while it runs, no callback is called."""

    def call(*arguments: Any) -> Any:
        before = set_callback(None)
        try:
            return function(*arguments)
        finally:
            set_callback(before)

    leave(call)
    return call


def leave(function: Any) -> None:
    """No callback is called for this function any more; for what it calls it is."""
    _hook.set_code_exec_strategy(function.__code__, _LEAVE)
