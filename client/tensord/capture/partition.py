# SPDX-License-Identifier: Apache-2.0
"""How a joint graph is cut into forward and backward: torch's min-cut partitioner, told what
tensord's kernels compute again for little."""

from __future__ import annotations

import contextlib
from collections.abc import Container
from typing import Any

import torch
from torch import fx

from .. import passes, torch_compat
from ..counters import STATS
from ..wire import spans
from .saved_products import pad_saved_products
from .saved_views import copy_saved_views

_aten = torch.ops.aten

# Operators that this compiler lowers whole and fuses like their neighbours. torch's lists name what
# they decompose into instead. Computed again from its input, a log-softmax over a vocabulary need
# not be stored at all: the forward kernel leaves the losses, the backward one reads the logits.
FUSED = (
    _aten.detach,
    _aten.nll_loss_forward,
    _aten.nll_loss_backward,
    _aten.nll_loss2d_forward,
    _aten.nll_loss2d_backward,
    torch.ops.tensord.philox_uniform,
    torch.ops.tensord.philox_normal,
    torch.ops.tensord.checked_probability,
    torch.ops.tensord.checked_deviation,
    _aten._log_softmax,
    _aten._log_softmax_backward_data,
    _aten._softmax,
    _aten._safe_softmax,
    _aten._softmax_backward_data,
    _aten._conj_physical,
    _aten.complex,
    _aten.polar,
    _aten.view_as_complex,
    _aten.view_as_real,
    _aten.floor_divide,
    _aten.linspace,
    _aten.hardswish,
    _aten.glu,
    _aten._prelu_kernel,
    # Gradients of activations and losses: what they read is computed again beside them.
    _aten.elu_backward,
    _aten.glu_backward,
    _aten.hardshrink_backward,
    _aten.hardsigmoid_backward,
    _aten.hardswish_backward,
    _aten.hardtanh_backward,
    _aten.leaky_relu_backward,
    _aten.log_sigmoid_backward,
    _aten.mish_backward,
    _aten.softplus_backward,
    _aten.softshrink_backward,
    _aten.binary_cross_entropy_backward,
    _aten.huber_loss_backward,
    _aten.mse_loss_backward,
    _aten.smooth_l1_loss_backward,
)

# What is computed again for none of its results, while it reads what is beside it in registers: an
# image that a residual was added to is added up again by a norm's backward, of which a product gave
# half in 16 bits, and under autocast a norm converts there what a convolution gave.
READING = (
    torch.ops.tensord.softmax_statistics,
    _aten.native_layer_norm,
    _aten.native_layer_norm_backward,
    _aten.native_group_norm,
    _aten.native_group_norm_backward,
    _aten._fused_rms_norm,
    _aten._fused_rms_norm_backward,
)

# A view that is left whole here. TorchInductor has it as aten::permute, which torch's list names.
VIEWS = (_aten.transpose,)


def partition(
    joint: fx.GraphModule, inputs: Any, *, off: Container[str] = (), **arguments: Any
) -> Any:
    """torch's min-cut partition of the joint graph, behind the passes over that. off: switches."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    torch_compat.let_partitioner_recompute(FUSED, READING, VIEWS)
    ran = passes.run("joint", joint, off)
    merged = "common_subexpressions" in ran.changes  # else torch does it
    with torch_compat.keep_subexpressions() if merged else contextlib.nullcontext():
        forward, backward = min_cut_rematerialization_partition(
            joint, inputs, compiler="inductor", **arguments
        )
    with spans.timed("passes", "partition"):
        results = arguments["num_fwd_outputs"]
        STATS.add("saved_views_copied", copy_saved_views(forward, backward, results))
        STATS.add("saved_products_padded", pad_saved_products(forward, backward, results))
    return forward, backward
