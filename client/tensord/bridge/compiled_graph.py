# SPDX-License-Identifier: Apache-2.0
"""One compiled graph, and the callable that AOTAutograd gets for it.

The compile runs in the daemon while the job goes on; the first call waits for it and loads the
program. Whatever fails, the graph's own FX module runs instead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import fx

from .. import _native, fallback, torch_compat
from ..counters import STATS
from ..cuda_graphs import graphed_program
from ..cuda_graphs.loans import Loan, Loans, PythonLoans
from ..errors import CompilerFailedError, InputMismatchError, RuntimeLoadError, TensordError
from ..torch_compat import Boxed
from ..v1 import requests_pb2
from ..wire import blobs, spans
from ..wire.rpc import CompileCall
from . import loaded_programs
from .call_backs import with_call_backs
from .synthetic_bases import shortened, synthetic_bases

if TYPE_CHECKING:  # they import sympy, which a process that only runs programs does without
    from ..cuda_graphs.plan import Plan
    from ..wire.exporter import Exported

# TensordError of runtime/include/tensord/runtime.h; the bridge's exceptions carry it as `code`.
INVALID, CORRUPT, UNAVAILABLE = 1, 2, 3
# Who does not wait looks for the program at calls, and so often at most: a look is a system call.
_LOOK_EVERY_S = 0.001
_BEFORE_ANY_STEP = frozenset({INVALID, CORRUPT, UNAVAILABLE})


class Program(Protocol):
    """A loaded program, of the native extension or through ctypes. number: what profiles know it
    by."""

    number: int

    def __call__(self, arguments: list[Any], /) -> Any: ...

    def workspace_bytes(self, values: Sequence[Any], /) -> tuple[int, int]: ...


log = logging.getLogger("tensord")


class CompiledGraph:
    """One graph: its compile under way, then its program, or its FX module in eager."""

    def __init__(
        self,
        module: fx.GraphModule,
        exported: Exported,
        call: CompileCall,
        label: str,
        graph_plan: Plan | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """graph_plan: capture the program as CUDA graphs; None for what runs as it is. waits: calls
        wait for the program; otherwise they run in eager until it has come."""
        self._module = module
        self._exported = exported
        self._call: CompileCall | None = call
        self._label = label
        self._graph_plan = graph_plan
        self._waits = waits
        self._look_again = 0.0  # by time.monotonic(), for those who do not wait
        self._lock, self._lock_pid = threading.Lock(), os.getpid()
        self._eager_run: Boxed | None = None
        self._run: Boxed = self._first_call

    def callable(self) -> Boxed:
        """Takes AOTAutograd's boxed list of arguments and returns the list of results."""

        return torch_compat.takes_list(lambda arguments: self._run(arguments))

    def _first_call(self, arguments: list[Any]) -> Any:
        begun = spans.now()
        if self._lock_pid != os.getpid():  # a thread of the parent may have held it at the fork
            self._lock, self._lock_pid = threading.Lock(), os.getpid()
        with self._lock:
            call = self._call
            if call is not None and (self._waits or self._has_come(call)):
                self._run = self._traced(self._ready(call), call.spans, begun)
                self._call = None
        if self._call is not None:
            STATS.add("calls_before_programs")
            return self._eager(arguments)
        return self._run(arguments)

    def _traced(self, run: Boxed, asked: spans.Asked, begun: int) -> Boxed:
        """What runs, with the first call as part of the program's trace; later ones know nothing
        of it. begun: when the first call did."""

        def first(arguments: list[Any]) -> Any:
            self._run = run
            try:
                with asked.timed("run"):
                    return run(arguments)
            finally:
                asked.done(begun)
                if spans.are_waiting() and self._run is run:
                    self._run = second

        def second(arguments: list[Any]) -> Any:
            self._run = run
            try:
                return run(arguments)
            finally:
                spans.tell()

        return first

    def _has_come(self, call: CompileCall) -> bool:
        now = time.monotonic()
        if now < self._look_again:
            return False
        self._look_again = now + _LOOK_EVERY_S
        try:
            return call.answered()
        except Exception as error:  # which waiting meets, or gets over
            log.debug("tensord: no look at the %s graph's compile: %r", self._label, error)
            return True

    def _ready(self, call: CompileCall) -> Boxed:
        """Waits for the program and loads it; the eager module when that fails."""
        try:
            with STATS.timed("wait_seconds"), call.spans.timed("wait"):
                reply = call.wait()
            count(reply)
            try:
                with call.spans.timed("load"):
                    program = load(reply)
            except RuntimeLoadError as error:
                if getattr(error, "code", None) not in (CORRUPT, UNAVAILABLE):
                    raise
                # The daemon checks what it stored when it is asked again, and mends it.
                STATS.add("recompiled")
                program = load(call.again())
        except Exception as error:
            return self._without_program(error)
        run = self._adapted(program)
        if self._graph_plan is not None:

            def workspace(arguments: Sequence[Any]) -> tuple[int, int]:
                return program.workspace_bytes(self._inputs(arguments))

            run = graphed_program.GraphedProgram(
                run, self._graph_plan, workspace=workspace, lend=_lend, make_loans=_make_loans
            )
        return self._guarded(run)

    def _without_program(self, error: Exception) -> Boxed:
        """Eager, for a graph whose program failed; strict: an error, at the first call. What eager
        rejects too (an operator that does not take a dtype) is eager's error, word for word."""
        if not fallback.strict():
            fallback.note(error, f"the {self._label} graph")
            return self._eager

        def judged(arguments: list[Any]) -> Any:
            self._eager(list(arguments))
            fallback.note(error, f"the {self._label} graph")

        return judged

    def _same_inputs(self) -> bool:
        """True when the program's inputs are the call's arguments."""
        exported = self._exported
        return not exported.extra and len(exported.kept) == exported.num_arguments

    def _inputs(self, arguments: Sequence[Any]) -> list[Any]:
        """The program's inputs."""
        return [*(arguments[i] for i in self._exported.kept), *self._exported.extra]

    def _adapted(self, program: Boxed) -> Boxed:
        """A program as a function of the call's arguments, with its call-backs."""
        run = self._by_arguments(program)
        if self._exported.call_backs or self._exported.opaque:
            run = with_call_backs(run, self._exported)
        bases = synthetic_bases(self._module)
        return shortened(run, bases) if bases else run

    def _by_arguments(self, program: Boxed) -> Boxed:
        if self._same_inputs():
            return program
        kept, count = self._exported.kept, self._exported.num_arguments
        others = sorted(set(range(count)).difference(kept))

        def adapted(arguments: list[Any]) -> Any:
            inputs, rest = self._inputs(arguments), [arguments[i] for i in others]
            arguments.clear()
            try:
                return program(inputs)
            except Exception:
                if inputs:  # the call has not begun
                    numbers, values = (*kept, *others), (*inputs[: len(kept)], *rest)
                    by_number = dict(zip(numbers, values, strict=True))
                    arguments[:] = map(by_number.__getitem__, range(count))
                raise

        return adapted

    def _guarded(self, program: Boxed) -> Boxed:
        """The program, with eager behind it for calls that it does not take."""

        def run(arguments: list[Any]) -> Any:
            try:
                return program(arguments)
            except Exception as error:
                return self._recover(error, arguments)

        return run

    def _recover(self, error: Exception, arguments: list[Any]) -> Any:
        """The results of a call that failed within the runtime, from eager; else raises `error`."""
        code = getattr(error, "code", None)
        # Only what fails before the first step may be run again: a step may have changed an input.
        # An operator's error is the user's.
        if code not in _BEFORE_ANY_STEP:
            arguments.clear()
            raise error
        if code == INVALID:
            STATS.add("calls_in_eager")
            mismatch = InputMismatchError(str(error))
            mismatch.__cause__ = error
            fallback.note(mismatch, f"one call of the {self._label} graph")
        else:
            fallback.note(_load_error(error), f"the {self._label} graph")
            self._run = self._eager
        return self._eager(arguments)

    def _eager(self, arguments: list[Any]) -> Any:
        if self._eager_run is None:
            self._eager_run = torch_compat.boxed(self._module)
        return self._eager_run(arguments)


def eager(module: fx.GraphModule) -> Boxed:
    """The module itself as a boxed callable."""
    run = torch_compat.boxed(module)

    return torch_compat.takes_list(lambda arguments: run(arguments))


def load(reply: requests_pb2.CompileReply) -> Program:
    """Loads a CompileReply's program; raises RuntimeLoadError with the runtime's `code`."""
    with STATS.timed("load_seconds"):
        try:
            from .runtime import load_program
        except ImportError as error:
            raise RuntimeLoadError(f"the bridge to the runtime is missing: {error}") from error
        try:
            folder = blobs.folder_for(reply)
        except CompilerFailedError as error:  # the daemon has evicted one meanwhile
            lost = _load_error(error)
            lost.code = CORRUPT  # type: ignore[attr-defined]
            raise lost from error
        try:
            program: Program = load_program(reply.artifact.SerializeToString(), folder)
            loaded_programs.note(program.number, reply.program_key)
            return program
        except TensordError:
            raise
        except Exception as error:
            raise _load_error(error) from error


def _lend(workspace: torch.Tensor) -> contextlib.AbstractContextManager[None]:
    from .runtime import lent_workspace

    return lent_workspace(workspace)


def _make_loans(storages: list[torch.UntypedStorage], layouts: list[Loan]) -> Loans:
    """By the extension, where it is loaded."""
    native = _native.loaded()
    return PythonLoans(storages, layouts) if native is None else native.Loans(storages, layouts)


def _load_error(error: BaseException) -> RuntimeLoadError:
    result = RuntimeLoadError(str(error) or type(error).__name__)
    result.code = getattr(error, "code", None)  # type: ignore[attr-defined]
    result.__cause__ = error
    return result


def count(reply: requests_pb2.CompileReply) -> None:
    """Adds to the statistics what became of a compile."""
    counter = {
        requests_pb2.CompileReply.COMPILED: "compiled",
        requests_pb2.CompileReply.JOINED: "joined",
        requests_pb2.CompileReply.HIT: "hits",
    }.get(reply.outcome)
    if counter is not None:
        STATS.add(counter)
    STATS.add("kernels", reply.kernels)
    STATS.add("kernels_compiled", reply.kernels_compiled)
    for failure in reply.kernel_failures:
        STATS.add_kernel_failure(failure)
        log.warning("tensord: library operators instead of a kernel: %s", failure)
