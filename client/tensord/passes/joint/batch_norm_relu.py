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
import operator
from typing import Any

import torch
from torch import fx

from ..insertion import argument, arguments, fake_mode_of, inherited_meta, insert_call

aten = torch.ops.aten

OPERATORS = frozenset({aten.threshold_backward.default})
# Batch norms that are lowered, and whether they have an argument `training`: it is always so for
# others. Their first results are the result, mean and rstd.
_NORMS: dict[Any, bool] = {
    aten._native_batch_norm_legit.no_stats: True,
    aten._native_batch_norm_legit_functional.default: True,
    aten._batch_norm_with_update_functional.default: False,
    aten.native_batch_norm.default: True,
}
_RESULT, _MEAN, _RSTD, _RESERVE = range(4)
_WITH_RESERVE = aten._batch_norm_with_update_functional.default

# What hands on its argument as it is.
_SAME = frozenset({aten.detach.default, aten.alias.default})
_CAST = aten._to_copy.default


def batch_norm_relu(joint: fx.GraphModule) -> int:
    """Changes a joint graph in place; the number of ReLUs that backward no longer reads."""
    steps = joint.graph.find_nodes(op="call_function", target=aten.threshold_backward.default)
    if not steps or (mode := fake_mode_of(joint.graph)) is None:
        return 0
    return sum(_rewrite_one(joint.graph, step, mode) for step in steps)


def _rewrite_one(graph: fx.Graph, step: fx.Node, mode: Any) -> bool:
    _, read, threshold = arguments(step)
    relu = _source(read)
    if threshold != 0 or relu.target is not aten.relu.default:
        return False
    before, casts = arguments(relu)[0], list[fx.Node]()
    while before.target in _SAME or before.target is _CAST:
        if before.target is _CAST:
            casts.append(before)
        before = before.args[0]
    norm = _norm_of(before)
    if norm is None or not all(map(_keeps_signs, casts)):
        return False
    call = functools.partial(insert_call, graph, mode, inherited_meta(step))
    with graph.inserting_before(step):
        again = _again(call, norm, before)
        for cast in reversed(casts):
            again = call(_CAST, again, **cast.kwargs)
    if not _have_one_layout(again.meta["val"], read.meta["val"]):
        return False  # what was added is unused, and goes with all else that is
    step.replace_input_with(read, again)
    return True


def _source(node: fx.Node) -> fx.Node:
    while node.target in _SAME:
        node = arguments(node)[0]
    return node


def _norm_of(node: fx.Node) -> fx.Node | None:
    """The batch norm in training whose result the node is, where its value can be had again."""
    if node.target is not operator.getitem or node.args[1] != _RESULT:
        return None
    norm: fx.Node = arguments(node)[0]
    if norm.target not in _NORMS:
        return None
    if _NORMS[norm.target] and not argument(norm, "training"):
        return None
    values = norm.meta["val"]
    if norm.target is _WITH_RESERVE and values[_RESERVE].numel() != 0:
        return None  # cuDNN's own, which stays a library call
    # Statistics that were rounded before they were saved give other values.
    x = argument(norm, "input").meta["val"]
    exact = torch.promote_types(x.dtype, torch.float32)
    return norm if all(values[i].dtype == exact for i in (_MEAN, _RSTD)) else None


def _keeps_signs(cast: fx.Node) -> bool:
    return cast.meta["val"].is_floating_point()


def _again(call: Any, norm: fx.Node, result: fx.Node) -> fx.Node:
    """The norm's result once more, in the steps of its kernel."""
    x, weight, bias = (argument(norm, name) for name in ("input", "weight", "bias"))
    mean, scale = (call(operator.getitem, norm, i) for i in (_MEAN, _RSTD))
    if weight is not None:
        scale = call(aten.mul.Tensor, scale, weight)
    shape = [1, -1, *[1] * (x.meta["val"].dim() - 2)]
    mean, scale = (call(aten.view.default, vector, shape) for vector in (mean, scale))
    y = call(aten.mul.Tensor, call(aten.sub.Tensor, x, mean), scale)
    if bias is not None:
        y = call(aten.add.Tensor, y, call(aten.view.default, bias, shape))
    dtype = result.meta["val"].dtype
    return y if y.meta["val"].dtype == dtype else call(_CAST, y, dtype=dtype)


def _have_one_layout(a: torch.Tensor, b: torch.Tensor) -> bool:
    """The same type, sizes and layout."""
    return (a.dtype, a.shape, str(a.stride())) == (b.dtype, b.shape, str(b.stride()))
