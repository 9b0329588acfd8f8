# SPDX-License-Identifier: Apache-2.0
"""Masks that depend on no input are dropped where they mask nothing, or become is_causal=True.

Models make their masks from arange and comparisons, even where nothing is to be masked; a fused
attention kernel without a mask is twice as fast, and a causal one skips half of the work.
"""

from __future__ import annotations

import torch
from torch import fx

from ..insertion import arguments
from . import dynamo
from .constants import Constants, erase_unused

# What a mask adds to a score that it excludes, at most: its weight vanishes beside any other.
_EXCLUDED = -1e9


def attention_masks(module: fx.GraphModule) -> int:
    """Simplifies masks of attention, and scores that a mask leaves as they are."""
    constants = Constants(module.graph)
    count = 0
    for node in list(module.graph.nodes):
        name = dynamo.name_of(node)
        if name == "scaled_dot_product_attention":
            count += _attention(module.graph, node, constants)
        elif name in ("add", "masked_fill"):
            count += _scores(module.graph, node, constants)
    return count


def _attention(graph: fx.Graph, node: fx.Node, constants: Constants) -> int:
    mask = dynamo.argument(node, "attn_mask")
    if not isinstance(mask, fx.Node) or dynamo.argument(node, "is_causal", False) is not False:
        return 0
    value = constants.value(mask)
    queries, keys = (dynamo.sizes_of(dynamo.argument(node, name)) for name in ("query", "key"))
    if value is None or keys is None or queries is None:
        return 0
    kept = attended(value)
    if kept is None:
        return 0
    if kept.all():
        causal = False
    elif is_causal(kept, queries[-2], keys[-2]):
        causal = True
    else:
        return 0
    dynamo.set_argument(node, "attn_mask", None)
    dynamo.set_argument(node, "is_causal", causal)
    erase_unused(graph, mask)
    return 1


def attended(mask: torch.Tensor) -> torch.Tensor | None:
    """Where a mask lets a key be seen; None where it does anything else than include and exclude.

    mask: boolean (True: seen) or added to the scores.
    """
    if mask.dtype is torch.bool:
        return mask
    if not mask.is_floating_point():
        return None
    seen, excluded = mask == 0, mask <= _EXCLUDED
    return seen if (seen | excluded).all() else None


def is_causal(kept: torch.Tensor, queries: object, keys: object) -> bool:
    """True when each query sees its own key and all before it, in every batch and head.

    Only for as many queries as keys: of others, kernels differ in where the diagonal begins.
    """
    if kept.dim() < 2 or tuple(kept.shape[-2:]) != (queries, keys) or queries != keys:
        return False
    lower = torch.ones(kept.shape[-2:], dtype=torch.bool, device=kept.device).tril()
    return bool((kept == lower).all())


def _scores(graph: fx.Graph, node: fx.Node, constants: Constants) -> int:
    """x + 0 and masked_fill(x, False, ...), where the result has x's own shape and dtype."""
    if len(node.args) < 2 or constants.is_written(node) or "alpha" in node.kwargs:
        return 0
    x, mask = arguments(node)[:2]
    value = constants.value(mask)
    if value is None and dynamo.name_of(node) == "add":
        x, mask = mask, x
        value = constants.value(mask)
    before, after = dynamo.tensor_of(x), dynamo.tensor_of(node)
    if value is None or before is None or after is None or value.any():
        return 0
    if node.target == "masked_fill_" or not after.is_floating_point():
        return 0
    if before.dtype != after.dtype or list(before.shape) != list(after.shape):
        return 0
    node.replace_all_uses_with(x)
    graph.erase_node(node)
    erase_unused(graph, mask)
    return 1
