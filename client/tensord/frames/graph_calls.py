# SPDX-License-Identifier: Apache-2.0
"""Runs the captured graphs of a frame: what AOTAutograd would make of them, of GraphCall messages.

Programs of the native extension are called by its GraphCall (_native/graph_call.h), with no frame
of Python between a frame's code and its kernels. Others are called from here.
"""

from __future__ import annotations

import copy
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from .. import data_checks, philox  # noqa: F401  register operators that programs call
from ..bridge.compiled_graph import Program, count, load
from ..counters import STATS
from ..torch_compat.dispatch import errors_behind
from ..torch_compat.eval_frame import set_callback, without_hook
from ..torch_compat.stance import compiles_autograd
from ..v1 import frame_pb2, graph_pb2, requests_pb2
from ..wire import rpc, target
from ..wire.caller import caller
from . import native

log = logging.getLogger("tensord")

# By its arguments, in a list that it empties.
_Run = Callable[[list[Any]], list[Any]]


class _Pending:
    """A program that was asked for."""

    def __init__(self, message: frame_pb2.FrameProgram, label: str) -> None:
        self._message = message
        request = requests_pb2.CompileRequest(
            graph=message.graph,
            target=target.detect(cuda_index(message.graph)),
            options=message.options,
            caller=caller(),
            label=label,
        )
        self._call = rpc.client().compile(request)

    def has_come(self) -> bool:
        """Whether `loaded` waits no more."""
        try:
            return self._call.answered()
        except Exception as error:  # which waiting meets, or gets over
            log.debug("tensord: no look at the compile of a frame's program: %r", error)
            return True

    def loaded(self) -> _Loaded:
        """Waits for it; raises a TensordError."""
        asked = self._call.spans
        with STATS.timed("wait_seconds"), asked.timed("wait"):
            reply = self._call.wait()
        count(reply)
        with asked.timed("load"):
            program = load(reply)
        asked.done()  # its calls are the native extension's
        return _Loaded(program, tuple(self._message.inputs), self._message.arguments)


@dataclass(frozen=True)
class _Loaded:
    """A program and the arguments of its graph that it takes, by number, of how many."""

    program: Program
    inputs: tuple[int, ...]
    arguments: int

    def is_native(self) -> bool:
        extension = native.extension()
        return extension is not None and type(self.program) is extension.Program

    def for_native(self) -> tuple[Program, tuple[int, ...], int]:
        return (self.program, self.inputs, self.arguments)

    def run(self) -> _Run:
        if len(self.inputs) == self.arguments and self.inputs == tuple(range(self.arguments)):
            return self.program

        def run(arguments: list[Any]) -> list[Any]:
            inputs = [arguments[number] for number in self.inputs]
            arguments.clear()
            results: list[Any] = self.program(inputs)
            return results

        return run


def cuda_index(graph: graph_pb2.Graph) -> int | None:
    """The device that the graph's program is for; None: the CPU. Also a graph that is given nothing
    on a GPU may make something there."""
    metas = itertools.chain(
        (one.tensor for one in graph.inputs if one.HasField("tensor")),
        (one.meta for one in graph.constants),
        (meta for node in graph.nodes for meta in node.outputs),
    )
    on_cuda = any(meta.device == graph_pb2.DEVICE_TYPE_CUDA for meta in metas)
    return torch.cuda.current_device() if on_cuda else None


class Starting:
    """The programs of one graph, compiled side by side."""

    def __init__(self, message: frame_pb2.GraphCall) -> None:
        """Asks for the programs; raises a TensordError, or ValueError for a malformed message."""
        _check(message)
        self._message = message
        names = [n for n in ("inference", "forward", "backward") if message.HasField(n)]
        self._pending = {name: _Pending(getattr(message, name), name) for name in names}

    def have_come(self) -> bool:
        """Whether `callable` waits no more."""
        return all(pending.has_come() for pending in self._pending.values())

    def callable(self) -> Callable[..., Any]:
        """The graph's function of its arguments, once the programs are there; raises a
        TensordError."""
        programs = {name: pending.loaded() for name, pending in self._pending.items()}
        natively = all(program.is_native() for program in programs.values())
        if natively and not ("forward" in programs and compiles_autograd()):
            return _natively(self._message, programs)
        return _in_python(self._message, programs)


def _check(message: frame_pb2.GraphCall) -> None:
    """What the daemon checks too, for all that is made below is as long as these numbers say."""
    if message.HasField("forward") != message.HasField("backward"):
        raise ValueError("a program of forward and backward has not the other")
    saved = message.saved_tensors + message.saved_numbers
    wanted = {"inference": message.results, "forward": message.results + saved}
    firsts = [name for name in wanted if message.HasField(name)]
    if not firsts:
        raise ValueError("there is neither an inference nor a forward program")
    for name in firsts:
        if wanted[name] > len(getattr(message, name).graph.outputs):
            raise ValueError(f"{wanted[name]} results are more than its {name} program gives")


def _natively(message: frame_pb2.GraphCall, programs: dict[str, _Loaded]) -> Callable[..., Any]:
    """A GraphCall of the native extension."""
    training = None
    if "forward" in programs:
        training = _training_for_native(message, programs["backward"])
    first = programs["forward" if training is not None else "inference"]
    among, views = _whole_arguments(message), _views(message)
    call: Callable[..., Any] = native.extension().GraphCall(
        set_callback, first.for_native(), tuple(message.changed_arguments),
        among if any(among) else (), tuple(views) if any(views) else (), message.hidden_results,
        training,
    )  # fmt: skip
    return call


def _whole_arguments(message: frame_pb2.GraphCall) -> tuple[int, ...]:
    """By result: the argument that it is, plus one; 0 for others, and for views."""
    is_view = (*message.result_is_view, *[False] * message.results)
    return tuple(
        0 if view else argument
        for argument, view in zip(message.result_is_argument, is_view, strict=False)
    )


# Whether it is a view of a result, not of an argument; the number of that; whether it requires a
# gradient.
_View = tuple[bool, int, bool]


def _views(message: frame_pb2.GraphCall) -> list[_View | None]:
    """By result, what it is a view of; None for what is of its own."""
    wants = (*message.result_requires_grad, *[True] * message.results)
    found: list[_View | None] = [None] * message.results
    for result, is_view in enumerate(message.result_is_view):
        if is_view:
            found[result] = (False, message.result_is_argument[result] - 1, wants[result])
    for result, base in enumerate(message.result_is_view_of):
        if base:
            found[result] = (True, base - 1, wants[result])
    return found


def _training_for_native(message: frame_pb2.GraphCall, backward: _Loaded) -> tuple[Any, ...]:
    tangents = tuple(message.tangents)
    wants = (*message.result_requires_grad, *[True] * message.results)[: message.results]
    layouts = (*map(_layout_for_native, message.tangent_layouts), *[None] * len(tangents))
    with_all = _with_all(message)
    return (
        backward.for_native(), message.results, message.saved_tensors, wants, tangents,
        layouts[: len(tangents)],
        tuple(message.tangent_absent) or (False,) * len(tangents),
        None if with_all is None else lambda: _Pending(with_all, "backward").loaded().for_native(),
    )  # fmt: skip


def _with_all(message: frame_pb2.GraphCall) -> frame_pb2.FrameProgram | None:
    """The backward that takes every gradient, alone: kept with the graph, it would keep the whole
    frame's memory."""
    if not message.HasField("backward_with_all"):
        return None
    return copy.deepcopy(message.backward_with_all)


def _layout_for_native(message: frame_pb2.TangentLayout) -> object:
    if message.memory_format:
        return getattr(torch, message.memory_format)
    if not message.sizes and not message.strides:
        return None
    return (tuple(message.sizes), tuple(message.strides))


def _in_python(message: frame_pb2.GraphCall, programs: dict[str, _Loaded]) -> Callable[..., Any]:
    if "forward" in programs:
        function = _training(message, programs["forward"].run(), programs["backward"].run())
    else:
        function = _inference(message, programs["inference"].run())
    return without_hook(function)


def _inference(message: frame_pb2.GraphCall, program: _Run) -> Callable[..., Any]:
    note_changes, finished = _changes(message), _finished(message)
    if note_changes is None and finished is None:
        return lambda *arguments: program(list(arguments))

    def run(*arguments: Any) -> Any:
        if note_changes is not None:
            note_changes(arguments)
        results = program(list(arguments))
        return finished(results, arguments) if finished else results

    return run


def _changes(message: frame_pb2.GraphCall) -> Callable[[Sequence[Any]], None] | None:
    """Tells autograd which arguments the graph changes; None where it changes none."""
    changed = tuple(message.changed_arguments)
    if not changed:
        return None
    return lambda arguments: torch.autograd.graph.increment_version([arguments[i] for i in changed])


@dataclass(frozen=True)
class _Unseen:
    """A tensor that autograd is not to see among a function's results."""

    tensor: torch.Tensor


def _finished(
    message: frame_pb2.GraphCall,
) -> Callable[[Sequence[Any], Sequence[Any]], list[Any]] | None:
    """What makes the results of the call from those of its program: with the arguments among them,
    and with views. None where they are the same."""
    whole, views = _whole_arguments(message), _views(message)
    shown = message.results - message.hidden_results
    if not any(whole) and not any(views):
        return None

    def finished(made: Sequence[Any], arguments: Sequence[Any]) -> list[Any]:
        results = list(made[:shown])
        for i, argument in enumerate(whole[:shown]):
            if argument:
                results[i] = arguments[argument - 1]
        for i, view in enumerate(views[:shown]):
            if view is not None:
                of_result, number, requires_grad = view
                base = (made if of_result else arguments)[number]
                lies = made[i].tensor if isinstance(made[i], _Unseen) else made[i]
                results[i] = _view_of(base, lies, requires_grad)
        return results

    return finished


def _view_of(base: torch.Tensor, made: torch.Tensor, requires_grad: bool) -> torch.Tensor:
    """A view of a tensor that lies as what the program made of it does."""
    start = made.data_ptr() - base.untyped_storage().data_ptr()
    offset = start // made.element_size() if made.numel() else made.storage_offset()
    view = base.as_strided(made.shape, made.stride(), offset)
    if base.requires_grad and not requires_grad:
        return view.detach()
    return view.requires_grad_() if requires_grad and not base.requires_grad else view


@dataclass(frozen=True)
class _Zeros:
    """What a gradient is made like that does not come. How the result lies that it is of says
    nothing of how backward wants it."""

    size: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def like(cls, tensor: torch.Tensor) -> _Zeros:
        return cls(tuple(tensor.shape), tensor.dtype, tensor.device)

    def make(self) -> torch.Tensor:
        return torch.zeros(self.size, dtype=self.dtype, device=self.device)


class _Backward:
    """The backward programs of a graph: the expected one, and one that takes every gradient."""

    def __init__(self, message: frame_pb2.GraphCall, expected: _Run) -> None:
        self._expected = expected
        self._tangents = tuple(message.tangents)
        self._layouts = [_layout(layout) for layout in message.tangent_layouts]
        self._absent = tuple(message.tangent_absent) or (False,) * len(self._tangents)
        self._with_all = _with_all(message)
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
            if i < len(self._layouts) and (arrange := self._layouts[i]) is not None:
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


def _training(message: frame_pb2.GraphCall, forward: _Run, backward: _Run) -> Callable[..., Any]:
    function = _autograd_function(message, forward, backward)
    note_changes, finished = _changes(message), _finished(message)

    def run(*arguments: Any) -> Any:
        if note_changes is not None:
            note_changes(arguments)
        with torch.enable_grad():
            results = function(*arguments)
        return finished(results, arguments) if finished else results

    return run


def _once(gradients: Sequence[torch.Tensor | None]) -> tuple[torch.Tensor | None, ...]:
    """The gradients, through which autograd goes back to an error: there is no program for that."""
    message = "a function compiled by tensord does not support double backward"
    return errors_behind(gradients, message)


def _autograd_function(
    message: frame_pb2.GraphCall, forward: _Run, backward: _Run
) -> Callable[..., Any]:
    count, first_number = message.results, message.results + message.saved_tensors
    # Autograd would take an argument among its own results for one that is changed.
    handed_through = [i for i, argument in enumerate(_whole_arguments(message)) if argument]
    views = [i for i, view in enumerate(_views(message)) if view is not None]
    without_gradient = [i for i, wants in enumerate(message.result_requires_grad) if not wants]
    run_backward = _Backward(message, backward)

    class Graph(torch.autograd.Function):
        """One captured graph, forward and backward."""

        @staticmethod
        def forward(ctx: Any, *arguments: Any) -> Any:
            made = forward(list(arguments))
            results = made[:count]
            for i in handed_through:
                results[i] = None
            for i in views:
                results[i] = _Unseen(results[i])
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
            with torch.no_grad():
                made = run_backward([*ctx.numbers, *ctx.saved_tensors], gradients, ctx.zeros)
            return _once(made) if torch.is_grad_enabled() else tuple(made)

    apply: Callable[..., Any] = Graph.apply
    return apply
