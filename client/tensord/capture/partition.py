"""How a joint graph is cut into forward and backward: torch's min-cut partitioner, told what
tensord's kernels compute again for little."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .. import fallback, torch_compat
from ..counters import STATS
from ..passes.joint import (
    batch_norm_relu,
    channels_last,
    common_subexpressions,
    counter_based_random,
    pool_offsets,
    softmax_statistics,
)

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
    _aten._log_softmax,
    _aten._log_softmax_backward_data,
    _aten._softmax,
    _aten._safe_softmax,
    _aten._softmax_backward_data,
)


def partition(joint: fx.GraphModule, inputs: Any, **arguments: Any) -> Any:
    """torch's min-cut partition of the joint graph, after random operators became counter-based and
    convolutions channels-last, log-softmax of long rows got statistics that are saved, max pooling
    offsets, and ReLUs of batch norms are no longer read by backward."""
    from torch._functorch.partitioners import min_cut_rematerialization_partition

    torch_compat.let_partitioner_recompute(FUSED, (torch.ops.tensord.softmax_statistics,))
    counter_based_random.rewrite(joint)
    _run(joint, channels_last.run, "channels_last")
    _run(joint, softmax_statistics.rewrite)
    _run(joint, pool_offsets.rewrite)
    _run(joint, batch_norm_relu.rewrite, "relus_recomputed")
    with _subexpressions_merged(joint):
        return min_cut_rematerialization_partition(joint, inputs, compiler="inductor", **arguments)


def _subexpressions_merged(joint: fx.GraphModule) -> contextlib.AbstractContextManager[Any]:
    """Merges common subexpressions, and has torch leave that out; where this fails or is left to
    torch, it does it."""
    if torch_compat.subexpressions_are_kept():
        return contextlib.nullcontext()
    try:
        merged = common_subexpressions.run(joint) is not None
    except Exception as error:
        fallback.note(error, "a pass over the joint graph", "is left out")
        merged = False
    return torch_compat.keep_subexpressions() if merged else contextlib.nullcontext()


def _run(
    joint: fx.GraphModule, rewrite: Callable[[fx.GraphModule], int], counter: str | None = None
) -> None:
    """One pass; where it fails the joint graph goes on as it was, or with some of it done.

    No pass leaves half a change: each decides before it changes something, and adds a new form
    whole before anything reads it. What it had begun is read by nothing, and goes.
    """
    try:
        count = rewrite(joint)
    except Exception as error:
        fallback.note(error, "a pass over the joint graph", "is left out")
        return
    if counter is not None:
        STATS.add(counter, count)
