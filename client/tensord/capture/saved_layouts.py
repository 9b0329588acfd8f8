# SPDX-License-Identifier: Apache-2.0
"""What forward saves for backward, where it is to lie otherwise than it was captured: whether
backward can do with that, and the exchange in both graphs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import fx

from .. import fallback
from ..passes.insertion import arguments, memory_in, memory_of, tensors_in

_aten = torch.ops.aten

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


class MustLieAsItDoesError(Exception):
    """Backward takes an argument that is laid out as it is; the message says where."""


def returned_by(forward: fx.GraphModule) -> list[Any]:
    """Forward's results, and behind them what is saved."""
    return list(arguments(forward.graph.output_node())[0])


def kept_memory(forward: fx.GraphModule, results: int) -> set[int]:
    """What lives on whatever backward is given: forward's arguments and its first `results`
    results."""
    graph = forward.graph
    there = (*graph.find_nodes(op="placeholder"), *graph.find_nodes(op="get_attr"))
    given = (*there, *returned_by(forward)[:results])
    return {memory for node in given if isinstance(node, fx.Node) for memory in memory_of(node)}


def save_instead(
    forward: fx.GraphModule, results: int, replaced: Mapping[fx.Node, fx.Node]
) -> None:
    """Saves other values. They take the names of the replaced ones, by which torch finds what is
    saved among backward's arguments."""
    for old, new in replaced.items():
        name = old.name
        old._rename(f"{name}_not_saved")
        new.name = name  # _rename() would find it taken
    returned = returned_by(forward)
    returned[results:] = [replaced.get(node, node) for node in returned[results:]]
    forward.graph.output_node().args = (returned,)
    forward.recompile()


def take_back(
    forward: fx.GraphModule, made: Iterable[fx.Node], error: Exception, what: str
) -> None:
    """Removes what was made to be saved instead, because of the error; a fallback where that is not
    MustLieAsItDoesError. what: was to be done, for the message."""
    for node in made:
        forward.graph.erase_node(node)
    if not isinstance(error, MustLieAsItDoesError):
        fallback.note(error, what, "is not made")


def values_with(
    backward: fx.GraphModule, given: Mapping[fx.Node, torch.Tensor], mode: Any
) -> dict[fx.Node, Any]:
    """The fake values of arguments that lie otherwise, and of what lies otherwise for that.

    Raises MustLieAsItDoesError; also where a result of backward would lie otherwise.
    """
    values: dict[fx.Node, Any] = dict(given)

    def value_of(node: Any) -> Any:
        return values.get(node, node.meta["val"]) if isinstance(node, fx.Node) else node

    for node in backward.graph.nodes:
        changed = [x for x in node.all_input_nodes if x in values]
        if not changed:
            continue
        if node.op == "output":
            for x in changed:
                if _layouts(values[x]) != _layouts(x.meta["val"]):
                    raise MustLieAsItDoesError(x.name)
            continue
        if not _takes_any_layout(node):
            raise MustLieAsItDoesError(node.name)
        args, kwargs = torch.utils._pytree.tree_map(value_of, (node.args, node.kwargs))
        try:
            with mode:
                value = node.target(*args, **kwargs)
        # As a view's that cannot be one of what lies so.
        except (RuntimeError, ValueError) as error:
            raise MustLieAsItDoesError(node.name) from error
        memory = {m for x in changed for m in memory_in(values[x])}
        if memory_in(value) & memory or _layouts(value) != _layouts(node.meta["val"]):
            values[node] = value
    return values


def set_values(values: Mapping[fx.Node, Any]) -> None:
    """Gives nodes these fake values."""
    for node, value in values.items():
        node.meta["val"] = value
        node.meta.pop("tensor_meta", None)


def is_static(tensor: torch.Tensor) -> bool:
    """Whether its sizes and strides are known."""
    numbers = (*tensor.shape, *tensor.stride(), tensor.storage_offset())
    return all(isinstance(number, int) for number in numbers)


def _takes_any_layout(node: fx.Node) -> bool:
    """Also: and sizes that are known, of results that no data decides."""
    if "unbacked_bindings" in node.meta or not all(map(is_static, tensors_in(node.meta["val"]))):
        return False
    if node.target is operator.getitem:
        return True
    return (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace in _INDIFFERENT
        and node.target not in _OF_ONE_LAYOUT
        and not any(tag in node.target.tags for tag in _EXACT)
    )


def _layouts(value: Any) -> list[tuple[Any, ...]]:
    return [(*tensor.stride(), tensor.storage_offset()) for tensor in tensors_in(value)]
