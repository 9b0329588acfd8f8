# SPDX-License-Identifier: Apache-2.0
"""The order in which attention tries its kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

# The orders in which torch itself tries its attention kernels: SDPBackend's numbers.
_MATH, _FLASH, _EFFICIENT, _CUDNN, _OVERRIDEABLE = range(5)
_ORDERS = (
    [_FLASH, _EFFICIENT, _MATH, _CUDNN, _OVERRIDEABLE],
    [_FLASH, _EFFICIENT, _MATH, _CUDNN],
    [_CUDNN, _FLASH, _EFFICIENT, _MATH],
)


@contextlib.contextmanager
def fastest_attention_first() -> Iterator[None]:
    """A block in which scaled_dot_product_attention takes cuDNN's kernel first, from Hopper on.

    torch chooses while a graph is traced, so the choice is in the graph. Where cuDNN does not serve
    a case, or is switched off, torch goes on to the next; an order that the user set is kept.
    """
    read = getattr(torch._C, "_get_sdp_priority_order", None)
    write = getattr(torch._C, "_set_sdp_priority_order", None)
    if read is None or write is None or not torch.cuda.is_available():
        yield
        return
    before = list(read())
    hopper = torch.cuda.get_device_capability() >= (9, 0)
    if not hopper or before not in _ORDERS:
        yield
        return
    rest = [kernel for kernel in before if kernel != _CUDNN]
    write([_CUDNN, *rest])
    try:
        yield
    finally:
        write(before)
