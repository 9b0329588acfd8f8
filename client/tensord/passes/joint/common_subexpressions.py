# SPDX-License-Identifier: Apache-2.0
"""Common subexpressions of a joint graph become one, before the partitioner counts what to save.

torch's partitioner does the same, but a process that has not loaded TorchInductor loads it for
that, which takes longer than the partition. So graphs of plain operators are done here.
"""

from __future__ import annotations

import operator
from collections.abc import Hashable
from typing import Any

import torch
from torch import fx

from ... import torch_compat

# Their results are not determined by their arguments.
_UNDEFINED = frozenset(
    {
        torch.ops.aten.empty,
        torch.ops.aten.empty_like,
        torch.ops.aten.empty_strided,
        torch.ops.aten.new_empty,
        torch.ops.aten.new_empty_strided,
    }
)


class _Unknown(Exception):
    """A value that two calls are not compared by."""


def common_subexpressions(joint: fx.GraphModule) -> int | None:
    """Merges calls in place; how many went away. None for a graph that it leaves to torch, since no
    schema tells what something in it does, or since the user wants none merged."""
    graph = joint.graph
    if torch_compat.subexpressions_are_kept() or not all(_is_plain(node) for node in graph.nodes):
        return None
    kept = _in_results_memory(graph)
    first: dict[Hashable, fx.Node] = {}
    writes = 0  # calls on different sides of a write may read different values
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function":
            continue
        if _writes(node):
            writes += 1
            continue
        if node in kept or not _is_determined(node):
            continue
        try:
            key = (writes, node.target, _key(node.args), _key(node.kwargs))
        except _Unknown:
            continue
        same = first.setdefault(key, node)
        if same is not node:
            node.replace_all_uses_with(same)
            graph.erase_node(node)
            count += 1
    return count


def _is_plain(node: fx.Node) -> bool:
    """True for a call of an operator with a schema, and for functions of sizes."""
    if node.op != "call_function":
        return node.op in ("placeholder", "get_attr", "output")
    if isinstance(node.target, torch._ops.OpOverload) or node.target is operator.getitem:
        return True
    return isinstance(node.meta.get("val"), _NUMBERS)


def _writes(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


def _is_determined(node: fx.Node) -> bool:
    """True when equal arguments give equal results, whenever it runs."""
    if torch_compat.is_random(node):
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        # Without a result it is run for what it does.
        if node.target.overloadpacket in _UNDEFINED or not node.target._schema.returns:
            return False
    # Sizes that depend on data are other symbols each time, which later values are described by.
    return not torch_compat.depends_on_data(node.meta.get("val"))


def _in_results_memory(graph: fx.Graph) -> set[fx.Node]:
    """Nodes in the memory of a result: results that are equal stay tensors apart, as in eager."""
    results = {_storage(node) for node in graph.output_node().all_input_nodes} - {None}
    return {node for node in graph.nodes if _storage(node) in results}


def _storage(node: fx.Node) -> Any:
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return None
    try:
        return torch_compat.storage_reference(value.untyped_storage())
    except NotImplementedError:  # a sparse tensor
        return None


def _key(value: Any) -> Hashable:
    """Equal for arguments that are the same to an operator: 1, 1.0 and True are not, nor 0.0 and
    -0.0."""
    if isinstance(value, fx.Node):
        return value
    if isinstance(value, (tuple, list)):
        return ("list", *map(_key, value))
    if isinstance(value, dict):
        return ("dict", *((name, _key(item)) for name, item in sorted(value.items())))
    if isinstance(value, slice):
        return ("slice", *map(_key, (value.start, value.stop, value.step)))
    if isinstance(value, float):
        return (float, value.hex())
    if value is None or isinstance(value, _CONSTANTS):
        return (type(value), value)
    raise _Unknown


_NUMBERS = (bool, int, float, torch.SymBool, torch.SymInt, torch.SymFloat)
_CONSTANTS = (
    bool,
    int,
    str,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
