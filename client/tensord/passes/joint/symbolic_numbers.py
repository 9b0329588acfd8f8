# SPDX-License-Identifier: Apache-2.0
"""Real numbers made of sizes (`x * (1 / n)` under dynamic shapes) as tensors of one element.

A real number that only a call knows has no form on the wire, and eager would run each operator that
takes it. As a tensor it is made by one small step that calls back, and what takes it is compiled.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..insertion import arguments, fake_mode_of, inherited_meta, insert_call

_aten = torch.ops.aten
_TENSOR, _TO = _aten.scalar_tensor.default, _aten._to_copy.default


def symbolic_numbers(module: fx.GraphModule) -> int:
    """Gives operators that take such numbers where their schema says a tensor, and `full`, tensors;
    how many of them."""
    graph = module.graph
    numbers = [n for n in graph.nodes if isinstance(n.meta.get("val"), torch.SymFloat)]
    found = dict.fromkeys(user for number in numbers for user in number.users)
    mode = fake_mode_of(graph) if found else None
    if mode is None:
        return 0
    return sum(_replace(graph, mode, node) for node in found)


def _replace(graph: fx.Graph, mode: Any, node: fx.Node) -> bool:
    value = node.meta.get("val")
    if not isinstance(node.target, torch._ops.OpOverload) or not isinstance(value, torch.Tensor):
        return False
    with graph.inserting_before(node):
        if node.target is _aten.full.default:
            return _fill(graph, mode, node, value)
        return _compute(graph, mode, node, value)


def _fill(graph: fx.Graph, mode: Any, node: fx.Node, value: torch.Tensor) -> bool:
    size, number = arguments(node)[:2]
    inherited = inherited_meta(node)
    one = _tensor(graph, mode, inherited, number, value.dtype, value.device)
    spread = insert_call(graph, mode, inherited, _aten.expand.default, one, size)
    filled = insert_call(
        graph, mode, inherited, _aten.clone.default, spread, memory_format=torch.contiguous_format
    )
    return _take_place(graph, node, filled, [spread, one])


def _compute(graph: fx.Graph, mode: Any, node: fx.Node, value: torch.Tensor) -> bool:
    """As float64, or where that would give the result another type, as the result's; of narrower
    results in float32 throughout, as eager computes with numbers that it does not round to them."""
    places = [i for i, one in enumerate(arguments(node)) if _is_tensor_of(node, i, one)]
    if not places or not value.dtype.is_floating_point:
        return False
    inherited = inherited_meta(node)
    narrow = value.dtype.itemsize < torch.float32.itemsize
    for dtype in (torch.float32,) if narrow else dict.fromkeys((torch.float64, value.dtype)):
        given = list(arguments(node))
        made = []
        for i, one in enumerate(given):
            if i in places:
                given[i] = _tensor(graph, mode, inherited, one, dtype, value.device)
            elif narrow and isinstance(one, fx.Node) and _is_float(one):
                given[i] = insert_call(graph, mode, inherited, _TO, one, dtype=dtype)
            if given[i] is not one:
                made.append(given[i])
        call = insert_call(graph, mode, inherited, node.target, *given, **node.kwargs)
        if narrow:
            made.append(call)
            call = insert_call(graph, mode, inherited, _TO, call, dtype=value.dtype)
        if _take_place(graph, node, call, made[::-1]):
            return True
    return False


def _is_float(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and value.dtype.is_floating_point


def _is_tensor_of(node: fx.Node, place: int, given: Any) -> bool:
    """Whether it is such a number, where the operator's schema says a tensor."""
    if not isinstance(given, fx.Node) or not isinstance(given.meta.get("val"), torch.SymFloat):
        return False
    assert isinstance(node.target, torch._ops.OpOverload)
    return str(node.target._schema.arguments[place].type) == "Tensor"


def _tensor(
    graph: fx.Graph,
    mode: Any,
    inherited: dict[str, Any],
    number: fx.Node,
    dtype: torch.dtype,
    device: torch.device,
) -> fx.Node:
    return insert_call(graph, mode, inherited, _TENSOR, number, dtype=dtype, device=device)


def _take_place(graph: fx.Graph, node: fx.Node, call: fx.Node, made: list[fx.Node]) -> bool:
    """In the place of a node, where the results are alike; otherwise what was made for it goes."""
    if _layout(call) == _layout(node):
        node.replace_all_uses_with(call)
        graph.erase_node(node)
        return True
    for one in (call, *made):
        graph.erase_node(one)
    return False


def _layout(node: fx.Node) -> tuple[Any, ...]:
    """Sizes as text: comparing symbols would set guards."""
    value = node.meta["val"]
    return value.dtype, value.device, str(tuple(value.shape)), str(value.stride())
