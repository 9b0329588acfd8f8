# SPDX-License-Identifier: Apache-2.0
"""The memory of captured programs: their results, what they read, and what they share.

A graph's results keep their memory for as long as the graph lives. They lie in a pool of its own,
or in one that it shares with the graphs whose results it is the last to read (arena.py).
All graphs of a stream, on which replays follow each other, share their workspace, which holds
nothing between replays.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import torch_compat
from ..buffers import buffer_like, copy_into
from .arena import Arena, Result, Reuse, Sharing
from .loans import Loan, Loans, MakeLoans, PythonLoans

_WORKSPACE_UNIT = 2 << 20

# Held while something is captured. One at a time: each begins by waiting for the device, which
# would break another's.
CAPTURE = threading.Lock()


@dataclass
class Output:
    """How to make one result after a replay. storage: the number of the graph's that it lies in;
    None for what is no tensor of the graph's. copied: given out as a copy. argument: the argument
    that it is, or whose memory it views, as such a tensor, `offset` bytes from its start."""

    value: Any = None
    storage: int | None = None
    argument: int | None = None
    dtype: torch.dtype | None = None
    offset: int = 0
    size: tuple[int, ...] = ()
    stride: tuple[int, ...] = ()
    copied: bool = False


@dataclass(eq=False)
class Captured:
    """One graph and its memory."""

    # Arguments that must lie where they lay, and their addresses.
    fixed: list[int]
    addresses: list[int]
    # Of them those in the memory of other graphs: the addresses of their storages.
    borrowed: frozenset[int]
    # Arguments that are copied to the graph's own buffers.
    buffers: dict[int, torch.Tensor]
    # Shared with other graphs; None where the program has none.
    workspace: torch.Tensor | None
    # The one that it is replayed on: what is in flight on another might still use its memory.
    stream: int | None
    sharing: Sharing
    graph: Any = None
    outputs: list[Output] = field(default_factory=list)
    # Where the results lie. Not its own any more where a later graph uses the memory again.
    storages: list[torch.UntypedStorage] = field(default_factory=list)
    # What the last replay handed out of those. only_loans: there are no other results.
    only_loans: bool = False
    loans: Loans = field(default_factory=lambda: PythonLoans([], []))
    # The arena it was captured in, its position there, and of which graphs it may overwrite which
    # results. `reuse` lists those of them that are its own arguments.
    arena: Arena = field(init=False)
    position: int = 0
    overwrites: list[tuple[weakref.ref[Captured], tuple[int, ...]]] = field(default_factory=list)
    reuse: Reuse | None = None

    def fits(self, arguments: Sequence[Any], stream: int | None) -> bool:
        """True when the fixed arguments lie where the graph reads them."""
        return self.stream == stream and all(
            arguments[i].data_ptr() == address
            for i, address in zip(self.fixed, self.addresses, strict=True)
        )

    def outdated(self) -> bool:
        """True when it reads memory of a graph that is gone, so that it will hardly fit again."""
        return not all(map(is_graph_memory, self.borrowed))

    def fill(self, arguments: Sequence[Any]) -> None:
        """Copies arguments to their buffers."""
        plain: list[tuple[torch.Tensor, torch.Tensor]] = []
        for i, buffer in self.buffers.items():
            pair = buffer, arguments[i]
            if 0 in buffer.stride():
                copy_into(*pair)
            else:
                plain.append(pair)
        if plain:  # one launch for all where that can be
            into, tensors = map(list, zip(*plain, strict=True))
            torch._foreach_copy_(into, tensors, non_blocking=True)


# Storages of live graphs' results: address to graph. A graph's result keeps its address. Where
# several graphs have results at one address, the first graph owns it; the others' results may be
# read but not reused.
_GRAPH_MEMORY: dict[int, weakref.ref[Captured]] = {}
# Graphs that were given up while their results were still held; freed once those are gone. Graphs
# are given up by the garbage collector too, at any moment and in any thread, so whatever changes
# these two is one operation of a dict.
_GIVEN_UP: dict[int, Captured] = {}


def is_graph_memory(address: int) -> bool:
    """True for the address of a storage that a live graph hands out."""
    return address in _GRAPH_MEMORY


def result_of(tensor: torch.Tensor, stream: int | None) -> Result | None:
    """The result that a tensor is, of a live graph for this stream; None for another's."""
    storage = tensor.untyped_storage()
    reference = _GRAPH_MEMORY.get(storage.data_ptr())
    captured = reference() if reference is not None else None
    if reference is None or captured is None or captured.stream != stream:
        return None
    number = captured.loans.number_of(storage)
    return None if number is None else Result(reference, number)


def adopt(captured: Captured) -> None:
    """From now on the graph's results count as memory that keeps its address."""
    reference = weakref.ref(captured)
    for storage in captured.storages:
        if address := storage.data_ptr():
            _GRAPH_MEMORY.setdefault(address, reference)


def give_up(captured: Captured) -> None:
    """Drops a graph, once nothing that it handed out is held any more."""
    for storage in captured.storages:
        address = storage.data_ptr()
        reference = _GRAPH_MEMORY.get(address)
        if reference is not None and reference() is captured:
            _GRAPH_MEMORY.pop(address, None)
    _GIVEN_UP[id(captured)] = captured
    free_given_up()


def free_given_up() -> None:
    """Frees given up graphs of which nothing is held any more, unless something is captured now."""
    if CAPTURE.locked():
        return
    for key, captured in list(_GIVEN_UP.items()):
        if not captured.loans.used():
            _GIVEN_UP.pop(key, None)


class Workspaces:
    """Memory for the workspaces of a stream's graphs, of which only one runs at a time.

    It lives as long as a graph that uses it. What programs are going to need is known before the
    first is captured, so that the first one takes enough for all.
    """

    def __init__(self) -> None:
        self._wanted: dict[Any, int] = {}
        self._tensors: weakref.WeakValueDictionary[Any, torch.Tensor] = (
            weakref.WeakValueDictionary()
        )

    def want(self, key: Any, size: int) -> None:
        """A graph on the stream `key` is going to need so many bytes."""
        self._wanted[key] = max(size, self._wanted.get(key, 0))

    def take(self, key: Any, size: int, device: torch.device) -> torch.Tensor | None:
        """At least `size` bytes on `device`; None for none."""
        if size == 0:
            return None
        tensor = self._tensors.get(key)
        if tensor is None or tensor.numel() < size:
            size = max(size, self._wanted.pop(key, 0))
            size += -size % _WORKSPACE_UNIT
            with torch.inference_mode(False):
                tensor = torch.empty(size, dtype=torch.uint8, device=device)
            self._tensors[key] = tensor
        return tensor


# Of the storages of a program's inputs: address to number of the input and its offset, in bytes.
Origins = dict[int, tuple[int, int]]


def origins_of(inputs: Sequence[Any]) -> Origins:
    """Where a program's inputs lie."""
    return {
        argument.untyped_storage().data_ptr(): (i, _offset_bytes(argument))
        for i, argument in enumerate(inputs)
        if isinstance(argument, torch.Tensor) and argument.numel()
    }


def describe(
    captured: Captured,
    origins: Origins,
    results: Sequence[Any],
    copied: set[int],
    make_loans: MakeLoans,
) -> None:
    """Notes how to make each result again after a replay; `copied`: numbers of those that are
    handed out as copies."""
    numbers: dict[int, int] = {}
    layouts: list[Loan] = []
    for number, result in enumerate(results):
        if not isinstance(result, torch.Tensor):
            captured.outputs.append(Output(value=result))
            continue
        storage = result.untyped_storage()
        layout = torch_compat.layout_of(result)
        if result.numel() and storage.data_ptr() in origins:
            argument, offset = origins[storage.data_ptr()]
            # Relative to the argument, which may lie elsewhere next time.
            offset = _offset_bytes(result) - offset
            dtype, size, stride, _ = layout
            captured.outputs.append(
                Output(argument=argument, offset=offset, dtype=dtype, size=size, stride=stride)
            )
            continue
        owner = numbers.setdefault(storage.data_ptr(), len(numbers))
        if owner == len(captured.storages):
            captured.storages.append(storage)
        layouts.append((owner, *layout))
        captured.outputs.append(Output(storage=owner, copied=number in copied))
    captured.loans = make_loans(captured.storages, layouts)
    captured.only_loans = len(layouts) == len(results) and not copied


def results_of(captured: Captured, arguments: Sequence[Any]) -> list[Any]:
    """Fresh tensors over the graph's memory, which do not own it, and copies where they are due."""
    lent = captured.loans.tensors()
    if captured.only_loans:
        return lent
    tensors, results = iter(lent), []
    for output in captured.outputs:
        if output.argument is not None:
            results.append(_of_argument(output, arguments[output.argument]))
        elif output.storage is None:
            results.append(output.value)
        else:
            tensor = next(tensors)
            if output.copied:
                copy = buffer_like(tensor)
                copy_into(copy, tensor)
                tensor = copy
            results.append(tensor)
    return results


def _of_argument(output: Output, argument: torch.Tensor) -> torch.Tensor:
    """An argument itself, or a view of it."""
    if (
        output.offset == 0
        and output.size == tuple(argument.shape)
        and output.stride == argument.stride()
        and output.dtype == argument.dtype
    ):
        return argument
    assert output.dtype is not None  # it is a tensor
    return torch_compat.tensor_over(
        argument.untyped_storage(),
        output.dtype,
        output.size,
        output.stride,
        (_offset_bytes(argument) + output.offset) // output.dtype.itemsize,
    )


def _offset_bytes(tensor: torch.Tensor) -> int:
    return int(tensor.storage_offset()) * tensor.dtype.itemsize
