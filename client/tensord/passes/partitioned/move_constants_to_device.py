# SPDX-License-Identifier: Apache-2.0
"""Constants of a CUDA graph, which Python makes on the CPU and eager copies over in every call."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ... import torch_compat
from ...wire.exporter import CONSTANT_DEVICE, MAX_CONSTANT_BYTES
from ..insertion import HANDED_ON, arguments, inherited_meta, insert_call

aten = torch.ops.aten

# What gives the same numbers as its argument.
_SAME = HANDED_ON | {
    aten.lift_fresh_copy.default,
    aten.lift_fresh.default,
    aten.clone.default,
}
# What gives a number as a tensor: how nested vmaps and decompositions write it.
_NUMBERS = {aten.full.default, aten.scalar_tensor.default}
_NAMESPACES = ("aten", "prims", "tensord")
# Operators that take a CPU tensor of any size beside CUDA ones; others take numbers.
_TAKE_ALL = {
    aten._to_copy.default,
    aten.index.Tensor,
    aten.index_put.default,
    aten._unsafe_index.Tensor,
    aten._unsafe_index_put.default,
}


def move_constants_to_device(module: fx.GraphModule, largest: int = MAX_CONSTANT_BYTES) -> int:
    """Has CUDA operators take constants of up to `largest` bytes from their own device.

    The attributes stay where they are, so the module runs in eager as before. Returns the number of
    arguments that changed.
    """
    graph = module.graph
    moved: dict[tuple[str | fx.Node, torch.device], fx.Node] = {}
    done = 0
    for node in list(graph.nodes):
        device = _cuda_device(node)
        if device is None:
            continue

        def replace(
            argument: fx.Node, node: fx.Node = node, device: torch.device = device
        ) -> fx.Node:
            source = _constant(module, argument, node.target in _TAKE_ALL, largest)
            if source is None:
                return argument
            key = (str(source.target) if source.op == "get_attr" else source, device)
            if key not in moved:
                moved[key] = _on_device(graph, source, argument.meta["val"], device)
            return moved[key]

        before = node.all_input_nodes
        node.args = fx.map_arg(node.args, replace)
        done += before != node.all_input_nodes
    return done


def _cuda_device(node: fx.Node) -> torch.device | None:
    """Where an operator's results are; None for what is no operator of torch's or ours on CUDA:
    others may want a number on the CPU."""
    op = node.target
    if not isinstance(op, torch._ops.OpOverload) or op.namespace not in _NAMESPACES:
        return None
    value = node.meta.get("val")
    for result in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(result, torch.Tensor) and result.device.type == "cuda":
            return result.device
    return None


def _constant(
    module: fx.GraphModule, argument: fx.Node, any_size: bool, largest: int
) -> fx.Node | None:
    """The node behind an argument that is a constant on the CPU, a get_attr or a number; else
    None."""
    value = argument.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        return None
    if value.dim() > 0 and not any_size:
        return None
    source = argument
    while source.target in _SAME:
        source = arguments(source)[0]
    if source.target in _NUMBERS and value.dim() == 0 and not source.all_input_nodes:
        return source
    if source.op != "get_attr":
        return None
    tensor = _attribute(module, str(source.target))
    plain = type(tensor) in (torch.Tensor, torch.nn.Parameter)
    if not plain or tensor.numel() * tensor.element_size() > largest:
        return None
    return source


def _attribute(module: Any, target: str) -> Any:
    for part in target.split("."):
        module = getattr(module, part, None)
    return module


def _on_device(
    graph: fx.Graph, source: fx.Node, value: torch.Tensor, device: torch.device
) -> fx.Node:
    if source.op == "call_function":
        with graph.inserting_before(source):
            kwargs = {**source.kwargs, "device": device}
            return insert_call(
                graph, torch_compat.fake_mode_of(value), inherited_meta(source), source.target,
                *source.args, **kwargs,
            )  # fmt: skip
    with graph.inserting_before(source):
        node = graph.get_attr(str(source.target))
    with torch_compat.fake_mode_of(value):
        dense = torch.empty(tuple(value.shape), dtype=value.dtype, device=device)
    node.meta.update(source.meta)
    node.meta.update({"val": dense, CONSTANT_DEVICE: device})
    return node
