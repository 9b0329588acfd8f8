# SPDX-License-Identifier: Apache-2.0
"""What backward is given of a larger tensor is copied out of it.

Forward saves a tensor by keeping its memory: of a view, all that it is a view of. The values of
attention are a third of a product whose queries and keys are saved as they are behind their
rotation; a copy of the third, which the kernel that rotates makes beside that, frees the whole.
"""

from __future__ import annotations

import functools
from collections import defaultdict

import torch
from torch import fx

from ..passes.insertion import fake_mode_of, inherited_meta, insert_call, memory_of
from . import saved_layouts

_aten = torch.ops.aten

DEVICES = ("cuda",)
# What a copy frees beside itself: so much, and as much as it takes.
LEAST_FREED_BYTES = 2 << 20


def copy_saved_views(forward: fx.GraphModule, backward: fx.GraphModule, results: int) -> int:
    """Changes both graphs in place; the number of copies. results: how many of forward's come
    before those that are saved."""
    mode = fake_mode_of(forward.graph)
    places = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    copies: dict[fx.Node, fx.Node] = {}
    for views in _wasteful(forward, results) if mode is not None else []:
        if any(view.name not in places for view in views):
            continue
        made: dict[fx.Node, fx.Node] = {}
        try:
            for view in views:
                call = functools.partial(insert_call, forward.graph, mode, inherited_meta(view))
                # Where it is made: the larger tensor is not to wait for the end of forward.
                with forward.graph.inserting_after(view):
                    made[view] = call(_aten.clone.default, view)
            values = saved_layouts.values_with(
                backward, {places[view.name]: made[view].meta["val"] for view in views}, mode
            )
        except Exception as error:
            what = "a copy of what backward takes of a larger tensor"
            saved_layouts.take_back(forward, made.values(), error, what)
            continue
        saved_layouts.set_values(values)
        copies |= made
    if copies:
        saved_layouts.save_instead(forward, results, copies)
    return len(copies)


def _wasteful(forward: fx.GraphModule, results: int) -> list[list[fx.Node]]:
    """Views that are saved, by the memory of which they are the smaller part, and which nothing
    else keeps."""
    groups: dict[int, dict[fx.Node, None]] = defaultdict(dict)
    for node in saved_layouts.returned_by(forward)[results:]:
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.device.type in DEVICES:
            for memory in memory_of(node):
                groups[memory][node] = None
    wasteful = {memory: list(nodes) for memory, nodes in groups.items() if _waste(nodes)}
    if not wasteful:
        return []
    kept = saved_layouts.kept_memory(forward, results)
    return [nodes for memory, nodes in wasteful.items() if memory not in kept]


def _waste(nodes: dict[fx.Node, None]) -> bool:
    values = [node.meta["val"] for node in nodes]
    whole = values[0].untyped_storage().nbytes()
    sizes = [value.numel() * value.itemsize for value in values]
    if not all(isinstance(size, int) for size in (whole, *sizes)):
        return False
    freed = whole - sum(sizes)
    return freed >= LEAST_FREED_BYTES and freed >= sum(sizes)
