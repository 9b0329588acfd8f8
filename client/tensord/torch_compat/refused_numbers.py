# SPDX-License-Identifier: Apache-2.0
"""Numbers that eager refuses to write into a tensor, as NaN into one of integers: torch's
declarations do not look at them."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import fx

from .fake import without_modes

aten = torch.ops.aten

# Where the number is among an operator's arguments.
_NUMBERS: dict[Any, tuple[int, str]] = {
    aten.full.default: (1, "fill_value"),
    aten.full_like.default: (1, "fill_value"),
    aten.new_full.default: (2, "fill_value"),
    aten.fill.Scalar: (1, "value"),
    aten.scalar_tensor.default: (0, "s"),
    aten.masked_fill.Scalar: (2, "value"),
    aten.constant_pad_nd.default: (2, "value"),
    aten.index_fill.int_Scalar: (3, "value"),
    aten.scatter.value: (3, "value"),
    aten.scatter.value_reduce: (3, "value"),
    aten.threshold.default: (2, "value"),
}


def eager_refuses_number(node: fx.Node) -> bool:
    """Whether a node, with its result in meta["val"], writes a number into integers that they
    cannot have. One that a float type has no room for becomes infinite, as in TorchInductor, where
    eager raises: that is how models with -1e30 in half precision run under torch.compile."""
    place = _NUMBERS.get(node.target)
    result = node.meta.get("val")
    if place is None or not isinstance(result, torch.Tensor):
        return False
    position, name = place
    number: Any = node.args[position] if len(node.args) > position else node.kwargs.get(name)
    if type(number) not in (int, float) or result.dtype.is_floating_point:
        return False
    return not _fits(number, result.dtype)


@functools.lru_cache(maxsize=1024, typed=True)
def _fits(number: float, dtype: torch.dtype) -> bool:
    try:
        with without_modes():
            torch.scalar_tensor(number, dtype=dtype, device="cpu")
    except (RuntimeError, OverflowError):
        return False
    return True
