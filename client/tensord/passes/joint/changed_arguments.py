# SPDX-License-Identifier: Apache-2.0
"""What a training graph computes of an argument before it changes that.

Backward runs when the argument has its new value. torch's partitioner does not know: where it saves
the argument and computes from it again what backward needs, gradients are those of other numbers.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from ... import torch_compat
from ..insertion import arguments, memory_of

OPERATORS = (torch.ops.aten.copy_.default,)
# Training's batch norms, whose running statistics nothing is computed of but the next ones.
_UPDATING = (
    torch.ops.aten._native_batch_norm_legit_functional.default,
    torch.ops.aten.native_batch_norm.default,
)


def changed_arguments(module: fx.GraphModule) -> int:
    """Marks what reads arguments that the graph copies into, to be saved rather than computed
    again. Gives the number of values."""
    graph = module.graph
    changed: set[int] = set()
    for copy in graph.find_nodes(op="call_function", target=OPERATORS[0]):
        changed |= memory_of(arguments(copy)[0])
    count = 0
    for node in graph.nodes:
        if node.op != "call_function" or node.target in (*OPERATORS, *_UPDATING):
            continue
        if memory_of(node) & changed:  # a view
            continue
        if any(memory_of(source) & changed for source in node.all_input_nodes):
            for value in _values_of(node):
                torch_compat.must_save(value)
                count += 1
    return count


def _values_of(node: fx.Node) -> list[fx.Node]:
    """The node, or what takes its results one by one."""
    if isinstance(node.meta.get("val"), torch.Tensor):
        return [node]
    return [user for user in node.users if user.target is operator.getitem]
