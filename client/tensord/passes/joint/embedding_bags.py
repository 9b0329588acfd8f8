# SPDX-License-Identifier: Apache-2.0
"""Embedding bags in bfloat16 on a CPU: the bag of each index, which eager leaves out.

Where eager's kernel sums rows at once it has no use for the second result (`offset2bag`), and gives
an empty one. torch's fake implementation knows that of float32 and float16, not of bfloat16 (2.11
to 2.13). What is said of a result that only backward is given is corrected; where others read it,
misstated_sizes.py leaves them to eager.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from ..insertion import argument

_aten = torch.ops.aten
_BAG = _aten._embedding_bag.default
_FORWARD_ONLY = _aten._embedding_bag_forward_only.default
# What is given the second result, which has nothing to be derived from.
_BACKWARD = (
    _aten._embedding_bag_backward.default,
    _aten._embedding_bag_dense_backward.default,
    _aten._embedding_bag_per_sample_weights_backward.default,
)
_SUM = 0  # a mode

OPERATORS = (_BAG, _FORWARD_ONLY)


def embedding_bags(module: fx.GraphModule) -> int:
    """Changes what nodes' meta says; the number of bags of which it does."""
    bags = module.graph.find_nodes(op="call_function", target=_BAG)
    return sum(map(_correct, bags))


def is_misstated(bag: fx.Node) -> bool:
    """Whether something reads a result that is said to have elements and has none."""
    return bool(_readers(_seconds(bag))) and _says_too_much(bag)


def _correct(bag: fx.Node) -> bool:
    seconds = _seconds(bag)
    if any(r.target not in _BACKWARD for r in _readers(seconds)) or not _says_too_much(bag):
        return False
    result, of_indices, *others = bag.meta["val"]
    nothing = of_indices.new_empty(0)
    bag.meta["val"] = (result, nothing, *others)
    for second in seconds:
        second.meta["val"] = nothing
    return True


def _seconds(bag: fx.Node) -> list[fx.Node]:
    """The nodes that take the second result."""
    return [user for user in bag.users if user.target is operator.getitem and user.args[1] == 1]


def _readers(nodes: list[fx.Node]) -> list[fx.Node]:
    return [reader for node in nodes for reader in node.users]


def _says_too_much(bag: fx.Node) -> bool:
    return _is_summed_at_once(bag) and str(bag.meta["val"][1].shape[0]) != "0"


def _is_summed_at_once(bag: fx.Node) -> bool:
    weight = argument(bag, "weight").meta["val"]
    factors = argument(bag, "per_sample_weights")
    # As text: comparing symbols would set guards.
    return (
        weight.device.type == "cpu"
        and weight.dtype == torch.bfloat16
        and argument(bag, "mode") == _SUM
        and argument(bag, "padding_idx") < 0
        and str(weight.stride(1)) == "1"
        and (factors is None or str(factors.meta["val"].stride(0)) == "1")
    )
