# SPDX-License-Identifier: Apache-2.0
"""Linear layers of one input become one product: queries, keys and values; a gate and its value.

One large product fills a GPU better than several small ones, and so do both products of its
backward: the input's gradient is then one product too, instead of several and their sum.

    F.linear(x, w1, b1), F.linear(x, w2, b2)
    -> torch.split(F.linear(x, torch.cat((w1, w2)), torch.cat((b1, b2))), (n1, n2), -1)

Only where autocast casts the weights, since the cast writes them side by side for nothing; of
weights that are used as they lie the concatenation would be a copy more in every call.

The gradients of merged weights are slices of one product: each parameter's gradient is a part of
one memory, which lives as long as any of them.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from . import dynamo, stride_invariance

# Gradients of attention come out of a library's kernel, each in memory of its own: putting them
# side by side is a copy. In training at most this share of the columns may need it.
_MOST_COPIED = 0.34


@dataclass(frozen=True)
class _Layer:
    """One call of F.linear. out: number of columns of its result."""

    node: fx.Node
    input: fx.Node
    weight: fx.Node
    bias: fx.Node | None
    out: int


def merged_products(module: fx.GraphModule) -> int:
    """Merges layers in place; the number of products that went away."""
    written = dynamo.changed_in_place(module.graph)
    layers = [
        layer
        for node in module.graph.nodes
        if (layer := _layer(node)) is not None and not written & {node, *node.all_input_nodes}
    ]
    count = 0
    for group in _groups(layers):
        layers = _whose_readers_take_strides(_without_repeats(group))
        if len(layers) > 1 and _pays(layers):
            _merge(module.graph, layers)
            count += len(layers) - 1
    return count


def _layer(node: fx.Node) -> _Layer | None:
    """The layer that `node` calls, where autocast casts its weight."""
    if dynamo.name_of(node) != "linear" or node.op != "call_function":
        return None
    x, weight, bias = (dynamo.argument(node, name) for name in ("input", "weight", "bias"))
    if not _is_parameter(weight) or not (bias is None or _is_parameter(bias)):
        return None
    result, value = dynamo.tensor_of(node), dynamo.value_of(weight)
    if result is None or value.dim() != 2 or result.dtype == value.dtype or result.dim() < 2:
        return None
    out = value.shape[0]
    if bias is not None and tuple(dynamo.value_of(bias).shape) != (out,):  # one for all columns
        return None
    return _Layer(node, x, weight, bias, out)


def _is_parameter(node: Any) -> bool:
    """True for a plain tensor of known sizes that is there before anything is computed."""
    value = dynamo.tensor_of(node)
    return (
        value is not None
        and node.op == "placeholder"
        and not is_traceable_wrapper_subclass(value)
        and all(isinstance(size, int) for size in value.shape)
    )


def _groups(layers: list[_Layer]) -> list[list[_Layer]]:
    """Layers that can be merged, no layer of another input between them: a decoder's layers all
    read what the encoder gives, and one product of them all would live as long as the decoder."""
    groups: list[list[_Layer]] = []
    for _, run_of_one in itertools.groupby(layers, key=lambda layer: layer.input):
        kinds: dict[Any, list[_Layer]] = defaultdict(list)
        for layer in run_of_one:
            kinds[_kind(layer)].append(layer)
        groups.extend(kinds.values())
    return groups


def _kind(layer: _Layer) -> Any:
    """What layers of one input must have in common."""
    result, weight = layer.node.meta["example_value"], layer.weight.meta["example_value"]
    bias = None if layer.bias is None else layer.bias.meta["example_value"]
    learned = weight.requires_grad, bias is not None and bias.requires_grad
    return (
        result.dtype,
        result.requires_grad,
        weight.dtype,
        None if bias is None else bias.dtype,
        *learned,
    )


def _without_repeats(group: list[_Layer]) -> list[_Layer]:
    """The first of tied layers, which are one computation already; in the graph's order."""
    first: dict[fx.Node, _Layer] = {}
    for layer in group:
        first.setdefault(layer.weight, layer)
    return list(first.values())


def _pays(layers: list[_Layer]) -> bool:
    if not any(layer.node.meta["example_value"].requires_grad for layer in layers):
        return True
    copied = sum(layer.out for layer in layers if _goes_into_attention(layer.node))
    return copied <= _MOST_COPIED * sum(layer.out for layer in layers)


def _goes_into_attention(node: fx.Node) -> bool:
    """True when attention reads the layer's result as it is."""
    return any(
        dynamo.name_of(user) == "scaled_dot_product_attention"
        or (dynamo.name_of(user) in stride_invariance.VIEWS and _goes_into_attention(user))
        for user in node.users
    )


def _whose_readers_take_strides(layers: list[_Layer]) -> list[_Layer]:
    """Those whose readers all take results whose rows do not follow on one another."""
    while len(layers) > 1:
        parts = _parts(_merged_value(layers), layers)
        left = [
            layer
            for layer, part in zip(layers, parts, strict=True)
            if stride_invariance.readers_ignore_strides(layer.node, part)
        ]
        if len(left) == len(layers):
            break
        layers = left
    return layers


def _merged_value(layers: list[_Layer]) -> torch.Tensor:
    first = layers[0].node.meta["example_value"]
    with torch.no_grad():
        return first.new_empty((*first.shape[:-1], sum(layer.out for layer in layers)))


def _parts(merged: torch.Tensor, layers: list[_Layer]) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        return torch.split(merged, [layer.out for layer in layers], -1)


def _merge(graph: fx.Graph, layers: list[_Layer]) -> None:
    first = layers[0]
    sizes = [layer.out for layer in layers]
    value = _merged_value(layers)
    with graph.inserting_before(first.node):
        weight = dynamo.function(graph, torch.cat, [layer.weight for layer in layers])
        bias = None
        if first.bias is not None:
            bias = dynamo.function(graph, torch.cat, [layer.bias for layer in layers])
        merged = graph.call_function(F.linear, (first.input, weight, bias))
        merged.meta = {**first.node.meta, "example_value": value}
        split = graph.call_function(torch.split, (merged, sizes, -1))
        split.meta = {**first.node.meta, "example_value": _parts(value, layers)}
        parts = [dynamo.function(graph, operator.getitem, split, i) for i in range(len(layers))]
    for layer, part in zip(layers, parts, strict=True):
        part.meta = {**layer.node.meta, "example_value": part.meta["example_value"]}
        layer.node.replace_all_uses_with(part)
        graph.erase_node(layer.node)
