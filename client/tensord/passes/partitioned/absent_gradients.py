# SPDX-License-Identifier: Apache-2.0
"""Backward graphs without the gradients of what a training graph returns beside its loss.

Where there is a scalar, a loss, gradients come for scalars alone; the others are zeros, which a
compiled backward need not read. What autograd is told of it, and what serves a call in which others
do come, is in capture/absent_gradients.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import torch
from torch import fx

from ... import torch_compat
from ..insertion import fake_mode_of, insert_call

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


def absent_gradients(backward: fx.GraphModule) -> int:
    """Makes a backward graph one of which the gradients that are likely to be absent are zeros, in
    place; how many they are."""
    tangents = tangents_of(backward.graph)
    absent = likely_absent(tangents)
    if not absent or not torch_compat.gradients_may_be_absent(len(tangents)):
        return 0
    make_zeros(backward.graph, absent)
    return len(absent)


def tangents_of(graph: fx.Graph) -> dict[int, torch.Tensor]:
    """The gradients that a backward graph takes, by their arguments' numbers."""
    return {
        i: node.meta["val"]
        for i, node in enumerate(graph.find_nodes(op="placeholder"))
        if _TANGENT.match(node.name) and isinstance(node.meta.get("val"), torch.Tensor)
    }


def likely_absent(tangents: dict[int, torch.Tensor]) -> tuple[int, ...]:
    """Those that are likely to be absent: none where there is no scalar, or a size is a symbol."""
    if not all(isinstance(n, int) for t in tangents.values() for n in (*t.shape, *t.stride())):
        return ()
    larger = tuple(i for i, t in tangents.items() if t.dim() > 0)
    return larger if len(larger) < len(tangents) else ()


def make_zeros(graph: fx.Graph, absent: Iterable[int]) -> None:
    """Makes a graph one of which those arguments are zeros. It still takes them, and reads none of
    them; sums with them are what is added. What is not needed any more stays."""
    placeholders = graph.find_nodes(op="placeholder")
    fake_mode = fake_mode_of(graph)
    first = next(node for node in graph.nodes if node.op != "placeholder")
    zeros: set[fx.Node] = set()
    for i in absent:
        like = placeholders[i].meta["val"]
        with graph.inserting_before(first):
            zero = insert_call(
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
