# SPDX-License-Identifier: Apache-2.0
"""Runs the steps of a plan that call back into the job (wire/call_backs.py).

A call of a program with such steps has a frame, which holds its opaque values. The runtime asks for
a step by its number; the frame of the innermost call of this thread runs it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from .. import torch_compat
from ..torch_compat import Boxed
from ..wire.call_backs import CallBack, leaves

if TYPE_CHECKING:  # what it imports beside is not for a process that only runs programs
    from ..wire.exporter import Exported


class _Frames(threading.local):
    def __init__(self) -> None:
        self.stack: list[_Frame] = []


_frames = _Frames()


class _Frame:
    """One call: its opaque values by slot, and what a step raised."""

    def __init__(self, steps: Sequence[CallBack], slots: dict[int, Any]) -> None:
        self.steps = steps
        self.slots = slots
        self.error: BaseException | None = None

    def run(
        self, number: int, tensors: Sequence[torch.Tensor], sizes: Sequence[int]
    ) -> list[torch.Tensor | None]:
        """The results of a step that the plan takes; None in the places of the others."""
        step = self.steps[number]
        given: list[Any] = []
        moved: list[tuple[torch.Tensor, torch.Tensor]] = []  # what it writes, and its copy
        for kind, index in step.takes:
            if kind == "slot":
                given.append(self.slots[index])
            elif kind == "size":
                given.append(sizes[index])
            else:
                tensor, place = tensors[index], step.places.get(index)
                if place is not None:
                    given.append(_copied(tensor, *sizes[place : place + 2]))
                    if index < step.written:
                        moved.append((tensor, given[-1]))
                    continue
                tensor = _alone(tensor) if index in step.places else tensor
                given.append(_of_its_own(tensor) if index in step.copies else tensor)
        for slot in step.drops:
            del self.slots[slot]
        results: list[torch.Tensor | None] = []
        taken = {_memory_of(value) for value in given} - {0}
        values = step.module(*given)
        for tensor, copy in moved:
            tensor.copy_(copy)
        for value, kept in zip(values, step.gives, strict=True):
            if kept is not None:
                self.slots[kept] = value
                results.extend([None] * len(leaves(value)))
            elif isinstance(value, torch.Tensor):
                memory = _memory_of(value)
                results.append(_copied(value) if memory in taken else value)
                taken.add(memory)
            else:
                results.append(None)  # a number, of which the plan has an expression
        return results


def _alone(value: torch.Tensor) -> torch.Tensor:
    """The tensor as all of its storage, though it lies in the plan's memory."""
    if value.storage_offset() == 0:
        return value
    sizes, strides, size = value.shape, value.stride(), value.element_size()
    begin = value.storage_offset() * size
    memory = value.untyped_storage()[begin : begin + _length(value) * size]
    return value.new_empty(0).set_(memory, 0, sizes, strides)


def _length(value: torch.Tensor) -> int:
    """How many elements of its storage lie between its first and its last, with these."""
    if value.numel() == 0:
        return 0
    steps = zip(value.shape, value.stride(), strict=True)
    return 1 + sum((size - 1) * stride for size, stride in steps)


def _of_its_own(value: torch.Tensor) -> torch.Tensor:
    """A copy in memory of its own, of which elements share places as they do in `value`."""
    if not torch_compat.share_memory(value.shape, value.stride()):
        return value.clone()
    once = _unexpanded(value)
    if torch_compat.share_memory(once.shape, once.stride()):  # windows that overlap
        return _copied(value)
    return once.clone().expand(value.shape)


def _unexpanded(value: torch.Tensor) -> torch.Tensor:
    """Each element that is expanded once."""
    for dim, stride in enumerate(value.stride()):
        if stride == 0 and value.shape[dim] > 1:
            value = value.narrow(dim, 0, 1)
    return value


def _copied(value: torch.Tensor, offset: int | None = None, elements: int = 0) -> torch.Tensor:
    """A copy that lies in its memory as the tensor does in its own: what is a view of an argument
    AOTAutograd makes anew, by the sizes, strides and offset of what it is given. offset: where in
    memory it begins, where the tensor does if not given; elements: what the memory has at least."""
    sizes, strides, begin = value.shape, value.stride(), value.storage_offset()
    first = begin if offset is None else offset
    if value.is_conj() or value.is_neg():
        return value.clone()
    length = _length(value)
    memory = value.new_empty(max(first + length, elements))
    once = _unexpanded(value)
    if torch_compat.share_memory(once.shape, once.stride()):  # windows that overlap
        memory[first : first + length].copy_(value.as_strided((length,), (1,), begin))
    else:
        memory.as_strided(once.shape, once.stride(), first).copy_(once)
    return memory.as_strided(sizes, strides, first)


def _memory_of(value: Any) -> int:
    """The address of a dense tensor's storage; 0 for what has none."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return 0
    return value.untyped_storage().data_ptr()


def run_step(
    number: int, tensors: Sequence[torch.Tensor], sizes: Sequence[int]
) -> list[torch.Tensor | None]:
    """What the runtime asks for; below autograd and autocast, as every operator of a plan."""
    frame = _frames.stack[-1]
    try:
        with torch_compat.below_autograd():
            return frame.run(number, tensors, sizes)
    except BaseException as error:
        frame.error = error
        raise


def with_call_backs(program: Boxed, exported: Exported) -> Boxed:
    """A program, as a function of the call's arguments, that runs the call-backs of its graph.

    What a step raises comes out of the call as it was raised.
    """
    steps, opaque, returns = exported.call_backs, exported.opaque, exported.returns

    def call(arguments: list[Any]) -> Any:
        frame = _Frame(steps, {slot: arguments[number] for number, slot in opaque.items()})
        _frames.stack.append(frame)
        try:
            outputs = iter(program(arguments))
        except Exception:
            if frame.error is not None:
                raise frame.error from None
            raise
        finally:
            _frames.stack.pop()
        return [next(outputs) if slot is None else frame.slots[slot] for slot in returns]

    return call
