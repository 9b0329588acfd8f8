# SPDX-License-Identifier: Apache-2.0
"""Zeros have the sign that they have in eager."""

from __future__ import annotations

import pytest
import torch

pytestmark = pytest.mark.usefixtures("tensord_daemon")


@pytest.mark.parametrize("sizes", [(3, 1), (1, 3), (2, 1, 3), (5, 3), (2, 300)])
def test_sums_of_negative_zeros_are_zero(sizes: tuple[int, ...]) -> None:
    """Eager's sums begin with 0, few as their terms may be."""
    x = -torch.zeros(sizes)

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        results = []
        for dim in range(x.dim()):
            results += [x.sum(dim), x.mean(dim), *torch.var_mean(x, dim, correction=0)]
        return [torch.signbit(result) for result in results]

    torch._dynamo.reset()
    run = torch.compile(function, backend="tensord", fullgraph=True, dynamic=False)
    assert all(map(torch.equal, run(x), function(x)))
