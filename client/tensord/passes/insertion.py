# SPDX-License-Identifier: Apache-2.0
"""Graphs of operators: what nodes are called with and what they lie in, and calls that passes
insert, with the fake values that every node there carries."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .. import torch_compat

# Operators that hand on their argument as it is.
HANDED_ON = frozenset({torch.ops.aten.detach.default, torch.ops.aten.alias.default})


def arguments(node: fx.Node) -> tuple[Any, ...]:
    """Its positional arguments; torch's own type of them is a union that says no more."""
    return node.args


def argument(node: fx.Node, name: str) -> Any:
    """An operator's argument by its name in the schema; its default where it is not given."""
    assert isinstance(node.target, torch._ops.OpOverload)
    for place, parameter in enumerate(node.target._schema.arguments):
        if parameter.name == name:
            given = not parameter.kwarg_only and place < len(node.args)
            return node.args[place] if given else node.kwargs.get(name, parameter.default_value)
    raise KeyError(f"{node.target} has no parameter {name}")


def source_of(node: fx.Node) -> fx.Node:
    """What a node hands on as it is, through any number of others that do."""
    while node.target in HANDED_ON:
        node = arguments(node)[0]
    return node


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Those of a node's value, in order."""
    leaves = torch.utils._pytree.tree_leaves(value)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def memory_in(value: Any) -> set[int]:
    """What the tensors of a node's value lie in: views have what their base has."""
    plain = [tensor for tensor in tensors_in(value) if tensor.layout == torch.strided]
    return {torch_compat.storage_reference(tensor.untyped_storage()).cdata for tensor in plain}


def memory_of(node: fx.Node) -> set[int]:
    """What its tensors lie in."""
    return memory_in(node.meta.get("val"))


def have_one_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same type, sizes and layout."""
    return (a.dtype, a.shape, str(a.stride())) == (b.dtype, b.shape, str(b.stride()))


def gradients_given(joint: fx.Graph) -> list[fx.Node]:
    """The arguments of a joint graph that are its results' gradients."""
    placeholders = joint.find_nodes(op="placeholder")
    return [node for node in placeholders if str(node.target).startswith("tangents")]


def gradient_nodes(joint: fx.Graph) -> set[fx.Node]:
    """What depends on gradients that a joint graph is given, and these."""
    nodes = set(gradients_given(joint))
    for node in joint.nodes:
        if not nodes.isdisjoint(node.all_input_nodes):
            nodes.add(node)
    return nodes


def fake_mode_of(graph: fx.Graph) -> Any:
    """The mode of the values that the graph's nodes carry; None where they are not fake."""
    values = [node.meta.get("val") for node in graph.nodes]
    return torch._guards.detect_fake_mode([v for v in values if isinstance(v, torch.Tensor)])


def inherited_meta(node: fx.Node) -> dict[str, Any]:
    """What a node inserted in the place of another one inherits: where it came from."""
    own = ("val", "tensor_meta", "recompute")
    return {name: value for name, value in node.meta.items() if name not in own}


def insert_call(
    graph: fx.Graph, fake_mode: Any, inherited: dict[str, Any], op: Any, *args: Any, **kwargs: Any
) -> fx.Node:
    """Inserts a call at the graph's insert point, with its fake value."""
    node = graph.call_function(op, args, kwargs)
    node.meta.update(inherited)

    def value(x: Any) -> Any:
        return x.meta["val"] if isinstance(x, fx.Node) else x

    with fake_mode:
        node.meta["val"] = op(
            *torch.utils._pytree.tree_map(value, args),
            **torch.utils._pytree.tree_map(value, kwargs),
        )
    return node
