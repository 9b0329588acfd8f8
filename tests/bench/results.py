# SPDX-License-Identifier: Apache-2.0
"""What benchmarks do with the results of what they time."""

from __future__ import annotations

from typing import Any

import torch


def tensors_of(result: Any) -> list[torch.Tensor]:
    """Of one tensor or several, a list."""
    return [result] if isinstance(result, torch.Tensor) else list(result)


def check(got: Any, wanted: Any, tolerance: float) -> None:
    """Compares as a share of the largest magnitude: dtypes are narrow, sums are long. Raises
    AssertionError."""
    for a, b in zip(tensors_of(got), tensors_of(wanted), strict=True):
        scale = max(b.abs().max().item(), 1e-6)
        error = (a.float() - b.float()).abs().max().item() / scale
        if not error <= tolerance:
            raise AssertionError(f"off by {error:.3g} of the largest value")
