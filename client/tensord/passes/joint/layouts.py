# SPDX-License-Identifier: Apache-2.0
"""How tensors lie in memory. Strides of dimensions of size 1 say nothing."""

from __future__ import annotations

from typing import Any

import torch


def same_memory(a: Any, b: Any) -> bool:
    """True where elements lie at the same places."""
    if not isinstance(a, torch.Tensor):
        return True
    strides = zip(a.shape, a.stride(), b.stride(), strict=True)
    return all(size == 1 or mine == yours for size, mine, yours in strides)


def order(tensor: torch.Tensor) -> list[int]:
    """The dimensions from the outermost in memory to the innermost."""
    return sorted(range(tensor.dim()), key=tensor.stride, reverse=True)


def _lies_in(tensor: torch.Tensor, order: list[int]) -> bool:
    """Without gaps, in this order of dimensions. Those of size 1 may be anywhere."""
    expected = 1
    for d in reversed(order):
        if tensor.size(d) > 1 and tensor.stride(d) != expected:
            return False
        expected *= tensor.size(d)
    return True


def is_dense(tensor: torch.Tensor) -> bool:
    return _lies_in(tensor, order(tensor))


def is_channels_last(tensor: Any) -> bool:
    return _is_image(tensor) and _lies_in(tensor, [0, 2, 3, 1])


def is_row_major(tensor: Any) -> bool:
    """And not in channels-last memory too, as where one of both dimensions has size 1."""
    return (
        _is_image(tensor) and _lies_in(tensor, [0, 1, 2, 3]) and not _lies_in(tensor, [0, 2, 3, 1])
    )


def _is_image(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 4


def bytes_of(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()
