"""Memory like that of a tensor, and copies into it."""

from __future__ import annotations

import torch


def place_like(tensor: torch.Tensor) -> torch.Tensor:
    """Memory for a tensor of this shape and strides, which may be written to in every mode."""
    with torch.inference_mode(False):
        return torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device
        )


def copy_into(place: torch.Tensor, tensor: torch.Tensor) -> None:
    """Copies, an expanded dimension once."""
    if 0 in tensor.stride():
        size = [1 if t == 0 else n for n, t in zip(tensor.shape, tensor.stride(), strict=True)]
        place, tensor = (x.as_strided(size, x.stride()) for x in (place, tensor))
    place.copy_(tensor, non_blocking=True)
