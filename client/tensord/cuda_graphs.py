"""mode="reduce-overhead": a compiled program's work is captured as a CUDA graph and replayed.

A replay costs the host one launch, whatever the program does. In exchange a graph reads and writes
the same memory at each replay, and all of this is about that:

- Inputs that keep their address (parameters, buffers, results of another graph) are read where they
  lie; a graph serves the addresses that it was captured with. Others are copied to a place of the
  graph's own first, and copied back where the program writes into them.
- Results are handed out without a copy, as tensors over the graph's memory that do not own it.
  While one of them is alive the graph is not replayed. A result that is still held at the next call
  (a loss in a list, accumulated gradients) makes the program be captured anew, and from then on is
  given out as a copy.
- What graphs share: their workspace (cuda_graph_memory.py), and the memory of results that another
  graph was the last to read (cuda_graph_arena.py).
- Random numbers: torch registers its generator with each capture, so a replay draws new ones, and
  torch.manual_seed determines them.

Where a capture is not possible the program runs as ever, and the reason is counted and said once.
What is known before (cuda_graph_plan.py) cuts the graph into several programs
(cuda_graph_split.py).
"""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch

from . import cuda_graph_arena, torch_compat
from .counters import STATS
from .cuda_graph_arena import Arena, Place, Sharing
from .cuda_graph_memory import (
    CAPTURE,
    Captured,
    Workspaces,
    adopt,
    copy_into,
    describe,
    free_given_up,
    give_up,
    is_graph_memory,
    lent,
    origins_of,
    owner_of,
    place_like,
    results_of,
)
from .cuda_graph_plan import Plan

log = logging.getLogger("tensord")

Boxed = Callable[[list[Any]], list[Any]]

# Calls before a capture: libraries choose algorithms, modules are loaded, tensors find their place.
WARM_UP = 2
# Captures of one program for one set of shapes, for streams and addresses that change.
MAX_VARIANTS = 4
# Captures anew because of held results, until all of them are given out as copies.
_MAX_LEARNED = 2
# Shapes that a program may have captured, as a multiple of those that it keeps.
_MAX_TURNOVER = 4
_DEFAULT_LIMIT = 16
# Shapes that a program remembers without a graph.
_MAX_KNOWN = 1024


class Device(Protocol):
    """What captures and replays; CUDA, or a stand-in for tests."""

    def pool(self) -> Any:
        """Memory that captures may share."""
        ...

    def capture(self, run: Boxed, inputs: list[Any], pool: Any) -> tuple[Any, list[Any]]:
        """A graph with a method replay() of what `run` does with `inputs`, which it empties, and
        its results, which lie in the pool. What dies meanwhile is memory for what is made later."""
        ...

    def stream(self) -> int | None:
        """The stream that work goes to now; None while somebody else captures it."""
        ...

    def device(self) -> torch.device:
        """Where it is."""
        ...


# By device and stream that replays go to. Libraries keep temporary memory by the stream that they
# are captured on, so graphs that may run at once must not share one.
_capture_streams: dict[tuple[int, int], Any] = {}


class CudaDevice:
    """torch.cuda, one device of it."""

    def __init__(self, index: int) -> None:
        self._index = index

    def pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    def capture(self, run: Boxed, inputs: list[Any], pool: Any) -> tuple[Any, list[Any]]:
        with torch.cuda.device(self._index):
            graph = torch.cuda.CUDAGraph()
            before = torch.cuda.current_stream()
            key = self._index, before.cuda_stream
            if key not in _capture_streams:
                _capture_streams[key] = torch.cuda.Stream()
            stream = _capture_streams[key]
            # Other threads of the job may do as they like meanwhile.
            capturing = torch.cuda.graph(
                graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            )
            try:
                with capturing:
                    results = run(inputs)
            except BaseException:
                torch.cuda.set_stream(before)  # torch leaves its own when a capture fails
                torch_compat.end_broken_capture(self._index, pool)
                raise
            return graph, results

    def stream(self) -> int | None:
        if torch.cuda._is_in_bad_fork():  # what follows would fail, and not say why
            raise RuntimeError(
                "CUDA cannot be used in a process forked after CUDA started: start it with the "
                "'spawn' method"
            )
        if torch.cuda.is_current_stream_capturing():
            return None
        return torch.cuda.current_stream(self._index).cuda_stream

    def device(self) -> torch.device:
        return torch.device("cuda", self._index)


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
    given_up: bool = False

    def drop(self) -> None:
        """Gives up all graphs."""
        while self.variants:
            give_up(self.variants.pop())


_Shapes = OrderedDict[Any, _Shape]


def _drop_all(shapes: _Shapes) -> None:
    for shape in shapes.values():
        shape.drop()


class GraphedProgram:
    """A program that is captured once it is warm. Called as the program is.

    workspace: the bytes that a call with given arguments takes from a lent workspace if it can, and
    those that it must have there.
    """

    def __init__(
        self,
        program: Boxed,
        plan: Plan,
        device: Device | None = None,
        workspace: Callable[[Sequence[Any]], tuple[int, int]] | None = None,
    ) -> None:
        self._program = program
        self._plan = plan
        self._device = device or CudaDevice(plan.index)
        self._workspace = workspace or (lambda arguments: (0, 0))
        self._busy = threading.Lock()
        self._shapes: _Shapes = OrderedDict()
        self._evicted = 0
        self._limit = _limit()
        self._most_known = max(_MAX_KNOWN, 4 * self._limit)
        # What it handed out may outlive it.
        weakref.finalize(self, _drop_all, self._shapes).atexit = False
        if plan.obstacle:
            refuse(plan.obstacle)

    def __call__(self, arguments: list[Any]) -> list[Any]:
        if self._plan.obstacle or self._limit == 0:
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
            whole, least = self._workspace(arguments)
            # Backward is going to have the memory of what forward saved for all else.
            size = least if self._plan.reads_last else whole
            _WORKSPACES.want((self._plan.index, stream), size)
            return self._program(arguments)
        captured = next((c for c in shape.variants if c.fits(arguments, stream)), None)
        if captured is not None and not self._is_free(shape, captured):
            captured = None
        if captured is None:
            captured = self._new(shape, arguments, stream)
            if captured is None:
                return self._program(arguments)
        return self._replay(shape, captured, arguments)

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

    def _is_free(self, shape: _Shape, captured: Captured) -> bool:
        """True when nothing that the graph may write over is in use; else it is captured anew."""
        held, behind = captured.held(), captured.arena.held_behind(captured)
        if not held and not behind:
            return True
        STATS.add("cuda_graphs_held")
        if held:  # such results will be copies
            shape.learned += 1
            for number, output in enumerate(captured.outputs):
                if output.storage in held or shape.learned >= _MAX_LEARNED:
                    shape.copied.add(number)
        for later in behind:  # such graphs will have memory of their own
            later.sharing.allowed = False
        self._drop(shape, captured)
        return False

    @staticmethod
    def _drop(shape: _Shape, captured: Captured) -> None:
        """Gives up a graph that another one replaces."""
        shape.captures -= 1
        shape.variants.remove(captured)
        give_up(captured)

    # -- capture --------------------------------------------------------------------------------

    def _new(self, shape: _Shape, arguments: Sequence[Any], stream: int) -> Captured | None:
        """One more graph for a shape; None when there can or should be none now."""
        for outdated in [c for c in shape.variants if c.outdated()]:
            self._drop(shape, outdated)
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
        except Exception as error:  # whatever it was: the program itself still runs
            return self._never(shape, f"the capture failed: {_first(error)}")
        finally:
            CAPTURE.release()
        shape.captures += 1
        shape.variants.append(captured)
        STATS.add("cuda_graphs")
        return captured

    @staticmethod
    def _never(shape: _Shape, reason: str) -> None:
        shape.given_up = True
        shape.drop()
        refuse(reason)

    def _capture(self, shape: _Shape, arguments: list[Any], stream: int) -> Captured:
        fixed, borrowed, places = self._places_of(arguments)
        inputs = [places.get(i, argument) for i, argument in enumerate(arguments)]
        addresses, origins = [arguments[i].data_ptr() for i in fixed], origins_of(inputs)
        whole, least = self._workspace(inputs)
        loan = None
        if shape.sharing.allowed:
            loan = cuda_graph_arena.borrow(arguments, inputs, borrowed)
        workspace = _WORKSPACES.take(
            (self._plan.index, stream), whole if loan is None else least, self._device.device()
        )
        program = self._program

        def run(given: list[Any]) -> list[Any]:
            with lent(workspace):
                return program(given)

        arena = Arena(self._device.pool()) if loan is None else loan.arena
        results: list[Any] = []
        try:
            graph, results = self._device.capture(run, inputs, arena.pool)
        finally:
            taken = loan.settle(arguments, results) if loan is not None else None
        captured = Captured(
            graph,
            fixed,
            addresses,
            frozenset(arguments[i].untyped_storage().data_ptr() for i in borrowed),
            places,
            workspace,
            stream,
            shape.sharing,
        )
        if taken is not None:
            STATS.add("cuda_graphs_sharing")
            captured.loan = taken
            for address in taken.addresses():  # no result is a view of these
                del origins[address]
        arena.add(captured)
        describe(captured, origins, results, shape.copied)
        adopt(captured)
        return captured

    def _places_of(
        self, arguments: Sequence[Any]
    ) -> tuple[list[int], dict[int, Place | None], dict[int, torch.Tensor]]:
        """Arguments that are read where they lie; of them those in the memory of graphs, with the
        result that each is where it may be taken over; places for the others."""
        fixed: list[int] = []
        borrowed: dict[int, Place | None] = {}
        places: dict[int, torch.Tensor] = {}
        for i, argument in enumerate(arguments):
            if not isinstance(argument, torch.Tensor) or i in self._plan.unread:
                continue
            if i in self._plan.static:
                fixed.append(i)
            elif is_graph_memory(argument.untyped_storage().data_ptr()):
                fixed.append(i)
                borrowed[i] = None if i in self._plan.written else owner_of(argument)
            else:
                places[i] = place_like(argument)
                copy_into(places[i], argument)  # fails for what overlaps itself
        return fixed, borrowed, places

    # -- replay ---------------------------------------------------------------------------------

    def _replay(self, shape: _Shape, captured: Captured, arguments: list[Any]) -> list[Any]:
        pins = captured.arena.enter(captured, arguments)
        if pins is None:  # somebody else still reads what it would write over
            STATS.add("cuda_graphs_held")
            shape.sharing.allowed = False
            self._drop(shape, captured)
            return self._program(arguments)
        captured.fill(arguments)
        captured.graph.replay()
        for i in self._plan.written:
            if i in captured.places:
                arguments[i].copy_(captured.places[i])
        results = results_of(captured, arguments)
        arguments.clear()
        STATS.add("cuda_graph_replays")
        return results


def _first(error: BaseException) -> str:
    """What went wrong first: the end of a broken capture fails too, and says little."""
    while error.__context__ is not None:
        error = error.__context__
    return f"{type(error).__name__}: {str(error)[:200]}"
