# SPDX-License-Identifier: Apache-2.0
"""Waits for collectives, which torch traces right behind what they wait for."""

from __future__ import annotations

import torch
from torch import fx

from ..insertion import arguments

OPERATORS = (
    (torch.ops._c10d_functional.wait_tensor.default,) if torch.distributed.is_available() else ()
)
# They copy their argument before they begin, so its memory may be used again before the wait; of
# other collectives it is read until then.
_COPYING = ("all_reduce", "all_reduce_coalesced", "broadcast")


def late_waits(module: fx.GraphModule) -> int:
    """Moves each wait for a collective that copies its argument to where the result is used, so
    that what needs nothing of it runs meanwhile. Gives the number of waits that moved."""
    nodes = list(module.graph.nodes)
    place = {node: number for number, node in enumerate(nodes)}
    count = 0
    for node in nodes:
        if node.target not in OPERATORS or not node.users or not _copies(arguments(node)[0]):
            continue
        first, behind = min(node.users, key=place.__getitem__), node.next
        while behind.target in OPERATORS:
            behind = behind.next
        if behind is not first:
            first.prepend(node)
            count += 1
    return count


def _copies(waited: fx.Node) -> bool:
    while waited.op == "call_function" and not isinstance(waited.target, torch._ops.OpOverload):
        waited = waited.all_input_nodes[0]  # one of several results
    name = getattr(waited.target, "_opname", "")
    return getattr(waited.target, "namespace", "") == "_c10d_functional" and name in _COPYING
