"""Memory that several CUDA graphs share: what one has read for the last time, a later one reuses.

Backward reads what forward saved, and each activation is dead after its last use: without graphs
gradients take its place. A graph that is the last to read another's results does the same. It is
captured in the same pool, an *arena*, and its inputs go when the program needs them no more, so
that torch's allocator gives their memory out again. Replays may come in any order all the same,
because each looks first whether what it is going to write over is still in use:

- What a graph took over has to be gone, but for its own arguments: nobody else may have kept what
  forward saved (`retain_graph=True`, a hook).
- Results of graphs that were captured later, which may lie where this one writes, have to be gone:
  gradients are usually, when the next forward call comes.

Otherwise the later graph is captured anew with memory of its own, and does not share again.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from . import torch_compat

if TYPE_CHECKING:
    from .cuda_graph_memory import Captured

# Dead results below this many bytes are not worth an arena of two.
LEAST_BYTES = 1 << 20

# A result of a graph: the graph and the number of the storage there.
Place = tuple["weakref.ref[Captured]", int]


@dataclass
class Sharing:
    """Whether the graphs of a program's shape may take over the memory of others."""

    allowed: bool = True


class Arena:
    """A pool of torch's, and its graphs in the order of their captures."""

    def __init__(self, pool: Any) -> None:
        self.pool = pool
        self._members: list[weakref.ref[Captured]] = []
        # Results whose memory captures after them were given.
        self._freed: list[Place] = []

    def add(self, captured: Captured) -> None:
        """The newest member, which may write over all that is freed by now."""
        captured.arena = self
        captured.number, captured.reused = len(self._members), len(self._freed)
        self._members.append(weakref.ref(captured))

    def free(self, places: Iterable[Place]) -> None:
        """From now on captures may be given the memory of these results."""
        self._freed.extend(places)

    def has_freed(self, place: Place) -> bool:
        """True for a result that captures may have written over."""
        return place in self._freed

    def held_behind(self, captured: Captured) -> list[Captured]:
        """Later members of which a result is in use, so that `captured` cannot be replayed."""
        later = (reference() for reference in self._members[captured.number + 1 :])
        return [member for member in later if member is not None and member.held()]

    def enter(self, captured: Captured, arguments: list[Any]) -> Pins | None:
        """Before a replay: takes the arguments out of the list that the graph writes over. While
        what it returns lives, none of those that made them is replayed. None, with the list as it
        was, when somebody else uses what the graph writes over."""
        loan = captured.loan or Loan(self)
        if any(reference() is None for reference, _ in loan.places()):
            return None
        pins = loan.take(arguments)
        for reference, number in self._freed[: captured.reused]:
            graph = reference()
            mine = 1 if (reference, number) in pins else 0
            if graph is not None and graph.users(number) > mine:
                loan.give_back(arguments, pins)
                return None
        return pins


# Storages over results, which keep these in use: their graph must not be replayed.
Pins = dict[Place, torch.UntypedStorage]


@dataclass
class Loan:
    """Results of members of one arena that another graph is the last to read.

    arguments: number to the result's place, and how to make the tensor again.
    """

    arena: Arena
    arguments: dict[int, tuple[Place, torch_compat.Layout]] = field(default_factory=dict)

    def places(self) -> set[Place]:
        """The results."""
        return {place for place, _ in self.arguments.values()}

    def addresses(self) -> set[int]:
        """Where they lie."""
        return {_storage_at(place).data_ptr() for place in self.places()}

    def bytes(self) -> int:
        """How much memory they have."""
        return sum(_storage_at(place).nbytes() for place in self.places())

    def take(self, arguments: list[Any]) -> Pins:
        """Takes them out of the list, where None is left."""
        pins = {place: place[0]().lend(place[1]) for place in self.places()}
        for i in self.arguments:
            arguments[i] = None
        return pins

    def give_back(self, arguments: list[Any], pins: Pins) -> None:
        """Puts equal tensors where `take` left None."""
        for i, (place, layout) in self.arguments.items():
            arguments[i] = torch_compat.tensor_over(pins[place], *layout)

    def without(self, places: Iterable[Place]) -> Loan:
        """The same but for these results."""
        left_out = set(places)
        kept = {i: known for i, known in self.arguments.items() if known[0] not in left_out}
        return Loan(self.arena, kept)


class CaptureLoan:
    """A loan during the capture, whose inputs own the results, so that each is freed when the
    program drops it. The caller's arguments are there again afterwards."""

    def __init__(self, loan: Loan, pins: Pins, inputs: list[Any]) -> None:
        self._loan, self._pins = loan, pins
        self._owned: dict[Any, Place] = {}
        for i, (place, layout) in loan.arguments.items():
            inputs[i] = torch_compat.tensor_over(_storage_at(place), *layout)
        for place in loan.places():
            storage = _storage_at(place)
            self._owned[torch_compat.storage_reference(storage)] = place
            _put_storage(place, torch_compat.storage_over(storage))

    @property
    def arena(self) -> Arena:
        """Where to capture."""
        return self._loan.arena

    def settle(self, arguments: list[Any], results: Iterable[Any]) -> Loan:
        """What the graph takes over from now on: not what its results lie in, which stays with the
        first graph. results: none of a capture that failed."""
        kept = []
        for result in results:
            if not isinstance(result, torch.Tensor):
                continue
            storage = result.untyped_storage()
            place = self._owned.get(torch_compat.storage_reference(storage))
            if place is not None:
                _put_storage(place, storage)
                kept.append(place)
        self._loan.give_back(arguments, self._pins)
        loan = self._loan.without(kept)
        loan.arena.free(loan.places())
        return loan


def borrow(
    arguments: list[Any], inputs: list[Any], results: dict[int, Place | None]
) -> CaptureLoan | None:
    """The loan for the capture of a graph with these arguments, whose `inputs` change for it; None
    where nothing is dead after it that would be worth it.

    results: by number of the argument.
    """
    loans: dict[int, Loan] = {}
    for i, place in results.items():
        if place is None:
            continue
        arena = place[0]().arena
        loan = loans.setdefault(id(arena), Loan(arena))
        loan.arguments[i] = place, torch_compat.layout_of(arguments[i])
    # What is freed already is free from the capture's begin on.
    fit = [x for x in loans.values() if not any(map(x.arena.has_freed, x.places()))]
    loan = max(fit, key=Loan.bytes, default=None)
    if loan is None:
        return None
    pins = loan.take(arguments)
    for i in loan.arguments:
        inputs[i] = None
    last = loan.without(place for place in pins if place[0]().users(place[1]) > 1)
    loan.give_back(arguments, pins)
    for i in loan.arguments:
        inputs[i] = arguments[i]
    if last.bytes() < LEAST_BYTES:
        return None
    return CaptureLoan(last, last.take(arguments), inputs)


def _storage_at(place: Place) -> torch.UntypedStorage:
    return place[0]().storages[place[1]]


def _put_storage(place: Place, storage: torch.UntypedStorage) -> None:
    place[0]().storages[place[1]] = storage
