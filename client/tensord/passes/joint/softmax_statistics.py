# SPDX-License-Identifier: Apache-2.0
"""The statistics of long rows' log-softmax, saved for backward: `tensord::softmax_statistics`.

Backward computes a log-softmax again from the logits rather than load it, which means reading each
row twice: for its maximum and sum, and for the result. Two numbers of a row, saved by the forward
graph, make it one pass.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

import torch
from torch import fx

from ..insertion import arguments, fake_mode_of, inherited_meta, insert_call

_aten = torch.ops.aten

OPERATORS = frozenset({_aten._log_softmax.default})
# Shorter rows are held on chip while backward computes with them.
LEAST_CLASSES = 4096

_LIBRARY = torch.library.Library("tensord", "FRAGMENT")
# max(x) and log(sum(exp(x - max(x)))) over `dim`, which is kept, as float32.
_LIBRARY.define(
    "softmax_statistics(Tensor x, int dim) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _statistics(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    x = x.float()
    maximum = x.amax(dim, keepdim=True)
    return maximum, (x - maximum).exp().sum(dim, keepdim=True).log()


_LIBRARY.impl("softmax_statistics", _statistics, "CompositeExplicitAutograd")


@torch.library.register_fake("tensord::softmax_statistics", lib=_LIBRARY)
def _statistics_fake(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, torch.Tensor]:
    size = list(x.shape)
    size[dim] = 1
    maximum, logarithm = (x.new_empty(size, dtype=torch.float32) for _ in range(2))
    return maximum, logarithm


statistics = torch.ops.tensord.softmax_statistics.default


def softmax_statistics(joint: fx.GraphModule) -> int:
    """Gives each log-softmax of long rows its statistics, in place; the number of them.

    Results of float64, or laid out otherwise than their operand, are left.
    """
    nodes = [n for n in joint.graph.nodes if n.target in OPERATORS and _is_long(n)]
    if not nodes or (mode := fake_mode_of(joint.graph)) is None:
        return 0
    for node in nodes:
        _rewrite_one(joint.graph, node, mode)
    return len(nodes)


def _is_long(node: fx.Node) -> bool:
    x, dim = arguments(node)[0].meta["val"], arguments(node)[1]
    if x.dim() == 0 or torch.float64 in (x.dtype, node.meta["val"].dtype):
        return False
    classes = x.shape[dim]
    return (
        isinstance(classes, int)
        and classes >= LEAST_CLASSES
        and str(x.stride()) == str(node.meta["val"].stride())
    )


def _rewrite_one(graph: fx.Graph, node: fx.Node, mode: Any) -> None:
    x, dim = arguments(node)[:2]
    call = functools.partial(insert_call, graph, mode, inherited_meta(node))
    with graph.inserting_before(node):
        wide = x
        if x.meta["val"].dtype != torch.float32:
            wide = call(_aten._to_copy.default, x, dtype=torch.float32)
        both = call(statistics, x, dim)
        maximum, logarithm = (call(operator.getitem, both, i) for i in range(2))
        result = call(_aten.sub.Tensor, call(_aten.sub.Tensor, wide, maximum), logarithm)
        if node.meta["val"].dtype != torch.float32:
            result = call(_aten._to_copy.default, result, dtype=node.meta["val"].dtype)
    node.replace_all_uses_with(result)
    graph.erase_node(node)
