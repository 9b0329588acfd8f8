# SPDX-License-Identifier: Apache-2.0
"""Buffers laid out like a tensor, and copies into them."""

from __future__ import annotations

import torch


def buffer_like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for a tensor of this shape and strides, which may be written to in every mode."""
    with torch.inference_mode(False):
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )


def copy_into(buffer: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copies, an expanded dimension once."""
    if 0 in tensor.stride():
        size = [1 if t == 0 else n for n, t in zip(tensor.shape, tensor.stride(), strict=True)]
        buffer, tensor = (x.as_strided(size, x.stride()) for x in (buffer, tensor))
    buffer.copy_(tensor, non_blocking=True)
