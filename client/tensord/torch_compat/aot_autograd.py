# SPDX-License-Identifier: Apache-2.0
"""AOTAutograd as a backend, and what it knows of gradients."""

from __future__ import annotations

import contextlib
import functools
import os
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx


def autograd(**compilers: Any) -> Callable[[fx.GraphModule, Any], Any]:
    """AOTAutograd as a backend of Dynamo, with the arguments of torch's aot_autograd.

    2.11 to 2.13: that imports TorchInductor's scheduler to write files under TORCH_COMPILE_DEBUG=1,
    a tenth of a second and more of a process's first graph. What it does otherwise is done here but
    for inputs that are not flat.
    """
    from torch._dynamo import disable
    from torch._dynamo.backends.common import aot_autograd
    from torch._dynamo.exc import TensorifyScalarRestartAnalysis
    from torch._dynamo.utils import counters
    from torch._functorch.aot_autograd import aot_module_simplified

    def backward(*arguments: Any, **named: Any) -> Any:
        """Neither the compiler nor what it returns is for Dynamo to trace."""
        return disable(disable(compilers["bw_compiler"])(*arguments, **named))

    def run(module: fx.GraphModule, inputs: Any) -> Any:
        nested = any(isinstance(x, (list, tuple, dict)) for x in inputs)
        if nested or os.environ.get("TORCH_COMPILE_DEBUG", "0") == "1":
            return aot_autograd(**compilers)(module, inputs)
        count = counters["aot_autograd"]
        count["total"] += 1
        try:
            done = aot_module_simplified(module, inputs, **{**compilers, "bw_compiler": backward})
        except TensorifyScalarRestartAnalysis:
            raise  # Dynamo begins again
        except Exception:
            count["not_ok"] += 1
            raise
        count["ok"] += 1
        return disable(done)

    return run


def lower_backward_early() -> contextlib.AbstractContextManager[Any]:
    """Has AOTAutograd hand over the backward graph together with the forward one.

    Without the setting (before 2.7) the backward graph comes at the first backward call.
    """
    from torch._functorch import config

    if hasattr(config, "force_non_lazy_backward_lowering"):
        return config.patch(force_non_lazy_backward_lowering=True)
    return contextlib.nullcontext()


def _forward_metadata() -> Any:
    """AOTAutograd's own, of the capture under way; None where there is none."""
    return getattr(torch._guards.TracingContext.try_get(), "fw_metadata", None)


def _of_forward(name: str) -> Any:
    """What AOTAutograd notes of the forward graph of the capture under way; an empty sequence where
    it notes nothing."""
    return getattr(_forward_metadata(), name, None) or ()


def take_donations() -> frozenset[int]:
    """Arguments of the backward graph that is there now whose memory forward made and returns to
    nobody else, by number.

    Also lets backward run twice (retain_graph): 2.11 to 2.13 refuse that where they found such
    tensors, and programs look for themselves, each time, whether somebody has them. Where
    subclasses of tensors are taken apart, it is refused as before.
    """
    donated = _of_forward("bw_donated_idxs")
    if not donated:
        return frozenset()
    _forward_metadata().bw_donated_idxs = []
    # 2.11 to 2.13: the numbers do not count tokens of effects, which are forward's first results,
    # nor, in some versions, objects that are no tensors.
    counts = ("tokens", "num_opaque_objects_saved_for_bw")
    return frozenset() if any(map(_of_forward, counts)) else frozenset(donated)


def gradients_may_be_absent(count: int) -> bool:
    """True when the backward graph under way, which takes `count` gradients, can be called with
    None for one: 2.11 to 2.13 pass None on as it is, where AOTAutograd takes no subclasses of
    tensors apart."""
    kinds = _of_forward("subclass_tangent_meta")
    return len(kinds) == count and all(type(kind).__name__ == "PlainTensorMeta" for kind in kinds)


def backward_node(tensor: Any) -> Any:
    """The autograd node of a graph that AOTAutograd compiled, where the tensor is its result and
    the graph takes no subclasses of tensors; else None."""
    node = getattr(tensor, "grad_fn", None)
    if type(node).__name__ != "CompiledFunctionBackward":
        return None
    function = getattr(type(node), "_forward_cls", None)
    return node if getattr(function, "maybe_subclass_metadata", function) is None else None


# Nodes whose backward is called with None, while they live: number to weak reference. Each change
# is one operation of a dict, for they go in any thread.
_WITHOUT_ZEROS: dict[int, weakref.ref[Any]] = {}


def make_no_zeros(node: Any) -> None:
    """Has autograd call such a node's backward with None for a gradient that does not come."""
    node.materialize_grads = False
    key = id(node)
    _WITHOUT_ZEROS[key] = weakref.ref(node, lambda _: _WITHOUT_ZEROS.pop(key, None))


def make_zeros_for_compiled_autograd() -> None:
    """From now on compiled autograd, which traces AOTAutograd's own backward, gets zeros again."""
    from torch._dynamo.compiled_autograd import AutogradCompilerInstance as Tracer

    begin = Tracer.begin_capture
    if getattr(begin, "_makes_zeros", False):
        return

    @functools.wraps(begin)
    def begin_capture(*arguments: Any, **named: Any) -> Any:
        for reference in list(_WITHOUT_ZEROS.values()):
            if (node := reference()) is not None:
                node.materialize_grads = True
        return begin(*arguments, **named)

    begin_capture._makes_zeros = True  # type: ignore[attr-defined]
    Tracer.begin_capture = begin_capture  # type: ignore[method-assign]


def static_input_indices() -> set[int]:
    """Inputs of the forward or inference graph that keep their address (parameters, buffers)."""
    return {index for index in _of_forward("static_input_indices") if index >= 0}


@dataclass(frozen=True)
class ForwardResults:
    """What results of the forward or inference graph are, by their numbers: argument numbers.

    views: of which arguments AOTAutograd makes them anew, as views; only of that they are said to
    be, how they lie. values: into which arguments it copies them.
    """

    views: dict[int, int] = field(default_factory=dict)
    values: dict[int, int] = field(default_factory=dict)


def results_of_forward() -> ForwardResults:
    """Of the capture under way. Nothing where the graph takes subclasses of tensors apart."""
    kinds = (*_of_forward("subclass_inp_meta"), *_of_forward("subclass_fw_graph_out_meta"))
    if any(type(kind).__name__ != "PlainTensorMeta" for kind in kinds):
        return ForwardResults()
    tokens = len(_of_forward("tokens"))
    changed = _of_forward("mutated_inp_runtime_indices")
    arguments = _of_forward("input_info")
    first = tokens + len(changed)
    return ForwardResults(
        views={
            first + number: tokens + info.base_idx
            for number, info in enumerate(_of_forward("output_info"))
            if info.output_type.name == "alias_of_input"
            and not arguments[info.base_idx].mutates_metadata  # it lies otherwise by then
        },
        values={tokens + number: tokens + argument for number, argument in enumerate(changed)},
    )


_VIEW_TRACKING = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)


@contextlib.contextmanager
def below_autograd() -> Iterator[None]:
    """A block whose operators run below autograd, autocast and view tracking: a view of a parameter
    would say that it requires a gradient."""
    with (
        torch._C._DisableAutocast(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(_VIEW_TRACKING),
    ):
        yield
