# SPDX-License-Identifier: Apache-2.0
"""`tensord.compile`: torch.compile(..., backend="tensord") that imports Dynamo only to capture.

Until a function is entered that no recorded frame serves, torch's hook of frames calls us alone.
From then on torch.compile's own function runs, whose hook asks for recorded frames too
(`watch_dynamo`).
"""

from __future__ import annotations

import functools
import os
import threading
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import options as known_options
from ..torch_compat import eval_frame
from ..torch_compat.stance import has_stance
from ..torch_compat.stand_for import StandsForModule, stand_for
from ..wire import spans
from . import environment as environments
from . import hook
from .entered import Call
from .told import Told

_TORCH = os.path.dirname(torch.__file__) + os.sep
# Dynamo does not bear that two threads ask it for a backend that it has not seen before.
_making = threading.RLock()

# Imports the backend, and with it Dynamo.
LoadBackend = Callable[[], Callable[..., Any]]


def _in_child() -> None:
    global _making
    _making = threading.RLock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_in_child)


class _Compiled:
    """One call of tensord.compile: what it was told, what is called in the target's place (`call`),
    and torch.compile's function once it is needed."""

    def __init__(self, target: Callable[..., Any], backend: LoadBackend, told: Told) -> None:
        self._target, self._backend, self._told = target, backend, told
        self._chosen = told.chosen()
        self._torchs: Callable[..., Any] | None = None
        self._hook = _Hook(self)
        self.call = self._entry()
        if not hook.is_on() or told.needs_dynamo or _is_torchs(target):
            self.with_dynamo()

    def with_dynamo(self) -> Callable[..., Any]:
        """torch.compile's function."""
        with _making:
            if self._torchs is None:
                self._torchs = torch.compile(
                    self._target, backend=self._backend(), **self._told.for_torch()
                )
            return self._torchs

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "call"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.call = self._entry()

    def _entry(self) -> Callable[..., Any]:
        """What is called in the target's place. Each call passes through it: it is one function,
        with all at hand that it looks at."""
        target, callback, set_callback = self._target, self._hook, eval_frame.set_callback
        is_compiling = torch.compiler.is_compiling

        def call(*arguments: Any, **named: Any) -> Any:
            if is_compiling():
                return target(*arguments, **named)
            if self._torchs is not None or has_stance():
                return self.with_dynamo()(*arguments, **named)
            before = set_callback(callback)
            try:
                return target(*arguments, **named)
            finally:
                set_callback(before)

        return call

    def is_of(self, backend: Any) -> bool:
        """Whether torch's hook is to run for a backend what has run for this one: torch.compile's
        own wrapper says with which others it is to share its codes."""
        from ..torch_compat.dynamo_frames import backend_of

        return self._torchs is not None and bool(backend_of(self._torchs) == backend)

    def _is_entry(self, code: types.CodeType) -> bool:
        return code is _code_of(self._target)

    def enter(self, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
        """The hook's callback."""

        def capture() -> Any:
            from ..torch_compat.dynamo_frames import capture_by

            return capture_by(self.with_dynamo(), frame, cache_entry, frame_state)

        told = self._told
        environment = environments.environment(
            self._chosen, {"dynamic": told.dynamic, "fullgraph": told.fullgraph}
        )
        waits, limit = known_options.waits(self._chosen), told.recompile_limit
        return hook.enter(
            frame, Call(environment, self._hook, self._is_entry, capture, waits, limit)
        )


def _code_of(target: Any) -> types.CodeType | None:
    """Of a function, or of a module's forward."""
    function = target.forward if isinstance(target, torch.nn.Module) else target
    return getattr(function, "__code__", None)


class _Hook:
    """The callback of torch's hook, by which the hook finds the codes that were served before
    Dynamo was needed: equal to the backend of torch.compile's function, which runs from then on."""

    def __init__(self, compiled: _Compiled) -> None:
        self._compiled = compiled

    def __call__(self, frame: Any, cache_entry: Any, frame_state: Any) -> Any:
        return self._compiled.enter(frame, cache_entry, frame_state)

    def __eq__(self, other: object) -> bool:
        return other is self or (not isinstance(other, _Hook) and self._compiled.is_of(other))

    __hash__ = object.__hash__


def _is_torchs(target: Any) -> bool:
    """Whether it is torch's own code, around which torch.compile wraps a function of its own."""
    code = _code_of(target)
    return code is None or code.co_filename.startswith(_TORCH)


class CompiledModule(StandsForModule, torch.nn.Module):
    """A module whose calls are compiled. All else is the module's own: parameters and buffers are
    found under "_orig_mod.", as in what torch.compile returns."""

    def __init__(self, module: torch.nn.Module, compiled: _Compiled) -> None:
        super().__init__()
        self.__dict__["_compiled"] = compiled
        self._modules["_orig_mod"] = module
        del self.__dict__["training"]  # the module's

    def forward(self, *arguments: Any, **named: Any) -> Any:
        """The module's own."""
        return self._compiled.call(*arguments, **named)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """With the hooks of this module itself; those of all modules are called for the compiled
        one, once."""
        own = self.__dict__
        if (own["_forward_hooks"] or own["_forward_pre_hooks"] or own["_backward_hooks"]
                or own["_backward_pre_hooks"]):  # fmt: skip
            return super().__call__(*arguments, **named)
        return self._compiled.call(*arguments, **named)

    def __getattr__(self, name: str) -> Any:
        module = self._modules["_orig_mod"]
        return module if name == "_orig_mod" else getattr(module, name)

    def __setattr__(self, name: str, value: Any) -> None:
        # Who gives a module another class (fully_shard) means the one that is called.
        if name == "__class__":
            object.__setattr__(self, name, value)
        else:
            setattr(self._modules["_orig_mod"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._modules["_orig_mod"], name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *dir(self._modules["_orig_mod"])})

    def __len__(self) -> int:
        return len(self._modules["_orig_mod"])  # type: ignore[arg-type]

    def train(self, mode: bool = True) -> CompiledModule:
        """Of the module."""
        self._modules["_orig_mod"].train(mode)  # type: ignore[union-attr]
        return self


def compile(target: Any, load_backend: LoadBackend, **given: Any) -> Any:
    """Compiles a function or module as torch.compile(target, backend=load_backend(), **given) does;
    without a target (None) gives a function of one argument, for decorators.

    Raises ValueError or TypeError for options and keywords that are not known, RuntimeError for
    `mode` together with `options`.
    """
    told = Told.of(given)
    if target is None:
        return functools.partial(compile, load_backend=load_backend, **given)
    if not callable(target):
        raise TypeError(f"tensord.compile takes a function or a module, not {target!r}")
    if told.is_disabled:
        return target
    compiled = _Compiled(target, load_backend, told)
    if isinstance(target, torch.nn.Module):
        return CompiledModule(target, compiled)
    return stand_for(functools.wraps(target)(compiled.call), target)


def watch_dynamo(backend: Any) -> None:
    """Has Dynamo's hook ask for recorded frames before it captures for the backend, and record what
    it captures."""
    from ..torch_compat.dynamo_frames import CompileCall, around_frames, is_always_captured

    def around(call: CompileCall, frame: Any, capture: Callable[[], Any]) -> Any:
        if call.backend is not backend:
            return capture()
        by_dynamo = functools.partial(spans.in_dynamo, capture)
        if not hook.is_on():
            return by_dynamo()
        try:
            told = {
                name: value for name, value in call.told.items() if name not in ("mode", "options")
            }
            chosen = known_options.parse(call.told.get("mode"), call.told.get("options"), told)
        except (TypeError, ValueError):
            return by_dynamo()  # the backend says what is wrong
        environment = environments.environment(
            chosen, {"dynamic": call.dynamic, "fullgraph": call.fullgraph}
        )
        # torch raises where fullgraph is wanted and a call runs nothing that was compiled.
        waits, limit = known_options.waits(chosen) or call.fullgraph, call.recompile_limit
        return hook.enter(
            frame, Call(environment, call.owner, is_always_captured, by_dynamo, waits, limit)
        )

    around_frames(around)
