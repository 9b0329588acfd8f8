# SPDX-License-Identifier: Apache-2.0
"""Masks of attention whose rows are not in one piece in memory are copied so that they are.

torch's fused kernels refuse such masks, and what is left multiplies matrices in float32 and stores
all scores: of T5, whose position bias is a permuted embedding, in every layer. The copy is made by
the kernel that makes the mask; equal copies for several layers become one later.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from . import dynamo, stride_invariance


def mask_layouts(module: fx.GraphModule) -> int:
    """Copies masks of scaled_dot_product_attention whose last stride is not known to be 1, each
    where it is read: what it is a view of may change on the way, and gradients begin or end."""
    count = 0
    for node in list(module.graph.nodes):
        if dynamo.name_of(node) != "scaled_dot_product_attention":
            continue
        mask = dynamo.argument(node, "attn_mask")
        if not isinstance(mask, fx.Node) or not _has_strided_rows(dynamo.tensor_of(mask)):
            continue
        with module.graph.inserting_before(node):
            dynamo.set_argument(node, "attn_mask", _packed(module.graph, mask))
        stride_invariance.keep_rows_of_heads(module.graph, node)
        count += 1
    return count


def _has_strided_rows(mask: torch.Tensor | None) -> bool:
    if mask is None or mask.dim() < 2 or mask.layout is not torch.strided:
        return False
    # A row that repeats one number stays as it is.
    leave = [mask.stride(-1) == 1, mask.stride(-1) == 0, mask.shape[-1] == 1]
    return not any(map(statically_known_true, leave + [size == 0 for size in mask.shape]))


def _packed(graph: fx.Graph, mask: fx.Node) -> fx.Node:
    """The mask row by row; a dimension along which it is repeated stays so."""
    value = dynamo.value_of(mask)
    one = mask
    for dim, stride in enumerate(value.stride()):
        if isinstance(stride, int) and stride == 0:
            one = dynamo.method(graph, "narrow", one, dim, 0, 1)
    copy = dynamo.method(graph, "contiguous", one)
    return copy if one is mask else dynamo.method(graph, "expand_as", copy, mask)
