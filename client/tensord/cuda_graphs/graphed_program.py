# SPDX-License-Identifier: Apache-2.0
"""mode="reduce-overhead": a compiled program's work is captured as a CUDA graph and replayed.

A replay costs the host one launch, whatever the program does. In exchange a graph reads and writes
the same memory at each replay, and all of this is about that:

- Inputs that keep their address (parameters, buffers, results of another graph) are read where they
  lie; a graph serves the addresses that it was captured with. Others are copied to a buffer of the
  graph's own first, and copied back where the program writes into them.
- Results are handed out without a copy, as tensors over the graph's memory that do not own it.
  While one of them is alive the graph is not replayed. A result that is still held at the next call
  (a loss in a list, accumulated gradients) makes the program be captured anew, and from then on is
  given out as a copy.
- What graphs share: their workspace (memory.py), and the memory of results that another
  graph was the last to read (arena.py).
- Random numbers: torch registers its generator with each capture, so a replay draws new ones, and
  torch.manual_seed determines them.

Where a capture is not possible the program runs as ever, and the reason is counted and said once.
What is known before (plan.py) cuts the graph into several programs
(split.py).
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..buffers import buffer_like, copy_into
from ..counters import STATS
from .arena import Arena, NoMemoryToMove, Result, Reuse, Sharing, candidate
from .device import Boxed, CudaDevice, Device
from .loans import MakeLoans, PythonLoans
from .memory import (
    CAPTURE,
    Captured,
    Workspaces,
    adopt,
    describe,
    free_given_up,
    give_up,
    is_graph_memory,
    origins_of,
    result_of,
    results_of,
)

if TYPE_CHECKING:
    from .plan import Plan

log = logging.getLogger("tensord")

# Calls before a capture: libraries choose algorithms, modules are loaded, tensors find their place.
WARM_UP = 2
# Captures of one program for one set of shapes, for streams and addresses that change.
MAX_VARIANTS = 4
# Captures anew because of held results, until all of them are given out as copies.
_MAX_LEARNED = 2
# Captures of one shape for which there was no memory.
_MAX_REFUSED = 4
# Shapes that a program may have captured, as a multiple of those that it keeps.
_MAX_TURNOVER = 4
_DEFAULT_LIMIT = 16
# Shapes that a program remembers without a graph.
_MAX_KNOWN = 1024


_WORKSPACES = Workspaces()
_said: set[str] = set()


def refuse(reason: str) -> None:
    """Counts a reason why something is not captured, and says it once."""
    STATS.add_graph_reason(reason)
    if reason not in _said:
        _said.add(reason)
        log.warning("tensord: no CUDA graph: %s", reason)


def _limit() -> int:
    text = os.environ.get("TENSORD_CUDA_GRAPHS_LIMIT", "")
    return int(text) if text.isdigit() else _DEFAULT_LIMIT


@dataclass
class _Shape:
    """What a program knows about one set of shapes."""

    calls: int = 0
    captures: int = 0
    learned: int = 0
    variants: list[Captured] = field(default_factory=list)
    # Results that were held across calls, by their number.
    copied: set[int] = field(default_factory=set)
    sharing: Sharing = field(default_factory=Sharing)
    refused: int = 0
    given_up: bool = False

    def drop(self) -> None:
        """Gives up all graphs."""
        while self.variants:
            give_up(self.variants.pop())


_Shapes = OrderedDict[Any, _Shape]


def _drop_all(shapes: _Shapes) -> None:
    for shape in shapes.values():
        shape.drop()


@dataclass
class _Read:
    """How a capture reads its arguments: those where they lie, of them the storages in the memory
    of other graphs, and their results where they are that; buffers for the others."""

    fixed: list[int] = field(default_factory=list)
    borrowed: frozenset[int] = frozenset()
    results: dict[int, Result] = field(default_factory=dict)
    buffers: dict[int, torch.Tensor] = field(default_factory=dict)


# References to all programs. Some threads add to it while others read: every use is one operation
# of the set.
_PROGRAMS: set[weakref.ref[GraphedProgram]] = set()
# A child of a fork cannot use CUDA, and so not destroy a graph either.
os.register_at_fork(after_in_child=_PROGRAMS.clear)


_suspended = 0  # blocks of `suspended` that are entered


@contextlib.contextmanager
def suspended() -> Iterator[None]:
    """A block in which programs run step by step in all threads: nothing is captured or
    replayed."""
    global _suspended
    _suspended += 1
    try:
        yield
    finally:
        _suspended -= 1


class _Reset:
    """What torch._dynamo.reset() calls as if it were a backend."""

    @staticmethod
    def reset() -> None:
        """Gives up the graphs of all programs but those that are being called: their memory is
        wanted back, though Dynamo keeps programs that were compiled behind a graph break."""
        for reference in list(_PROGRAMS):
            program = reference()
            if program is not None:
                program.reset()
        free_given_up()


class GraphedProgram:
    """A program that is captured once it is warm. Called as the program is.

    workspace: the bytes that a call with given arguments takes from a lent workspace if it can, and
    those that it must have there. lend: a block in which the program takes a workspace. make_loans:
    what its results are given out by; without it PythonLoans.
    """

    def __init__(
        self,
        program: Boxed,
        plan: Plan,
        device: Device | None = None,
        workspace: Callable[[Sequence[Any]], tuple[int, int]] | None = None,
        lend: Callable[[torch.Tensor], contextlib.AbstractContextManager[None]] | None = None,
        make_loans: MakeLoans | None = None,
    ) -> None:
        self._program = program
        self._plan = plan
        self._device = device or CudaDevice(plan.index)
        self._workspace = workspace or (lambda arguments: (0, 0))
        self._lend = lend or (lambda tensor: contextlib.nullcontext())
        self._make_loans = make_loans or PythonLoans
        self._busy = threading.Lock()
        self._shapes: _Shapes = OrderedDict()
        self._evicted = 0
        self._limit = _limit()
        self._most_known = max(_MAX_KNOWN, 4 * self._limit)
        # What it handed out may outlive it.
        weakref.finalize(self, _drop_all, self._shapes).atexit = False
        _PROGRAMS.add(weakref.ref(self, _PROGRAMS.discard))
        if plan.obstacle:
            refuse(plan.obstacle)

    def reset(self) -> None:
        """Gives up its graphs, as if it had never been called. Does nothing while a thread calls
        it."""
        if self._busy.acquire(blocking=False):
            try:
                _drop_all(self._shapes)
                self._shapes.clear()
                self._evicted = 0
            finally:
                self._busy.release()

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if self._plan.obstacle or self._limit == 0 or _suspended:
            return self._program(arguments)
        # Two threads at once would share a graph's memory.
        if not self._busy.acquire(blocking=False):
            return self._program(arguments)
        try:
            return self._call(arguments)
        finally:
            self._busy.release()

    def _call(self, arguments: list[Any]) -> list[Any]:
        stream = self._device.stream()
        shape = self._shape_of(arguments)
        if stream is None or shape.given_up:
            return self._program(arguments)
        if shape.calls < WARM_UP:
            shape.calls += 1
            _WORKSPACES.want((self._plan.index, stream), self._shared_workspace(arguments))
            return self._program(arguments)
        captured = next((c for c in shape.variants if c.fits(arguments, stream)), None)
        results, held = self._attempt(shape, captured, arguments)
        if captured is not None and held:
            self._learn(shape, captured, held)
        if captured is None or held:
            results, _ = self._attempt(shape, self._new(shape, arguments, stream), arguments)
        return self._program(arguments) if results is None else results

    def _attempt(
        self, shape: _Shape, captured: Captured | None, arguments: list[Any]
    ) -> tuple[list[Any] | None, set[int]]:
        """The results of a replay, None where there is none now; and what of the graph's last
        results is held, which forbids one."""
        if captured is None:
            return None, set()
        with captured.arena.entered() as entered:
            held = captured.loans.used() if entered else set()
            replayed = entered and not held
            return (self._replay(shape, captured, arguments) if replayed else None), held

    def _shared_workspace(self, arguments: Sequence[Any]) -> int:
        """What the program takes of the stream's workspace, in bytes. Backward has the memory of
        activations for what it holds for a part of its time only."""
        whole, least = self._workspace(arguments)
        return least if self._plan.reads_last else whole

    # -- shapes ---------------------------------------------------------------------------------

    def _shape_of(self, arguments: Sequence[Any]) -> _Shape:
        key = tuple(
            (tuple(a.shape), a.stride()) if isinstance(a, torch.Tensor) else a
            for a in map(arguments.__getitem__, self._plan.keyed)
        )
        shape = self._shapes.get(key)
        if shape is not None:
            self._shapes.move_to_end(key)
            return shape
        if len(self._shapes) >= self._most_known:
            self._shapes.pop(next(k for k, s in self._shapes.items() if not s.variants))
        shape = self._shapes[key] = _Shape()
        return shape

    def _make_room(self) -> bool:
        """Evicts the least recently used shape when there are as many as may be kept; False when
        that has been done too often."""
        kept = [shape for shape in self._shapes.values() if shape.variants]
        if len(kept) < self._limit:
            return True
        if self._evicted >= _MAX_TURNOVER * self._limit:
            refuse("more shapes than TENSORD_CUDA_GRAPHS_LIMIT keeps")
            return False
        self._evicted += 1
        STATS.add("cuda_graphs_evicted")
        kept[0].drop()
        kept[0].calls = kept[0].captures = 0
        return True

    def _learn(self, shape: _Shape, captured: Captured, held: set[int]) -> None:
        """Results that are held across calls will be copies; the graph is given up."""
        STATS.add("cuda_graphs_held")
        shape.learned += 1
        for number, output in enumerate(captured.outputs):
            if output.storage in held or shape.learned >= _MAX_LEARNED:
                shape.copied.add(number)
        self._drop(shape, captured)

    @staticmethod
    def _drop(shape: _Shape, captured: Captured) -> None:
        """Gives up a graph that another one is going to replace."""
        shape.captures -= 1
        shape.variants.remove(captured)
        give_up(captured)

    # -- capture --------------------------------------------------------------------------------

    def _new(self, shape: _Shape, arguments: list[Any], stream: int) -> Captured | None:
        """One more graph for a shape; None when there can or should be none now."""
        outdated = [c for c in shape.variants if c.outdated()]
        if outdated:
            while outdated:
                self._drop(shape, outdated.pop())
            if not shape.variants:  # what it reads is probably no graph's yet: at the next call
                return None
        if shape.captures >= MAX_VARIANTS:
            return self._never(shape, "addresses change at every call")
        if not shape.variants and not self._make_room():
            shape.given_up = True
            return None
        free_given_up()
        if not CAPTURE.acquire(blocking=False):
            return None
        try:
            captured = self._capture(shape, arguments, stream)
            if captured is None:
                return None
        except NoMemoryToMove:
            raise
        except torch.OutOfMemoryError as error:
            return self._later(shape, _failed(error))
        except Exception as error:  # whatever it was: the program itself still runs
            return self._never(shape, _failed(error))
        finally:
            CAPTURE.release()
        shape.captures += 1
        shape.variants.append(captured)
        torch_compat.told_of_resets(_Reset)
        STATS.add("cuda_graphs")
        return captured

    @staticmethod
    def _never(shape: _Shape, reason: str) -> None:
        shape.given_up = True
        shape.drop()
        refuse(reason)

    @staticmethod
    def _later(shape: _Shape, reason: str) -> None:
        """No graph now, perhaps one after the next warm-up."""
        if not shape.refused:
            refuse(reason)
        shape.calls, shape.refused = 0, shape.refused + 1
        shape.given_up = shape.refused >= _MAX_REFUSED

    def _capture(self, shape: _Shape, arguments: list[Any], stream: int) -> Captured | None:
        """One graph, which reuses the memory of what it is the last to read where that works. None
        where the arguments had to be moved."""
        read = self._buffers_of(arguments, stream)
        wanted = None
        if self._plan.reads_last and shape.sharing.allowed:
            wanted = candidate(arguments, read.results)
        if wanted is not None:
            with wanted.arena.lock:
                reuse = wanted.last(arguments)
                if reuse.pays():
                    try:
                        return self._capture_in(reuse, shape, arguments, read, stream)
                    except torch.OutOfMemoryError:
                        raise
                    except Exception as error:
                        shape.sharing.allowed = False
                        log.info("tensord: a CUDA graph gets memory of its own: %s", _first(error))
                        if reuse.arena.spoiled:
                            reuse.move(arguments)
                            return None
        return self._capture_in(None, shape, arguments, read, stream)

    def _capture_in(
        self,
        reuse: Reuse | None,
        shape: _Shape,
        arguments: list[Any],
        read: _Read,
        stream: int,
    ) -> Captured:
        arena = Arena(self._device.pool()) if reuse is None else reuse.arena
        inputs = [read.buffers.get(i, argument) for i, argument in enumerate(arguments)]
        origins = origins_of(inputs)
        captured = Captured(
            fixed=read.fixed,
            addresses=[arguments[i].data_ptr() for i in read.fixed],
            borrowed=read.borrowed,
            buffers=read.buffers,
            workspace=_WORKSPACES.take(
                (self._plan.index, stream), self._shared_workspace(inputs), self._device.device()
            ),
            stream=stream,
            sharing=shape.sharing,
        )
        program, lend, results = self._program, self._lend, list[Any]()

        def run(given: list[Any]) -> list[Any]:
            lent = captured.workspace
            with contextlib.nullcontext() if lent is None else lend(lent):
                return program(given)

        if reuse is not None:
            reuse.hand_over(arguments, inputs)
        try:
            captured.graph, results = self._device.capture(run, inputs, arena.pool)
        except BaseException:
            arena.closed = True
            raise
        finally:
            if reuse is not None:
                captured.reuse = reuse.settle(results)
                reuse.put_back(arguments)
        if captured.reuse is not None:
            addresses = captured.reuse.check(self._device.taken(arena.pool), results)
            for address in addresses:  # a result that lies there now is no view of the argument
                origins.pop(address, None)
            STATS.add("cuda_graphs_sharing")
        arena.add(captured)
        describe(captured, origins, results, shape.copied, self._make_loans)
        adopt(captured)
        return captured

    def _buffers_of(self, arguments: Sequence[Any], stream: int) -> _Read:
        read = _Read()
        borrowed = set()
        for i, argument in enumerate(arguments):
            if not isinstance(argument, torch.Tensor) or i in self._plan.unread:
                continue
            address = argument.untyped_storage().data_ptr()
            if i in self._plan.static:
                read.fixed.append(i)
            elif is_graph_memory(address):
                read.fixed.append(i)
                borrowed.add(address)
                result = None if i in self._plan.written else result_of(argument, stream)
                if result is not None:
                    read.results[i] = result
            else:
                read.buffers[i] = buffer_like(argument)
                copy_into(read.buffers[i], argument)  # fails for what overlaps itself
        read.borrowed = frozenset(borrowed)
        return read

    # -- replay ---------------------------------------------------------------------------------

    def _replay(self, shape: _Shape, captured: Captured, arguments: list[Any]) -> list[Any] | None:
        """The results; None, with the arguments as they were, when it cannot be replayed now.
        Requires: the arena's lock, and that nothing of the graph's own is held."""
        if not self._may_write(shape, captured, arguments):
            return None
        captured.fill(arguments)
        captured.graph.replay()
        for i in self._plan.written:
            if i in captured.buffers:
                arguments[i].copy_(captured.buffers[i])
        results = results_of(captured, arguments)
        arguments.clear()
        STATS.add("cuda_graph_replays")
        return results

    def _may_write(self, shape: _Shape, captured: Captured, arguments: list[Any]) -> bool:
        """True when nobody uses what a replay writes over; the arguments that it is the last to
        read are taken out of the list then. Otherwise the graph is given up, for one that is
        captured at a later call, and what shares memory at the wrong time will not do so again."""
        arena, reuse = captured.arena, captured.reuse
        lenders = reuse.remove(arguments) if reuse is not None else []
        later = arena.overlaid(captured)
        if not (later or arena.spoiled or arena.overwrites_used(captured)):
            return True
        if reuse is not None:
            reuse.put_back(arguments)
        del lenders
        STATS.add("cuda_graphs_held")
        for sharing in [graph.sharing for graph in later] or [shape.sharing]:
            sharing.allowed = False
        self._drop(shape, captured)
        return False


def _failed(error: BaseException) -> str:
    return f"the capture failed: {_first(error)}"


def _first(error: BaseException) -> str:
    """What went wrong first: the end of a broken capture fails too, and says little."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {str(error)[:200]}"
