# SPDX-License-Identifier: Apache-2.0
"""What is compared with its own extremum, as backward does to find the places that have it.

The gradient of amax, amin and norms of infinite order goes to the elements that equal the result,
shared among as many as there are. Computed again, from what was rounded when it was saved, elements
are other numbers in their last bit; none may equal the extremum that forward has found, and the
gradient is a quotient by 0. Rounding an extremum is the extremum of what is rounded, so elements
that are saved do. Where a checkpoint says what is computed again, both sides are, and agree.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from ... import torch_compat
from ...torch_compat.operators import packet_of
from ..insertion import arguments

aten = torch.ops.aten

OPERATORS = (aten.eq.Tensor,)
_EXTREMA = frozenset(
    {
        aten.amax,
        aten.amin,
        aten.aminmax,
        aten.max,
        aten.min,
        aten.linalg_vector_norm,
        aten.norm,
    }
)
# What has the same elements, or is one of several results.
_SAME = frozenset(
    {aten.detach, aten.alias, aten.view, aten._unsafe_view, aten.reshape, aten.unsqueeze}
    | {aten.squeeze, aten.expand, aten.permute, aten.transpose, operator.getitem}
)


def compared_extrema(module: fx.GraphModule) -> int:
    """Marks such elements to be saved rather than computed again. Gives the number of values."""
    marked: set[fx.Node] = set()
    for equal in module.graph.find_nodes(op="call_function", target=OPERATORS[0]):
        left, right = (_source(x) for x in arguments(equal)[:2])
        for extremum, compared in ((left, right), (right, left)):
            if extremum is None or compared is None or packet_of(extremum) not in _EXTREMA:
                continue
            if packet_of(compared) is aten.abs:  # of real numbers, exact
                compared = _source(arguments(compared)[0])
            if compared is not None and _may_be_marked(compared):
                marked.add(compared)
    for node in marked:
        torch_compat.must_save(node)
    return len(marked)


def _may_be_marked(node: fx.Node) -> bool:
    """Of several results each is saved, as what gives them is no step to be computed again."""
    is_one = isinstance(node.meta.get("val"), torch.Tensor)
    return node.op == "call_function" and is_one and "recompute" not in node.meta


def _source(value: object) -> fx.Node | None:
    """The node whose elements these are; None for what is no node."""
    while isinstance(value, fx.Node) and packet_of(value) in _SAME:
        value = value.args[0]
    return value if isinstance(value, fx.Node) else None
