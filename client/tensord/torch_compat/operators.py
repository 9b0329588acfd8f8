# SPDX-License-Identifier: Apache-2.0
"""What operators are called, which are better whole, and what torch says of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

# Operators that are better whole, as one library call, than as the small operators that torch would
# make of them; the daemon runs what it does not lower through torch's dispatcher.
KEEP_WHOLE = frozenset(
    {
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_scaled_dot_product_flash_attention_backward",
        "aten::_scaled_dot_product_efficient_attention_backward",
        "aten::_scaled_dot_product_cudnn_attention_backward",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::embedding_dense_backward",
        "aten::_embedding_bag",
        "aten::upsample_bilinear2d.vec",
        "aten::upsample_bicubic2d.vec",
        "aten::grid_sampler_2d",
        "aten::max_pool2d_with_indices_backward",
        "aten::addmm",
        "aten::baddbmm",
        "aten::mm",
        "aten::bmm",
        "aten::cumsum",
        "aten::cumprod",
    }
)


def operator_name(op: torch._ops.OpOverload) -> str:
    """The name as the daemon has it: aten::sum.dim_IntList; the default overload has no suffix."""
    name = op._schema.name
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def target_name(node: fx.Node) -> str:
    """What a node calls, for people."""
    if isinstance(node.target, torch._ops.OpOverload):
        return operator_name(node.target)
    return getattr(node.target, "__name__", str(node.target))


@functools.cache
def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions to core ATen, {OpOverload: function}; not to be changed."""
    try:  # 2.11 to 2.13: the table without composite operators, which autograd decomposes anyway
        from torch._decomp import _core_aten_decompositions_post_autograd

        return dict(_core_aten_decompositions_post_autograd())
    except ImportError:
        from torch._decomp import core_aten_decompositions

        return dict(core_aten_decompositions().items())


def effect_operators() -> frozenset[Any]:
    """What a graph calls an operator with effects by: with_effects(token, operator, ...)."""
    try:
        from torch._higher_order_ops.effects import with_effects
    except ImportError:
        return frozenset()
    return frozenset({with_effects})


def is_random(node: fx.Node) -> bool:
    """True for operators that draw from a generator."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags
