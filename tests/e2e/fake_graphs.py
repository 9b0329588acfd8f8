# SPDX-License-Identifier: Apache-2.0
"""A stand-in for what captures and replays CUDA graphs (graphed_program.py); needs no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from tensord import torch_compat
from tensord.buffers import copy_into
from tensord.cuda_graphs.graphed_program import GraphedProgram
from tensord.cuda_graphs.plan import Plan
from torch import Tensor

# Memory: its address and its bytes.
Slot = tuple[int, int]


class FakeGraph:
    """Replays by running again, on the captured inputs, into the captured results' memory.

    dead: the memory of inputs that the capture was the last to hold, which a replay writes over.
    """

    def __init__(
        self, run: Callable[[], list[Any]], results: list[Any], dead: list[Tensor]
    ) -> None:
        self._run, self._results, self._dead = run, results, dead

    def replay(self) -> None:
        made = self._run()
        with torch.inference_mode():  # a GPU knows nothing of modes
            for memory in self._dead:
                memory.fill_(0xFF)
            for old, new in zip(self._results, made, strict=True):
                if isinstance(old, Tensor) and old.data_ptr() != new.data_ptr():
                    copy_into(old, new)


class FakeDevice:
    """Counts captures; a capture does no work, as on a GPU.

    Results lie in the memory of inputs that the capture was the last to hold, where they fit, else
    in memory that the pool keeps.
    """

    def __init__(self, error: Exception | None = None) -> None:
        self.captures, self.error, self.current = 0, error, 1
        # What a capture leaves in its pool beside its results.
        self.left: list[Slot] = []

    def stream(self) -> int | None:
        return self.current

    def device(self) -> torch.device:
        return torch.device("cpu")

    def pool(self) -> list[Tensor]:
        return []

    def taken(self, pool: list[Tensor]) -> list[Slot]:
        return self.left

    def capture(
        self, run: Callable[[list[Any]], list[Any]], inputs: list[Any], pool: list[Tensor]
    ) -> tuple[FakeGraph, list[Any]]:
        if self.error is not None:
            raise self.error
        self.captures += 1
        # As on a GPU, a graph reads addresses and keeps nothing alive.
        read = [_alias(x) if isinstance(x, Tensor) else x for x in inputs]
        tensors = [x for x in read if isinstance(x, Tensor)]
        before = [x.clone() for x in tensors]
        references = [
            torch_compat.storage_reference(x.untyped_storage())
            for x in inputs
            if isinstance(x, Tensor)
        ]
        made = run(inputs)
        assert inputs == []
        dead = {
            x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()
            for x, reference in zip(tensors, references, strict=True)
            if reference.expired()
        }
        for x, value in zip(tensors, before, strict=True):
            if 0 not in x.stride():
                x.copy_(value)
        results = _moved(made, {x.untyped_storage().data_ptr() for x in tensors}, dead, pool)
        again = [_alias(x) if isinstance(x, Tensor) else x for x in results]
        written = [_bytes_at(slot) for slot in dead.items()]
        return FakeGraph(lambda: run(list(read)), again, written), results


def _moved(
    made: list[Any], places: set[int], dead: dict[int, int], pool: list[Tensor]
) -> list[Any]:
    """Results in memory that stays, and that of `dead` first; those at `places` are inputs' own."""
    free, storages, results = list(dead.items()), {}, []
    for result in made:
        if isinstance(result, Tensor) and result.untyped_storage().data_ptr() not in places:
            result.zero_()
            storage = result.untyped_storage()
            if storage.data_ptr() not in storages:
                pool.append(result)
                fit = [slot for slot in free if slot[1] >= storage.nbytes()]
                slot = fit[0] if fit else (storage.data_ptr(), storage.nbytes())
                if fit:
                    free.remove(slot)
                storages[storage.data_ptr()] = _storage_at((slot[0], storage.nbytes()))
            layout = torch_compat.layout_of(result)
            result = torch_compat.tensor_over(storages[storage.data_ptr()], *layout)
        results.append(result)
    return results


def _storage_at(slot: Slot) -> torch.UntypedStorage:
    return torch._C._construct_storage_from_data_pointer(slot[0], torch.device("cpu"), slot[1])


def _bytes_at(slot: Slot) -> Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(_storage_at(slot))


def _alias(x: Tensor) -> Tensor:
    storage = torch_compat.storage_over(x.untyped_storage())
    return torch_compat.tensor_over(storage, *torch_compat.layout_of(x))


def boxed(function: Callable[..., list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """As compiled programs are called: with a list, which is emptied."""

    def call(arguments: list[Any]) -> list[Any]:
        values = list(arguments)
        arguments.clear()
        return function(*values)

    return call


def graphed(
    function: Callable[..., list[Any]],
    static: set[int] = frozenset(),
    written: Any = (),
    keyed: tuple[int, ...] = (),
    reads_last: bool = False,
    **more: Any,
) -> tuple[GraphedProgram, FakeDevice]:
    """The function as a program that is captured, and its device."""
    device = FakeDevice(**more)
    plan = Plan(frozenset(static), frozenset(written), keyed, reads_last=reads_last)
    return GraphedProgram(boxed(function), plan, device), device
