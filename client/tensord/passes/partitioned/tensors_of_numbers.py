# SPDX-License-Identifier: Apache-2.0
"""Numbers that torch makes tensors by copying them."""

from __future__ import annotations

import torch
from torch import fx

from ..insertion import arguments, fake_mode_of, inherited_meta, insert_call

_aten = torch.ops.aten
OPERATORS = (_aten._to_copy.default,)


def tensors_of_numbers(module: fx.GraphModule) -> int:
    """Replaces `_to_copy(1, dtype=...)`, which nested vmaps leave where a schema wants a tensor, by
    `full([], 1, dtype=...)`. Gives how often it did."""
    graph = module.graph
    fake_mode = fake_mode_of(graph)
    count = 0
    for node in graph.find_nodes(op="call_function", target=_aten._to_copy.default):
        number = arguments(node)[0]
        if fake_mode is None or not isinstance(number, (bool, int, float)):
            continue
        value = node.meta["val"]
        with graph.inserting_before(node):
            tensor = insert_call(
                graph, fake_mode, inherited_meta(node), _aten.full.default, [], number,
                dtype=value.dtype, device=value.device,
            )  # fmt: skip
        node.replace_all_uses_with(tensor)
        graph.erase_node(node)
        count += 1
    return count
