# SPDX-License-Identifier: Apache-2.0
"""Batch norms in training, whose result can be had again from what they read and their statistics.

The steps and their roundings are those of the forward kernel
(compiler/decompose/operators/batch_norm.cc).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ..insertion import argument, arguments

aten = torch.ops.aten

# Batch norms that are lowered, and whether they have an argument `training`: it is always so for
# others. Their first results are the result, mean and rstd.
NORMS: dict[Any, bool] = {
    aten._native_batch_norm_legit.no_stats: True,
    aten._native_batch_norm_legit_functional.default: True,
    aten._batch_norm_with_update_functional.default: False,
    aten.native_batch_norm.default: True,
}
_RESULT, _MEAN, _RSTD, _RESERVE = range(4)
_WITH_RESERVE = aten._batch_norm_with_update_functional.default


def norm_of(node: fx.Node) -> fx.Node | None:
    """The batch norm in training whose result the node is, where its value can be had again."""
    if node.target is not operator.getitem or node.args[1] != _RESULT:
        return None
    norm: fx.Node = arguments(node)[0]
    if norm.target not in NORMS:
        return None
    if NORMS[norm.target] and not argument(norm, "training"):
        return None
    values = norm.meta["val"]
    if norm.target is _WITH_RESERVE and values[_RESERVE].numel() != 0:
        return None  # cuDNN's own, which stays a library call
    # Statistics that were rounded before they were saved give other values.
    x = argument(norm, "input").meta["val"]
    exact = torch.promote_types(x.dtype, torch.float32)
    return norm if all(values[i].dtype == exact for i in (_MEAN, _RSTD)) else None


def again_of(call: Any, norm: fx.Node, result: fx.Node) -> fx.Node:
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
    return y if y.meta["val"].dtype == dtype else call(aten._to_copy.default, y, dtype=dtype)
