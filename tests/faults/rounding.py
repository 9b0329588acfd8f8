# SPDX-License-Identifier: Apache-2.0
"""What jobs take for eager's result."""

from __future__ import annotations

import torch


def is_right(got: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether a result is eager's, within three times what eager's own roundings make of it.

    exact: in float64. Of exponentials of large numbers eager itself is off by 1e-5, once in 30,000
    inputs.
    """
    rounding = (eager - exact).abs().max().item()
    return torch.allclose(got.double(), eager.double(), rtol=1e-4, atol=1e-5 + 3 * rounding)
