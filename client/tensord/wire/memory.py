# SPDX-License-Identifier: Apache-2.0
"""Where in memory a graph's values lie in eager, as far as the graph says."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from .. import torch_compat

_FUNCTIONALIZED = torch_compat.functionalized_operators()


def viewed_input(node: Any) -> fx.Node | None:
    """What a chain of views begins with: an input, an attribute, or a result of a call-back, which
    lies as eager's; None for what the program computes."""
    root: fx.Node = node
    while root.op == "call_function":
        maker: Any = root
        while maker.target is operator.getitem:  # one of several results
            maker = maker.args[0]
        if not isinstance(maker.target, torch._ops.OpOverload):
            break
        returns = maker.target._schema.returns
        if len(returns) != 1 or returns[0].alias_info is None:
            return None
        root = maker.args[0]
    return root


def place_of(tensor: torch.Tensor) -> tuple[Any, Any]:
    """Its storage offset, and how many elements its storage has; ints or SymInts."""
    return tensor.storage_offset(), tensor.untyped_storage().nbytes() // tensor.element_size()


# Number in memory of the first element, and of one behind the last; None of no elements.
Span = tuple[Any, Any] | None


def span(sizes: Any, strides: Any, first: Any) -> Span:
    """Of a tensor with these, whose first element is `first`."""
    if any(isinstance(size, int) and size == 0 for size in sizes):
        return None
    steps = zip(sizes, strides, strict=True)
    return first, first + sum((n - 1) * step for n, step in steps) + 1


def span_of(tensor: torch.Tensor) -> Span:
    """Of a tensor, real or fake."""
    return span(tensor.shape, tensor.stride(), tensor.storage_offset())


def is_all_of_its_memory(tensor: torch.Tensor) -> bool:
    """True for what is known to begin and to end where its storage does."""
    offset, elements = place_of(tensor)
    first, end = span_of(tensor) or (offset, offset)
    return str(first) == "0" and str(end) == str(elements)


def counts_from_the_start(node: fx.Node) -> bool:
    """True for operators that say where in their argument's memory something is: as_strided, and
    calls of operators that change views of what they are given."""
    op = node.target
    if op in _FUNCTIONALIZED:
        return any(str(name).endswith("_storage_offset") for name in node.kwargs)
    if not isinstance(op, torch._ops.OpOverload):
        return False
    return any(parameter.name == "storage_offset" for parameter in op._schema.arguments)


def counts_in_bodies(module: fx.GraphModule) -> bool:
    """True where one does in a branch or a body, and may show what lies around its argument."""
    bodies = [each for each in module.modules() if isinstance(each, fx.GraphModule)]
    nodes = (node for each in bodies if each is not module for node in each.graph.nodes)
    return any(map(counts_from_the_start, nodes))
