# SPDX-License-Identifier: Apache-2.0
"""What is set beside the program: autocast, deterministic algorithms, defaults; as in eager."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import tensord
import torch
from both_ways import both_ways, compiled
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


# -- autocast -------------------------------------------------------------------------------------


class Switching(nn.Module):
    """Narrow products, between them a part that is kept wide, and one of another narrow type."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: Tensor) -> tuple[Tensor, ...]:
        with torch.autocast("cpu", torch.bfloat16):
            a = self.first(x)
            with torch.autocast("cpu", enabled=False):
                b = a.float() @ self.second.weight.t()
            c = self.second(a)
            with torch.autocast("cpu", torch.float16):
                d = b @ x.t()
            softened = c.softmax(-1)
        return a, b, c, d, softened, x @ x.t()


def dtypes(results: Any) -> list[torch.dtype]:
    return [result.dtype for result in results]


def test_autocast_comes_and_goes_inside() -> None:
    torch.manual_seed(0)
    model = Switching()
    x = torch.randn(5, 8, requires_grad=True)
    assert dtypes(model(x))[:4] == [torch.bfloat16, torch.float32, torch.bfloat16, torch.float16]
    both_ways(model, x, rough=1e4)  # gradients of bfloat16, summed in float32


def test_autocast_outside_changes_from_call_to_call() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    run = compiled(model, fullgraph=True)
    x = torch.randn(5, 8)
    wanted = [torch.bfloat16, None, torch.float16, None, torch.bfloat16]
    for dtype in wanted:
        with torch.autocast("cpu", dtype, enabled=dtype is not None):
            mine, eager = run(x), model(x)
        assert mine.dtype == eager.dtype == (dtype or torch.float32)
        torch.testing.assert_close(mine, eager)
        gradients = [torch.autograd.grad(y.sum(), model.weight)[0] for y in (mine, eager)]
        torch.testing.assert_close(*gradients, rtol=0.02, atol=0.02)
    assert tensord.stats()["graphs"] == 6  # three modes, forward and backward


class Wide(torch.autograd.Function):
    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x @ x.t()

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return (gradient + gradient.t()) @ x


def test_functions_that_say_their_own_precision() -> None:
    def function(x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return Wide.apply(x.tanh())

    both_ways(function, torch.randn(6, 6, requires_grad=True), fullgraph=False)


def test_a_decorated_function_under_autocast() -> None:
    narrow = torch.autocast("cpu", torch.bfloat16)(lambda x, w: x @ w)
    both_ways(lambda x, w: narrow(x, w) + (x @ w), torch.randn(4, 8), torch.randn(8, 4))


# -- deterministic algorithms ---------------------------------------------------------------------


@pytest.fixture
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def collisions(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    """Sums whose order of terms decides the last bits."""
    added = torch.zeros(7).index_add(0, at, x)
    put = torch.zeros(7).index_put((at,), x, accumulate=True)
    scattered = torch.zeros(7).scatter_add(0, at, x)
    return added, put, scattered, x.cumsum(0)


def test_deterministic_results_are_the_same_to_the_bit(deterministic: None) -> None:
    torch.manual_seed(0)
    x, at = torch.randn(20_000) * 1e3, torch.randint(0, 7, (20_000,))
    run = compiled(collisions, fullgraph=True)
    first = run(x, at)
    for mine, eager in zip(first, collisions(x, at), strict=True):
        torch.testing.assert_close(mine, eager, rtol=1e-3, atol=1e-1)
    for _ in range(3):
        assert all(torch.equal(a, b) for a, b in zip(run(x, at), first, strict=True))
    torch._dynamo.reset()
    again = compiled(collisions, fullgraph=True)(x, at)
    assert all(torch.equal(a, b) for a, b in zip(again, first, strict=True))


def test_deterministic_mode_is_part_of_what_a_program_is() -> None:
    run = compiled(lambda x: x.sin() * 3 + 1, fullgraph=True)
    x = torch.randn(9)
    outcomes = []
    for on in (False, True, False):
        torch._dynamo.reset()
        tensord.reset_stats()
        torch.use_deterministic_algorithms(on)
        try:
            torch.testing.assert_close(run(x), x.sin() * 3 + 1)
        finally:
            torch.use_deterministic_algorithms(False)
        outcomes.append(tensord.stats()["compiled"])
    assert outcomes == [1, 1, 0]


def test_turning_deterministic_mode_on_compiles_anew() -> None:
    run = compiled(lambda x: x.cos() * 3 - 1, fullgraph=True)
    x = torch.randn(9)
    run(x)
    torch.use_deterministic_algorithms(True)
    try:
        torch.testing.assert_close(run(x), x.cos() * 3 - 1)
    finally:
        torch.use_deterministic_algorithms(False)
    assert tensord.stats()["graphs"] == 2


# -- defaults -------------------------------------------------------------------------------------


def test_the_default_dtype_is_what_it_is_at_the_call() -> None:
    run = compiled(lambda x: torch.ones(3) * 1.5 + x, fullgraph=True)
    x = torch.zeros(3, dtype=torch.float16)
    for dtype in (torch.float32, torch.float64, torch.float32):
        torch.set_default_dtype(dtype)
        try:
            assert run(x).dtype == dtype
        finally:
            torch.set_default_dtype(torch.float32)


def test_training_and_evaluation() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.9))
    run = compiled(model)
    x = torch.randn(50, 4)
    assert (run(x) == 0).double().mean() > 0.7
    model.eval()
    assert torch.allclose(run(x), model(x), atol=1e-6)
    model.train()
    assert (run(x) == 0).double().mean() > 0.7
