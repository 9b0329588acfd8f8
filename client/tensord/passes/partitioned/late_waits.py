# SPDX-License-Identifier: Apache-2.0
"""Waits for collectives, which torch traces right behind what they wait for."""

from __future__ import annotations

import torch
from torch import fx

from ...wire.exporter import acts
from ..insertion import arguments

OPERATORS = (
    (torch.ops._c10d_functional.wait_tensor.default,) if torch.distributed.is_available() else ()
)
# They copy their argument before they begin, so it may change before the wait.
_COPYING = ("all_reduce", "all_reduce_coalesced", "broadcast")
# They read it until the wait. The compiler keeps its memory so long, and a graph that is cut into
# programs has both in one.
_READING = ("all_gather_into_tensor", "all_to_all_single", "reduce_scatter_tensor")


def late_waits(module: fx.GraphModule) -> int:
    """Moves each wait for a collective to where the result is used, so that what needs nothing of
    it runs meanwhile; where the argument is read until then, to no place behind what may change it.
    Gives the number of waits that moved."""
    nodes = list(module.graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    count = 0
    for node in nodes:
        collective = _collective(node) if node.target in OPERATORS and node.users else ""
        if collective not in _COPYING + _READING:
            continue
        first, behind = min(node.users, key=place.__getitem__), node.next
        if collective in _READING:
            between = nodes[place[node] + 1 : place[first]]
            first = next((other for other in between if acts(other)), first)
        while behind.target in OPERATORS:
            behind = behind.next
        if behind is not first:
            first.prepend(node)
            count += 1
    return count


def _collective(wait: fx.Node) -> str:
    """The name of the collective that is waited for; "" where it is none that is known."""
    waited = arguments(wait)[0]
    while waited.op == "call_function" and not isinstance(waited.target, torch._ops.OpOverload):
        waited = waited.all_input_nodes[0]  # one of several results
    if getattr(waited.target, "namespace", "") != "_c10d_functional":
        return ""
    return str(getattr(waited.target, "_opname", ""))
