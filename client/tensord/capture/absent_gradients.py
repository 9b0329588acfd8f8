"""Gradients that never come: those of what a training graph returns beside its loss.

A captured model returns more than its loss (logits, hidden states), and nothing is done with that
in training. For each such result autograd hands backward a tensor of zeros as large as the result,
and backward adds it to what comes from the loss. For logits over a vocabulary that is hundreds of
MiB to fill, to hold where memory is scarcest, and to read.

Here autograd is told to make none, and backward is compiled for what is to be expected: where
there is a scalar, a loss, gradients come for scalars alone. A call that has others needs another
program, which is compiled then; it also serves the calls after it.
"""

from __future__ import annotations

import copy
import os
import re
import threading
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any

import torch
from torch import fx

from .. import fallback, torch_compat
from ..bridge.compiled_graph import Boxed
from ..buffers import place_like
from ..counters import STATS
from ..passes.insertion import add_call, fake_mode_of
from . import garbage_collection

_aten = torch.ops.aten
# AOTAutograd's names for the gradients that backward gets.
_TANGENT = re.compile(r"tangents_\d+$")
# Operators that give zeros for zeros, whatever their other arguments are.
_LINEAR = (
    _aten._to_copy.default,
    _aten._unsafe_view.default,
    _aten.clone.default,
    _aten.expand.default,
    _aten.neg.default,
    _aten.permute.default,
    _aten.reshape.default,
    _aten.slice.Tensor,
    _aten.slice_backward.default,
    _aten.squeeze.dim,
    _aten.sum.dim_IntList,
    _aten.t.default,
    _aten.transpose.int,
    _aten.unsqueeze.default,
    _aten.view.default,
)

# Held while the program for a backward call with all gradients is compiled.
_COMPILING = threading.Lock()


def _renew_lock() -> None:
    global _COMPILING
    _COMPILING = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_renew_lock)


class AbsentGradients:
    """Of one captured graph: its backward without the gradients that do not come."""

    def __init__(self) -> None:
        self._takes_none = False
        self._node_type: type | None = None  # each compiled graph has one of its own

    def spared(self, forward: Callable[..., Any]) -> Callable[..., Any]:
        """The graph's callable, behind which autograd makes no zeros where backward wants none;
        `forward`: as AOTAutograd made it, with both graphs."""
        if not self._takes_none:
            return forward

        def call(*arguments: Any) -> Any:
            others = () if self._node_type else _node_types(arguments)
            results = forward(*arguments)
            self._spare(results, others)
            return results

        return call

    def _spare(self, results: Iterable[Any], others: Container[type]) -> None:
        """others: types of nodes that are not this graph's: a result may be an argument."""
        for result in results:
            node = torch_compat.backward_node(result)
            if node is None or type(node) in others:
                continue
            if self._node_type is None:
                self._node_type = type(node)
            if type(node) is self._node_type:
                torch_compat.make_no_zeros(node)
                return

    def backward(
        self, module: fx.GraphModule, compile_graph: Callable[[fx.GraphModule], Boxed]
    ) -> Boxed:
        """Compiles a backward graph of AOTAutograd's; where gradients of it are likely to be
        absent, without them."""
        tangents = _tangents(module)
        absent = _expected(tangents)
        if not absent or not torch_compat.gradients_may_be_absent(len(tangents)):
            return compile_graph(module)
        torch_compat.make_zeros_for_compiled_autograd()
        whole = copy.deepcopy(module.graph)

        def compile_whole() -> Boxed:
            with garbage_collection.waits():
                return compile_graph(fx.GraphModule(module, whole))

        try:
            without(module, absent)
        except Exception as error:
            fallback.note(error, "a pass over the backward graph", "is left out")
            return compile_whole()
        STATS.add("gradients_absent", len(absent))
        self._takes_none = True
        return _Backward(tangents, absent, compile_graph(module), compile_whole).callable()


def _node_types(arguments: Iterable[Any]) -> set[type]:
    leaves = torch.utils._pytree.tree_leaves(arguments)
    return {type(node) for node in map(torch_compat.backward_node, leaves) if node is not None}


class _Backward:
    """A backward graph's program without some gradients, and the one with all, once it is asked
    for. tangents: by their arguments' numbers."""

    def __init__(
        self,
        tangents: dict[int, torch.Tensor],
        absent: Sequence[int],
        expected: Boxed,
        compile_whole: Callable[[], Boxed],
    ) -> None:
        self._tangents = tangents
        self._absent = absent
        self._expected = expected
        self._compile_whole: Callable[[], Boxed] | None = compile_whole
        self._whole: Boxed | None = None

    def callable(self) -> Boxed:
        """Takes AOTAutograd's boxed list of arguments."""

        @torch_compat.takes_list
        def call(arguments: list[Any]) -> Any:
            as_expected = all(arguments[i] is None for i in self._absent)
            # Others may be missing as well: of a second loss that nothing was done with.
            for i, like in self._tangents.items():
                if arguments[i] is None and not (as_expected and i in self._absent):
                    arguments[i] = place_like(like).zero_()
            if as_expected:
                return self._expected(arguments)
            return (self._whole or self._get_whole())(arguments)

        return call

    def _get_whole(self) -> Boxed:
        with _COMPILING:
            if self._whole is None:
                assert self._compile_whole is not None
                self._whole = self._compile_whole()
                self._compile_whole = None  # and the graph that it holds
            return self._whole


def _tangents(module: fx.GraphModule) -> dict[int, torch.Tensor]:
    """The gradients that a backward graph takes, by their arguments' numbers."""
    placeholders = module.graph.find_nodes(op="placeholder")
    return {
        i: node.meta["val"]
        for i, node in enumerate(placeholders)
        if _TANGENT.match(node.name) and isinstance(node.meta.get("val"), torch.Tensor)
    }


def _expected(tangents: dict[int, torch.Tensor]) -> tuple[int, ...]:
    """Those that are likely to be absent: none where there is no scalar, or a size is a symbol."""
    if not all(isinstance(n, int) for t in tangents.values() for n in (*t.shape, *t.stride())):
        return ()
    larger = tuple(i for i, t in tangents.items() if t.dim() > 0)
    return larger if len(larger) < len(tangents) else ()


def without(module: fx.GraphModule, absent: Iterable[int]) -> None:
    """Makes a backward graph one of which those arguments are zeros, in place. It still takes
    them, and reads none of them; sums with them are what is added. What is not needed any more
    stays, and the module's code is as it was."""
    graph = module.graph
    placeholders = graph.find_nodes(op="placeholder")
    fake_mode = fake_mode_of(graph)
    first = next(node for node in graph.nodes if node.op != "placeholder")
    zeros: set[fx.Node] = set()
    for i in absent:
        like = placeholders[i].meta["val"]
        with graph.inserting_before(first):
            zero = add_call(
                graph,
                fake_mode,
                {},
                _aten.full.default,
                list(like.shape),
                0,
                dtype=like.dtype,
                device=like.device,
                pin_memory=False,
            )
        placeholders[i].replace_all_uses_with(zero)
        placeholders[i].meta["val"] = None  # no argument of the program
        zeros.add(zero)
    for node in list(graph.nodes):
        if node.target in _LINEAR and node.args[0] in zeros:
            zeros.add(node)
        elif node.target is _aten.add.Tensor and not node.kwargs:
            _drop_addend(node, zeros)


def _drop_addend(node: fx.Node, zeros: set[fx.Node]) -> None:
    """x + 0 is x, where it has the sum's dtype, sizes and strides."""
    for addend, other in (node.args, node.args[::-1]):
        if addend not in zeros or not isinstance(other, fx.Node):
            continue
        left, total = other.meta["val"], node.meta["val"]
        same = left.dtype == total.dtype and left.shape == total.shape
        if same and left.stride() == total.stride():
            if other in zeros:
                zeros.add(node)
            node.replace_all_uses_with(other)
            return
