# SPDX-License-Identifier: Apache-2.0
"""Sizes that data decides and that fake tensors have as numbers.

Some versions of torch run an operator that they know no better on zeros, and take what that gives
for the sizes (2.11: `_unique`), or miss how many dimensions there are (`unique_consecutive` along a
negative one). What is computed from such results has sizes that nobody knows either: no program
can be compiled for them, and eager runs all of it, where sizes are what they are.
"""

from __future__ import annotations

import torch
from torch import fx

from ... import torch_compat
from ...wire.call_backs import DISGUISED

_aten = torch.ops.aten
_CONSECUTIVE = _aten.unique_consecutive.default

# The others whose sizes data decides are right about what has no elements.
OPERATORS = (
    _aten._unique.default,
    _aten._unique2.default,
    _aten.unique_dim.default,
    _aten.unique_dim_consecutive.default,
    _CONSECUTIVE,
)


def misstated_sizes(module: fx.GraphModule) -> int:
    """Marks such results and all that depends on them as opaque. The partitioner keeps the marks,
    so that backward has them of what forward saves. Changes nothing, and gives 0."""
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if _is_misstated(node) or any(DISGUISED in n.meta for n in node.all_input_nodes):
            node.meta[DISGUISED] = "has sizes that torch does not know"
    return 0


def _is_misstated(node: fx.Node) -> bool:
    if node.target not in OPERATORS:
        return False
    if not torch_compat.depends_on_data(node.meta.get("val")):
        return True
    dim = node.kwargs.get("dim", node.args[3] if len(node.args) > 3 else None)
    return node.target is _CONSECUTIVE and isinstance(dim, int) and dim < 0
