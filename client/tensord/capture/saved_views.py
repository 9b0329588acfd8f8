# SPDX-License-Identifier: Apache-2.0
"""What backward is given of a larger tensor is copied out of it.

Forward saves a tensor by keeping its memory: of a view, all that it is a view of. The values of
attention are a third of a product whose queries and keys are saved as they are behind their
rotation; a copy of the third, which the kernel that rotates makes beside that, frees the whole.
"""

from __future__ import annotations

import functools
import operator
from collections import defaultdict
from typing import Any

import torch
from torch import fx

from .. import fallback
from ..passes.insertion import (
    arguments,
    fake_mode_of,
    inherited_meta,
    insert_call,
    memory_in,
    memory_of,
    tensors_in,
)

_aten = torch.ops.aten

DEVICES = ("cuda",)
# What a copy frees beside itself: so much, and as much as it takes.
LEAST_FREED_BYTES = 2 << 20

# What is told strides, or says them: what lies otherwise would be another.
_OF_ONE_LAYOUT = frozenset(
    {
        _aten.as_strided.default,
        _aten.as_strided_scatter.default,
        _aten._reshape_alias.default,
        _aten.sym_stride.int,
        _aten.sym_storage_offset.default,
    }
)
# Operators that are promised eager's strides, as everybody's own are.
_EXACT = (torch.Tag.needs_exact_strides, torch.Tag.needs_fixed_stride_order)
_INDIFFERENT = ("aten", "prims", "tensord")


class _MustLieAsItDoes(Exception):
    """Backward takes an argument that is laid out as it is; the message says where."""


def copy_saved_views(forward: fx.GraphModule, backward: fx.GraphModule, results: int) -> int:
    """Changes both graphs in place; the number of copies. results: how many of forward's come
    before those that are saved.

    A copy takes the view's name, by which torch finds what is saved among backward's arguments.
    """
    mode = fake_mode_of(forward.graph)
    output = forward.graph.output_node()
    returned = list(arguments(output)[0])
    places = {node.name: node for node in backward.graph.find_nodes(op="placeholder")}
    copies: dict[fx.Node, fx.Node] = {}
    for views in _wasteful(forward, returned, results) if mode is not None else []:
        if any(view.name not in places for view in views):
            continue
        made: dict[fx.Node, fx.Node] = {}
        try:
            for view in views:
                call = functools.partial(insert_call, forward.graph, mode, inherited_meta(view))
                # Where it is made: the larger tensor is not to wait for the end of forward.
                with forward.graph.inserting_after(view):
                    made[view] = call(_aten.clone.default, view)
            values = _values_with(
                backward, {places[view.name]: made[view].meta["val"] for view in views}, mode
            )
        except Exception as error:
            for copy in made.values():
                forward.graph.erase_node(copy)
            if not isinstance(error, _MustLieAsItDoes):
                fallback.note(
                    error, "a copy of what backward takes of a larger tensor", "is not made"
                )
            continue
        for node, value in values.items():
            node.meta["val"] = value
            node.meta.pop("tensor_meta", None)
        copies |= made
    if copies:
        for view, copy in copies.items():
            name = view.name
            view._rename(f"{name}_of_larger")
            copy.name = name  # _rename() would find it taken
        returned[results:] = [copies.get(node, node) for node in returned[results:]]
        output.args = (returned,)
        forward.recompile()
    return len(copies)


def _wasteful(forward: fx.GraphModule, returned: list[Any], results: int) -> list[list[fx.Node]]:
    """Views that are saved, by the memory of which they are the smaller part, and which nothing
    else keeps."""
    groups: dict[int, dict[fx.Node, None]] = defaultdict(dict)
    for node in returned[results:]:
        value = node.meta.get("val") if isinstance(node, fx.Node) else None
        if isinstance(value, torch.Tensor) and value.device.type in DEVICES:
            for memory in memory_of(node):
                groups[memory][node] = None
    wasteful = {memory: list(nodes) for memory, nodes in groups.items() if _waste(nodes)}
    if not wasteful:
        return []
    graph = forward.graph
    there = (*graph.find_nodes(op="placeholder"), *graph.find_nodes(op="get_attr"))
    for node in (*there, *returned[:results]):
        for memory in memory_of(node) if isinstance(node, fx.Node) else ():
            wasteful.pop(memory, None)
    return list(wasteful.values())


def _waste(nodes: dict[fx.Node, None]) -> bool:
    values = [node.meta["val"] for node in nodes]
    whole = values[0].untyped_storage().nbytes()
    sizes = [value.numel() * value.itemsize for value in values]
    if not all(isinstance(size, int) for size in (whole, *sizes)):
        return False
    freed = whole - sum(sizes)
    return freed >= LEAST_FREED_BYTES and freed >= sum(sizes)


def _values_with(
    backward: fx.GraphModule, given: dict[fx.Node, torch.Tensor], mode: Any
) -> dict[fx.Node, Any]:
    """The fake values of arguments that lie otherwise, and of what lies otherwise for that.

    Raises _MustLieAsItDoes.
    """
    values: dict[fx.Node, Any] = dict(given)

    def value_of(node: Any) -> Any:
        return values.get(node, node.meta["val"]) if isinstance(node, fx.Node) else node

    for node in backward.graph.nodes:
        changed = [x for x in node.all_input_nodes if x in values]
        if not changed or node.op == "output":
            continue
        if not _takes_any_layout(node):
            raise _MustLieAsItDoes(node.name)
        args, kwargs = torch.utils._pytree.tree_map(value_of, (node.args, node.kwargs))
        try:
            with mode:
                value = node.target(*args, **kwargs)
        except RuntimeError as error:  # as a view's that cannot be one of what lies so
            raise _MustLieAsItDoes(node.name) from error
        memory = {m for x in changed for m in memory_in(values[x])}
        if memory_in(value) & memory or _layouts(value) != _layouts(node.meta["val"]):
            values[node] = value
    return values


def _takes_any_layout(node: fx.Node) -> bool:
    """Also: and sizes that are known, of results that no data decides."""
    if "unbacked_bindings" in node.meta or not all(map(_is_static, tensors_in(node.meta["val"]))):
        return False
    if node.target is operator.getitem:
        return True
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace in _INDIFFERENT
        and node.target not in _OF_ONE_LAYOUT
        and not any(tag in node.target.tags for tag in _EXACT)
    )


def _is_static(tensor: torch.Tensor) -> bool:
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return all(isinstance(number, int) for number in numbers)


def _layouts(value: Any) -> list[tuple[Any, ...]]:
    return [(*tensor.stride(), tensor.storage_offset()) for tensor in tensors_in(value)]
