# SPDX-License-Identifier: Apache-2.0
"""ReLU of a batch norm in training: backward computes the norm again and does not read the ReLU.

Batch norm's backward goes twice over its gradient and its input x: for sums of channels, and for
the gradient of x. Where a ReLU follows the norm, both passes read the ReLU's result as well, for
nothing but the sign. x is there anyway, and so are the statistics: (x - mean) * (rstd * weight) +
bias has that sign, and vectors of channels cost nothing. So backward reads two images in each pass
and not three, and forward saves the ReLU's result only where something else wants it.

The sign is the same, for the steps and their roundings are those of the forward kernel
(compiler/decompose/operators/batch_norm.cc), up to the rounding to the result's own type and the
casts behind it. threshold_backward lets a gradient through unless its operand is <= 0; relu(y) <= 0
just where y <= 0, so y takes the place of relu(y): at 0 and at -0, and where y is so small that it
is rounded to 0, the gradient is 0, as in eager; where y is NaN it goes through. Where forward runs
in eager, steps of another order may round a y next to 0 to the other side of it.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from ..insertion import (
    HANDED_ON,
    arguments,
    fake_mode_of,
    have_one_layout,
    inherited_meta,
    insert_call,
    source_of,
)
from .batch_norms import again_of, norm_of

aten = torch.ops.aten

OPERATORS = frozenset({aten.threshold_backward.default})
_CAST = aten._to_copy.default


def batch_norm_relu(joint: fx.GraphModule) -> int:
    """Changes a joint graph in place; the number of ReLUs that backward no longer reads."""
    steps = joint.graph.find_nodes(op="call_function", target=aten.threshold_backward.default)
    if not steps or (mode := fake_mode_of(joint.graph)) is None:
        return 0
    return sum(_rewrite_one(joint.graph, step, mode) for step in steps)


def _rewrite_one(graph: fx.Graph, step: fx.Node, mode: Any) -> bool:
    _, read, threshold = arguments(step)
    relu = source_of(read)
    if threshold != 0 or relu.target is not aten.relu.default:
        return False
    before, casts = arguments(relu)[0], list[fx.Node]()
    while before.target in HANDED_ON or before.target is _CAST:
        if before.target is _CAST:
            casts.append(before)
        before = before.args[0]
    norm = norm_of(before)
    if norm is None or not all(map(_keeps_signs, casts)):
        return False
    call = functools.partial(insert_call, graph, mode, inherited_meta(step))
    with graph.inserting_before(step):
        again = again_of(call, norm, before)
        for cast in reversed(casts):
            again = call(_CAST, again, **cast.kwargs)
    if not have_one_layout(again.meta["val"], read.meta["val"]):
        return False  # what was added is unused, and goes with all else that is
    step.replace_input_with(read, again)
    return True


def _keeps_signs(cast: fx.Node) -> bool:
    return cast.meta["val"].is_floating_point()
