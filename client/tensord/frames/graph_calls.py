# SPDX-License-Identifier: Apache-2.0
"""Runs the captured graphs of a frame: what AOTAutograd would make of them, of GraphCall messages.

Programs of the native extension are called by its GraphCall (_native/graph_call.h), with no frame
of Python between a frame's code and its kernels. Others are called from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import philox  # noqa: F401  registers operators that programs call
from ..bridge.compiled_graph import Program, count, load
from ..counters import STATS
from ..torch_compat.eval_frame import set_callback, without_hook
from ..torch_compat.stance import compiles_autograd
from ..v1 import frame_pb2, graph_pb2, service_pb2
from ..wire import rpc, target
from ..wire.caller import caller
from . import native

# By its arguments, in a list that it empties.
_Run = Callable[[list[Any]], list[Any]]


class _Pending:
    """A program that was asked for."""

    def __init__(self, message: frame_pb2.FrameProgram, label: str) -> None:
        self._message = message
        request = service_pb2.CompileRequest(
            graph=message.graph,
            target=target.detect(_cuda_index(message.graph)),
            options=message.options,
            caller=caller(),
            label=label,
        )
        self._call = rpc.client().compile(request)

    def loaded(self) -> _Loaded:
        """Waits for it; raises a TensordError."""
        with STATS.timed("wait_seconds"):
            reply = self._call.wait()
        count(reply)
        return _Loaded(load(reply), tuple(self._message.inputs), self._message.arguments)


@dataclass(frozen=True)
class _Loaded:
    """A program and the arguments of its graph that it takes, by number, of how many."""

    program: Program
    inputs: tuple[int, ...]
    arguments: int

    def is_native(self) -> bool:
        return type(self.program) is native.module().Program

    def for_native(self) -> tuple[Program, tuple[int, ...], int]:
        return (self.program, self.inputs, self.arguments)

    def run(self) -> _Run:
        if self.inputs == tuple(range(self.arguments)):
            return self.program

        def run(arguments: list[Any]) -> list[Any]:
            inputs = [arguments[number] for number in self.inputs]
            arguments.clear()
            results: list[Any] = self.program(inputs)
            return results

        return run


def _cuda_index(graph: graph_pb2.Graph) -> int | None:
    on_cuda = any(
        i.HasField("tensor") and i.tensor.device == graph_pb2.DEVICE_TYPE_CUDA for i in graph.inputs
    )
    return torch.cuda.current_device() if on_cuda else None


class Starting:
    """The programs of one graph, compiled side by side."""

    def __init__(self, message: frame_pb2.GraphCall) -> None:
        """Asks for the programs; raises a TensordError."""
        self._message = message
        names = [n for n in ("inference", "forward", "backward") if message.HasField(n)]
        self._pending = {name: _Pending(getattr(message, name), name) for name in names}

    def callable(self) -> Callable[..., Any]:
        """The graph's function of its arguments, once the programs are there; raises a
        TensordError."""
        programs = {name: pending.loaded() for name, pending in self._pending.items()}
        natively = all(program.is_native() for program in programs.values())
        if natively and not ("forward" in programs and compiles_autograd()):
            return _natively(self._message, programs)
        return _in_python(self._message, programs)


def _natively(message: frame_pb2.GraphCall, programs: dict[str, _Loaded]) -> Callable[..., Any]:
    """A GraphCall of the native extension."""
    training = None
    if "forward" in programs:
        training = _training_for_native(message, programs["backward"])
    first = programs["forward" if training is not None else "inference"]
    among = tuple(message.result_is_argument)
    views = tuple(_requires_grad_of_views(message))
    call: Callable[..., Any] = native.module().GraphCall(
        set_callback, first.for_native(), tuple(message.changed_arguments),
        among if any(among) else (), views if any(message.result_is_view) else (), training,
    )  # fmt: skip
    return call


def _requires_grad_of_views(message: frame_pb2.GraphCall) -> list[bool | None]:
    """By result: whether one that is a view of an argument requires a gradient; None for others."""
    views = (*message.result_is_view, *[False] * message.results)[: message.results]
    wants = (*message.result_requires_grad, *[True] * message.results)
    return [wants[i] if view else None for i, view in enumerate(views)]


def _training_for_native(message: frame_pb2.GraphCall, backward: _Loaded) -> tuple[Any, ...]:
    tangents = tuple(message.tangents)
    wants = (*message.result_requires_grad, *[True] * message.results)[: message.results]
    layouts = (*map(_layout_for_native, message.tangent_layouts), *[None] * len(tangents))
    with_all = message.backward_with_all if message.HasField("backward_with_all") else None
    return (
        backward.for_native(), message.results, message.saved_tensors, wants, tangents,
        layouts[: len(tangents)],
        tuple(message.tangent_absent) or (False,) * len(tangents),
        None if with_all is None else lambda: _Pending(with_all, "backward").loaded().for_native(),
    )  # fmt: skip


def _layout_for_native(message: frame_pb2.TangentLayout) -> object:
    if message.memory_format:
        return getattr(torch, message.memory_format)
    if not message.sizes and not message.strides:
        return None
    return (tuple(message.sizes), tuple(message.strides))


def _in_python(message: frame_pb2.GraphCall, programs: dict[str, _Loaded]) -> Callable[..., Any]:
    if "forward" in programs:
        backward = programs.get("backward")
        forward = programs["forward"].run()
        function = _training(message, forward, None if backward is None else backward.run())
    else:
        function = _inference(message, programs["inference"].run())
    return without_hook(function)


def _inference(message: frame_pb2.GraphCall, program: _Run) -> Callable[..., Any]:
    note_changes, with_arguments = _changes(message), _arguments_among_results(message)
    if note_changes is None and with_arguments is None:
        return lambda *arguments: program(list(arguments))

    def run(*arguments: Any) -> Any:
        if note_changes is not None:
            note_changes(arguments)
        results = program(list(arguments))
        return with_arguments(results, arguments) if with_arguments else results

    return run


def _changes(message: frame_pb2.GraphCall) -> Callable[[Sequence[Any]], None] | None:
    """Tells autograd which arguments the graph changes; None where it changes none."""
    changed = tuple(message.changed_arguments)
    if not changed:
        return None
    return lambda arguments: torch.autograd.graph.increment_version([arguments[i] for i in changed])


def _arguments_among_results(
    message: frame_pb2.GraphCall,
) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]] | None:
    """Puts arguments among a graph's results that it returns as they are; None where there are
    none."""
    numbers = tuple(message.result_is_argument)
    if not any(numbers):
        return None
    views = _requires_grad_of_views(message)

    def of(argument: Any, made: Any, requires_grad: bool | None) -> Any:
        return argument if requires_grad is None else _view_of(argument, made, requires_grad)

    return lambda results, arguments: [
        of(arguments[number - 1], one, view) if number else one
        for one, number, view in zip(results, numbers, views, strict=True)
    ]


def _view_of(base: torch.Tensor, made: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A view of an argument that lies as what the program made of it does."""
    start = made.data_ptr() - base.untyped_storage().data_ptr()
    offset = start // made.element_size() if made.numel() else made.storage_offset()
    view = base.as_strided(made.shape, made.stride(), offset)
    if base.requires_grad and not requires_grad:
        return view.detach()
    return view.requires_grad_() if requires_grad and not base.requires_grad else view


@dataclass(frozen=True)
class _Zeros:
    """What a gradient is made like that does not come."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def like(cls, tensor: torch.Tensor) -> _Zeros:
        return cls(tuple(tensor.shape), tensor.stride(), tensor.dtype, tensor.device)

    def make(self) -> torch.Tensor:
        return torch.empty_strided(
            self.size, self.stride, dtype=self.dtype, device=self.device
        ).zero_()


class _Backward:
    """The backward programs of a graph: the expected one, and one that takes every gradient."""

    def __init__(self, message: frame_pb2.GraphCall, expected: _Run) -> None:
        self._expected = expected
        self._tangents = tuple(message.tangents)
        self._layouts = [_layout(layout) for layout in message.tangent_layouts]
        self._absent = tuple(message.tangent_absent) or (False,) * len(self._tangents)
        self._with_all = (
            message.backward_with_all if message.HasField("backward_with_all") else None
        )
        self._whole: _Run | None = None

    def __call__(self, saved: list[Any], gradients: Sequence[Any], zeros: Sequence[_Zeros]) -> Any:
        """saved: numbers, then tensors. gradients, zeros: by result."""
        given = [gradients[result] for result in self._tangents]
        as_expected = self._with_all is None or not any(
            absent and one is not None for absent, one in zip(self._absent, given, strict=True)
        )
        for i, result in enumerate(self._tangents):
            if given[i] is None:
                if self._with_all is not None and as_expected and self._absent[i]:
                    continue
                given[i] = zeros[result].make()
            elif i < len(self._layouts) and (arrange := self._layouts[i]) is not None:
                given[i] = arrange(given[i])
        run = self._expected if as_expected else self._all()
        saved.extend(given)
        return run(saved)

    def _all(self) -> _Run:
        if self._whole is None:
            assert self._with_all is not None
            self._whole = _Pending(self._with_all, "backward").loaded().run()
        return self._whole


def _layout(message: frame_pb2.TangentLayout) -> Callable[[torch.Tensor], torch.Tensor] | None:
    """What makes a gradient lie as backward wants it."""
    if message.memory_format:
        memory_format = getattr(torch, message.memory_format)
        return lambda tensor: tensor.contiguous(memory_format=memory_format)
    if not message.sizes and not message.strides:
        return None
    sizes, strides = tuple(message.sizes), tuple(message.strides)

    def arrange(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.stride() == strides:
            return tensor
        moved = torch.empty_strided(sizes, strides, dtype=tensor.dtype, device=tensor.device)
        return moved.copy_(tensor)

    return arrange


def _training(
    message: frame_pb2.GraphCall, forward: _Run, backward: _Run | None
) -> Callable[..., Any]:
    function = _autograd_function(message, forward, backward)
    note_changes, with_arguments = _changes(message), _arguments_among_results(message)

    def run(*arguments: Any) -> Any:
        if note_changes is not None:
            note_changes(arguments)
        with torch.enable_grad():
            results = function(*arguments)
        return with_arguments(results, arguments) if with_arguments else results

    return run


def _once(gradients: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
    """The gradients, through which autograd goes back to an error: there is no program for that."""
    message = b"a function compiled by tensord does not support double backward"
    error = torch._C._functions.DelayedError(message, len(gradients))
    begun = [one if one is None else one.detach().requires_grad_() for one in gradients]
    made: tuple[torch.Tensor | None, ...] = error(*begun)  # type: ignore[arg-type]
    return made


def _autograd_function(
    message: frame_pb2.GraphCall, forward: _Run, backward: _Run | None
) -> Callable[..., Any]:
    count, first_number = message.results, message.results + message.saved_tensors
    # Autograd would take an argument among its own results for one that is changed.
    handed_through = [i for i, argument in enumerate(message.result_is_argument) if argument]
    without_gradient = [i for i, wants in enumerate(message.result_requires_grad) if not wants]
    run_backward = _Backward(message, backward) if backward is not None else None

    class Graph(torch.autograd.Function):
        """One captured graph, forward and backward."""

        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            made = forward(list(arguments))
            results = made[:count]
            for i in handed_through:
                results[i] = None
            tensors = [one if isinstance(one, torch.Tensor) else None for one in results]
            ctx.save_for_backward(*made[count:first_number])
            ctx.numbers = made[first_number:]
            ctx.zeros = [one if one is None else _Zeros.like(one) for one in tensors]
            ctx.mark_non_differentiable(
                *(t for i in without_gradient if (t := tensors[i]) is not None)
            )
            ctx.set_materialize_grads(False)
            return tuple(results)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            assert run_backward is not None
            with torch.no_grad():
                made = run_backward([*ctx.numbers, *ctx.saved_tensors], gradients, ctx.zeros)
            return _once(made) if torch.is_grad_enabled() else tuple(made)

    apply: Callable[..., Any] = Graph.apply
    return apply
