# SPDX-License-Identifier: Apache-2.0
"""Memory that CUDA graphs share: where backward is the last to read an activation, it reuses it.

Without graphs a backward call frees each activation after its last use, and gradients take its
place. With graphs the same happens at the capture: backward is captured in the pool of the graph
whose results it reads, an *arena*, and its inputs own those results. Each goes when the program
drops it, and torch's allocator gives the memory out again. From then on two graphs write there.

Replays may come in any order all the same, because each looks first whether what it is going to
write over is still in use. In an arena, whose graphs have an order, that of their captures, these
are all cases:

- What was freed before or at a graph's capture may be written over by it. So nobody may use it now,
  but for the call's own arguments (`retain_graph=True`, a hook that keeps what is saved).
- Results of graphs that were captured later may lie where a graph writes. So nobody may use them
  (gradients, when the next forward call comes).

One graph of an arena is replayed at a time, from that look on until its results count as used.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..buffers import buffer_like, copy_into

if TYPE_CHECKING:
    from .memory import Captured

# Dead results below this many bytes are not worth it.
LEAST_BYTES = 1 << 20


class NoMemoryToMove(torch.OutOfMemoryError):
    """There is no memory for copies of arguments that cannot stay where they are."""


@dataclass
class Sharing:
    """Whether graphs of one program and shape may reuse the memory of others."""

    allowed: bool = True


@dataclass(frozen=True)
class Result:
    """What a graph returns: one of its storages. graph: a weak reference."""

    graph: weakref.ref[Captured]
    number: int

    def users(self) -> int:
        """How many tensors' storages over it are in use; none of a graph that is gone."""
        graph = self.graph()
        return 0 if graph is None else graph.loans.users(self.number)

    @property
    def storage(self) -> torch.UntypedStorage:
        """Where it lies."""
        return self._alive().storages[self.number]

    def put(self, storage: torch.UntypedStorage) -> None:
        """Replaces the storage by another over the same memory."""
        self._alive().storages[self.number] = storage

    def lend(self) -> torch.UntypedStorage:
        """A storage over it that counts as used."""
        return self._alive().loans.lend(self.number)

    def _alive(self) -> Captured:
        graph = self.graph()
        if graph is None:
            raise RuntimeError("the graph of a result is gone")
        return graph


class Arena:
    """A pool of torch's, and its graphs in the order of their captures."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        # Held from the look at what is in use until a replay's results are, and by captures.
        self.lock = threading.Lock()
        # No more graphs: a capture failed in the pool. spoiled: nor replays.
        self.closed = self.spoiled = False
        self._graphs: list[weakref.ref[Captured]] = []
        # What the graphs that are captured from now on may write over.
        self._freed: list[Result] = []

    @contextlib.contextmanager
    def entered(self) -> Iterator[bool]:
        """A block with the lock; False in it while somebody else has that."""
        free = self.lock.acquire(blocking=False)
        try:
            yield free
        finally:
            if free:
                self.lock.release()

    def add(self, captured: Captured) -> None:
        """The newest graph."""
        captured.arena = self
        captured.position = len(self._graphs)
        freed: dict[weakref.ref[Captured], list[int]] = {}
        for result in self._freed:
            freed.setdefault(result.graph, []).append(result.number)
        captured.overwrites = [(graph, tuple(numbers)) for graph, numbers in freed.items()]
        self._graphs.append(weakref.ref(captured))

    def mark_freed(self, results: Iterable[Result]) -> None:
        """From now on captures may be given the memory of these."""
        self._freed.extend(results)

    def takes(self, results: Iterable[Result]) -> bool:
        """True when a graph that reads these can be captured here: their memory must not be free
        from the capture's begin on."""
        return not self.closed and not any(result in self._freed for result in results)

    def overlaid(self, captured: Captured) -> list[Captured]:
        """Later graphs of which a result is in use, which may lie where this one writes."""
        later = (reference() for reference in self._graphs[captured.position + 1 :])
        return [graph for graph in later if graph is not None and graph.loans.used()]

    def overwrites_used(self, captured: Captured) -> bool:
        """True when somebody uses what was freed before the graph was captured."""
        graphs = ((reference(), numbers) for reference, numbers in captured.overwrites)
        return any(g is not None and g.loans.any_used(numbers) for g, numbers in graphs)


class Reuse:
    """Results of an arena's graphs that another graph is the last to read.

    arguments: number to the result, and how to make the tensor over it again.
    """

    def __init__(
        self, arena: Arena, arguments: dict[int, tuple[Result, torch_compat.Layout]]
    ) -> None:
        self.arena, self._arguments = arena, arguments
        self._results = {result for result, _ in arguments.values()}
        self._graphs = {result.graph for result in self._results}
        # During the capture: references to the storages that its inputs own, and whose they were.
        self._owned: dict[Any, Result] = {}
        self._lenders: list[Captured] = []

    def bytes(self) -> int:
        """How much memory it is."""
        return sum(result.storage.nbytes() for result in self._results)

    def pays(self) -> bool:
        """True when it is enough memory to be captured for."""
        return self.bytes() >= LEAST_BYTES

    def numbers(self) -> set[int]:
        """The arguments."""
        return set(self._arguments)

    def remove(self, arguments: list[Any]) -> list[Captured]:
        """Leaves None in place of the arguments, so that nothing here keeps them in use. The graphs
        that they are of: for as long as the caller has these, `put_back` can undo it."""
        graphs = [graph for reference in self._graphs if (graph := reference()) is not None]
        for number in self._arguments:
            arguments[number] = None
        return graphs

    def put_back(self, arguments: list[Any]) -> None:
        """Puts equal tensors there again."""
        lent = {result: result.lend() for result in self._results}
        for number, (result, layout) in self._arguments.items():
            arguments[number] = torch_compat.tensor_over(lent[result], *layout)
        self._lenders = []

    def move(self, arguments: list[Any]) -> None:
        """Puts copies there, in memory of their own. Raises NoMemoryToMove."""
        try:
            copies = {number: buffer_like(arguments[number]) for number in self._arguments}
        except torch.OutOfMemoryError as error:
            raise NoMemoryToMove(str(error)) from error
        for number, copy in copies.items():
            copy_into(copy, arguments[number])
            arguments[number] = copy

    def last(self, arguments: list[Any]) -> Reuse:
        """What of it nobody uses but these arguments. Requires: the arena's lock."""
        lenders = self.remove(arguments)
        dead = {result for result in self._results if not result.users()}
        self.put_back(arguments)
        del lenders
        return self._only(dead)

    def hand_over(self, arguments: list[Any], inputs: list[Any]) -> None:
        """Takes the arguments out, and makes a capture's inputs the owners of the results."""
        self._lenders = self.remove(arguments)
        for number, (result, layout) in self._arguments.items():
            inputs[number] = torch_compat.tensor_over(result.storage, *layout)
        for result in self._results:
            storage = result.storage
            self._owned[torch_compat.storage_reference(storage)] = result
            result.put(torch_compat.storage_over(storage))

    def settle(self, results: Iterable[Any]) -> Reuse:
        """After the capture: what is reused from now on. What the capture's own results lie in is
        not, and belongs to the first graph again. No results: of a capture that failed."""
        kept = set()
        for tensor in results:
            if not isinstance(tensor, torch.Tensor):
                continue
            storage = tensor.untyped_storage()
            result = self._owned.get(torch_compat.storage_reference(storage))
            if result is not None:
                result.put(storage)
                kept.add(result)
        self._owned.clear()
        reused = self._only(self._results - kept)
        self.arena.mark_freed(reused._results)
        return reused

    def check(self, taken: Iterable[tuple[int, int]], results: Iterable[Any]) -> set[int]:
        """The addresses of what is reused. Raises RuntimeError when something but the capture's
        results has memory there: what it is for would be written over by replays, and write over
        what is not dead then. taken: of the pool, addresses and bytes."""
        regions = {r.storage.data_ptr(): r.storage.nbytes() for r in self._results}
        own = {
            tensor.untyped_storage().data_ptr()
            for tensor in results
            if isinstance(tensor, torch.Tensor)
        }
        for start, size in taken:
            if start not in own and any(
                start < address + length and address < start + size
                for address, length in regions.items()
            ):
                self.arena.closed = self.arena.spoiled = True
                raise RuntimeError("an operator keeps memory that it took in the capture")
        return set(regions)

    def _only(self, results: set[Result]) -> Reuse:
        kept = {n: known for n, known in self._arguments.items() if known[0] in results}
        return Reuse(self.arena, kept)


def candidate(arguments: list[Any], results: dict[int, Result]) -> Reuse | None:
    """The most that a graph with these arguments might reuse, of one arena; None for nothing.

    results: those of the arguments that are results of live graphs, by number.
    """
    by_arena: dict[Arena, dict[int, tuple[Result, torch_compat.Layout]]] = {}
    for number, result in results.items():
        graph = result.graph()
        if graph is not None:
            layout = torch_compat.layout_of(arguments[number])
            by_arena.setdefault(graph.arena, {})[number] = result, layout
    found = (
        Reuse(arena, known)
        for arena, known in by_arena.items()
        if arena.takes(result for result, _ in known.values())
    )
    return max(found, key=Reuse.bytes, default=None)
