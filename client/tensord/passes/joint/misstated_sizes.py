# SPDX-License-Identifier: Apache-2.0
"""Results whose sizes fake tensors have wrong.

Some versions of torch run an operator that they know no better on zeros, and take what that gives
for sizes that data decides (2.11: `_unique`), or miss how many dimensions there are (2.11:
`unique_consecutive` along a negative one, `linalg.vector_norm` along negative ones of size 1, which
it keeps). What is computed from such results has sizes that nobody knows either: no program can be
compiled for them, and eager runs all of it, where sizes are what they are.
"""

from __future__ import annotations

import torch
from torch import fx

from ... import torch_compat
from ...wire.call_backs import DISGUISED
from ..insertion import argument, gradient_nodes, gradients_given
from . import embedding_bags

_aten = torch.ops.aten
_CONSECUTIVE = _aten.unique_consecutive.default
_REASON = "has sizes that torch does not know"
_VECTOR_NORM = _aten.linalg_vector_norm.default

# The others whose sizes data decides are right about what has no elements.
OPERATORS = (
    _aten._unique.default,
    _aten._unique2.default,
    _aten.unique_dim.default,
    _aten.unique_dim_consecutive.default,
    _CONSECUTIVE,
    _VECTOR_NORM,
    *embedding_bags.OPERATORS,
)


def misstated_sizes(module: fx.GraphModule) -> int:
    """Marks such results and all that depends on them as opaque. The partitioner keeps the marks,
    so that backward has them of what forward saves. Changes nothing, and gives 0."""
    _mark(module.graph)
    if tangents := _tangents_of_misstated(module.graph):
        for tangent in tangents:
            tangent.meta[DISGUISED] = _REASON
        _mark(module.graph)
    return 0


def _mark(graph: fx.Graph) -> None:
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if _is_misstated(node) or any(DISGUISED in n.meta for n in node.all_input_nodes):
            node.meta[DISGUISED] = _REASON


def _tangents_of_misstated(graph: fx.Graph) -> list[fx.Node]:
    """The gradients of such results that a joint graph is given: which are whose it does not say,
    so those that are said to have the sizes of one."""
    tangents = gradients_given(graph)
    backward = gradient_nodes(graph)
    results = [n for n in graph.output_node().all_input_nodes if n not in backward]
    misstated = {_sizes(node) for node in results if DISGUISED in node.meta} - {""}
    return [node for node in tangents if _sizes(node) in misstated]


def _sizes(node: fx.Node) -> str:
    """As text: comparing symbols would set guards."""
    value = node.meta.get("val")
    return str(tuple(value.shape)) if isinstance(value, torch.Tensor) else ""


def _is_misstated(node: fx.Node) -> bool:
    if node.target not in OPERATORS:
        return False
    if node.target in embedding_bags.OPERATORS:
        return embedding_bags.is_misstated(node)
    if node.target is _VECTOR_NORM:
        return _keeps_dimensions(node)
    if not torch_compat.depends_on_data(node.meta.get("val")):
        return True
    if node.target is not _CONSECUTIVE:
        return False
    dim = argument(node, "dim")
    return isinstance(dim, int) and dim < 0


def _keeps_dimensions(norm: fx.Node) -> bool:
    """Whether a vector norm is said to have dimensions that it reduces."""
    x, dims, keeps = (argument(norm, name) for name in ("self", "dim", "keepdim"))
    value = norm.meta.get("val")
    if keeps or not isinstance(x, fx.Node) or not isinstance(value, torch.Tensor):
        return False
    rank = x.meta["val"].dim()
    reduced = {dim % max(rank, 1) for dim in dims} if dims else range(rank)
    return value.dim() != max(rank - len(reduced), 0)
