# SPDX-License-Identifier: Apache-2.0
"""Real numbers made of sizes, under dynamic shapes: what takes them is compiled."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensord
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")

Function = Callable[[Tensor], Tensor]
CASES: dict[str, Function] = {
    "a factor": lambda x: (x.relu() * (1 / x.shape[1])).tanh(),
    "a factor and a term": lambda x: (x.relu() * (1 / x.shape[1]) + x.shape[0] / 3).tanh(),
    "a tensor of it": lambda x: torch.full((x.shape[0], 2), 1.0 / x.shape[0]) * x[:, :2],
}
# Of the number alone.
MAKERS = {"sym_float", "truediv", "aten::scalar_tensor"}


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function", CASES.values(), ids=CASES)
def test_what_takes_a_number_is_compiled(function: Function, trains: bool) -> None:
    compiled = torch.compile(function, backend="tensord", dynamic=True)
    for rows in (12, 17, 25):
        x = torch.randn(rows, rows + 3, requires_grad=trains)
        expected, result = function(x), compiled(x)
        torch.testing.assert_close(result, expected)
        if trains:
            weights = torch.randn_like(expected)
            torch.testing.assert_close(
                torch.autograd.grad(result, x, weights), torch.autograd.grad(expected, x, weights)
            )
    stats = tensord.stats()
    assert stats["fallbacks"] == 0
    assert {reason.partition(": ")[0] for reason in stats["call_back_reasons"]} <= MAKERS


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.float16, torch.bfloat16, torch.int64], ids=str
)
def test_types_stay_and_numbers_are_not_rounded(dtype: torch.dtype) -> None:
    def scaled(x: Tensor) -> tuple[Tensor, Tensor]:
        return x * (x.shape[0] * 10**6 / 7), x * (1 / (x.shape[0] * 10**6))

    compiled = torch.compile(scaled, backend="tensord", dynamic=True)
    for rows in (3, 7):
        # Beyond what half precision has for the numbers, not for their products.
        x = (torch.randn(rows, 5) * 10).to(dtype)
        large, small = (x * 1e-5, x * 1e3) if dtype.is_floating_point else (x, x)
        for one in (large, small):
            for result, expected in zip(compiled(one), scaled(one), strict=True):
                torch.testing.assert_close(
                    result, expected, rtol=torch.finfo(expected.dtype).eps, atol=0
                )
    assert tensord.stats()["fallbacks"] == 0
    assert MAKERS >= {reason.partition(": ")[0] for reason in tensord.stats()["call_back_reasons"]}
