# SPDX-License-Identifier: Apache-2.0
"""Deviations of numbers whose squares no float32 holds: finite on the CPU, as in eager."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_no_square_overflows(tensord_daemon: object, dim: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 6, 7)
    x[1, 2, 3], x[0, 0, 0], x[3, 1, 0] = 3.0e38, -3.2e38, 2e30
    x = x.to(dtype)
    compiled = torch.compile(
        lambda x: (x.std(dim), *torch.std_mean(x, dim)), backend="tensord", dynamic=False
    )
    for ours, exact in zip(
        compiled(x), (x.double().std(dim), *torch.std_mean(x.double(), dim)), strict=True
    ):
        assert ours.dtype == dtype and ours.isfinite().all()
        torch.testing.assert_close(ours.double(), exact, rtol=1e-2, atol=1e-2)
