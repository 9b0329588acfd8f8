# SPDX-License-Identifier: Apache-2.0
"""Predictions and targets of a binary cross entropy that are no probabilities: eager's error."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def loss(x: Tensor, y: Tensor) -> Tensor:
    return F.binary_cross_entropy(x, y)


@pytest.mark.parametrize("what", ["input", "target"])
@pytest.mark.parametrize("bad", [-0.25, 1.5, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_what_is_no_probability_is_an_error_of_that_call_alone(
    what: str, bad: float, dtype: torch.dtype
) -> None:
    run = torch.compile(loss, backend="tensord", fullgraph=True)
    good = torch.rand(83, dtype=dtype), torch.rand(83, dtype=dtype)
    torch.testing.assert_close(run(*good), loss(*good))
    for place in (0, 31, 82):
        values = [value.clone() for value in good]
        values[what == "target"][place] = bad
        for function in (loss, run):
            with pytest.raises(RuntimeError, match=f"^all elements of {what} should be between 0"):
                function(*values)
        torch.testing.assert_close(run(*good), loss(*good))


def test_what_rounds_to_a_probability_is_one() -> None:
    def function(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
        return F.binary_cross_entropy(a + b, y)

    a = torch.full((64,), 0.99609375, dtype=torch.bfloat16)
    b = torch.full((64,), 0.005859375, dtype=torch.bfloat16)
    run = torch.compile(function, backend="tensord", fullgraph=True)
    assert run(a, b, torch.ones_like(a)) == function(a, b, torch.ones_like(a)) == 0


def test_nobody_asks_where_nothing_is_checked() -> None:
    run = torch.compile(loss, backend="tensord", fullgraph=True, options={"unchecked": True})
    assert run(torch.tensor([1.5]), torch.tensor([0.5])).isnan()
