# SPDX-License-Identifier: Apache-2.0
"""Embedding bags in bfloat16 on a CPU: the bag of each index, which eager leaves out.

Where eager's kernel sums rows at once it has no use for the second result (`offset2bag`), and gives
an empty one. torch's fake implementation knows that of float32 and float16, not of bfloat16 (2.11
to 2.13): what is said of that result is corrected, also for backward, which is given it.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from ..insertion import argument

_BAG = torch.ops.aten._embedding_bag.default
_SUM = 0  # a mode

OPERATORS = (_BAG,)


def embedding_bags(module: fx.GraphModule) -> int:
    """Changes what nodes' meta says; the number of bags of which it does."""
    bags = module.graph.find_nodes(op="call_function", target=_BAG)
    return sum(map(_correct, bags))


def _correct(bag: fx.Node) -> bool:
    result, of_indices, *others = bag.meta["val"]
    if not _is_summed_at_once(bag) or str(of_indices.shape[0]) == "0":
        return False
    nothing = of_indices.new_empty(0)
    bag.meta["val"] = (result, nothing, *others)
    for user in bag.users:
        if user.target is operator.getitem and user.args[1] == 1:
            user.meta["val"] = nothing
    return True


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
