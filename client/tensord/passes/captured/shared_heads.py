# SPDX-License-Identifier: Apache-2.0
"""Keys and values that broadcast to queries' heads go into attention as fused kernels take them.

No fused kernel broadcasts: of Falcon, whose queries share one head of keys, torch multiplies
matrices in float32 and stores all scores. Grouped heads it knows (enable_gqa), in half precision
and without a mask; else keys and values are written for each head, which backward makes again.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from . import dynamo, stride_invariance
from .grouped_query_attention import ungrouped_attentions

_GROUPED = (torch.bfloat16, torch.float16)
_KEEP = -1


def shared_heads(module: fx.GraphModule) -> int:
    """Rewrites scaled_dot_product_attention(q, k, v) of a head of keys and values, or a batch of
    one, for several of queries."""
    autocast = dynamo.autocast_dtypes(module.graph, "cuda")
    count = 0
    for node in ungrouped_attentions(module.graph):
        query = dynamo.argument(node, "query")
        shared = {name: dynamo.argument(node, name) for name in ("key", "value")}
        expansions = [_expansion(query, operand) for operand in shared.values()]
        if expansions[0] is None or expansions[0] != expansions[1]:
            continue
        batch, heads = expansions[0]
        dtype = autocast[node] or dynamo.value_of(query).dtype
        if batch == _KEEP and dtype in _GROUPED and dynamo.argument(node, "attn_mask") is None:
            node.update_kwarg("enable_gqa", True)
        else:
            for name, operand in shared.items():
                with module.graph.inserting_before(node):
                    wide = dynamo.method(
                        module.graph, "expand", operand, batch, heads, _KEEP, _KEEP
                    )
                    wide = dynamo.method(module.graph, "contiguous", wide)
                dynamo.set_argument(node, name, wide)
        stride_invariance.keep_rows_of_heads(module.graph, node)
        count += 1
    return count


def _expansion(query: object, shared: object) -> tuple[int, int] | None:
    """To how many batches and heads keys or values broadcast, or -1 for as many as there are. None
    where neither grows, or more than that is to be done."""
    wanted, given = dynamo.sizes_of(query), dynamo.sizes_of(shared)
    if wanted is None or given is None or len(wanted) != 4 or len(given) != 4:
        return None
    found = []
    for many, one in zip(wanted[:2], given[:2], strict=True):
        if statically_known_true(many == one):
            found.append(_KEEP)
        elif isinstance(many, int) and statically_known_true(one == 1):
            found.append(many)
        else:
            return None
    return None if found == [_KEEP, _KEEP] else (found[0], found[1])
