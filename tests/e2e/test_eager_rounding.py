# SPDX-License-Identifier: Apache-2.0
"""options={"emulate_eager_rounding": True}: operators round their results to their narrow types."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")

ROUNDING = {"emulate_eager_rounding": True}
NARROW = [torch.bfloat16, torch.float16]

# Of which the last bit is defined: what they give is the nearest number to the exact result.
EXACT: list[Callable[[Tensor, Tensor], Tensor]] = [
    lambda x, y: x + y,
    lambda x, y: x - y,
    lambda x, y: x * y,
    lambda x, y: x / (y.abs() + 1),
    lambda x, y: x * 0.7 - y,
    lambda x, y: (x - 3.3) / 7,
    lambda x, y: x.abs().sqrt() * y,
    lambda x, y: torch.where(x > y, x, -y),
    lambda x, y: x.relu() + y,
    lambda x, y: torch.maximum(x, y) - y.clamp(-0.5, 0.5),
    lambda x, y: (x.float() * y.float()).to(x.dtype) * y,
    lambda x, y: x.square() / 16,
    lambda x, y: torch.cat([x[1:], y[:1]]) + x,
    lambda x, y: (x + y).T.contiguous().T * x,
    lambda x, y: y.reciprocal().clamp(-4, 4) + x,
]


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tensord", dynamic=False, fullgraph=True, **options)


def chain(seed: int) -> Callable[[Tensor, Tensor], tuple[Tensor, ...]]:
    links = random.Random(seed).choices(EXACT, k=8)

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
        first = x
        for link in links:
            x, y = link(x, y), x
        return x, y, (x + first).amax(0)

    return function


@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_kernels_read_one_number_also_without_the_option(dtype: torch.dtype) -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        total = x + y
        wide = total.float()
        # The mean of one, in the kernel that makes the sum; the difference is another kernel's.
        difference = wide - wide.mean(0, True)
        return difference[:, torch.arange(1) % 17], total

    x, y = torch.randn(1, 17, 17, dtype=dtype), torch.randn(())
    difference, total = compiled(function)(x, y)
    assert not difference.any()
    assert total.dtype == dtype


@pytest.mark.parametrize("dtype", NARROW, ids=str)
@pytest.mark.parametrize("seed", range(15))
def test_a_chain_of_exact_operators_is_eagers_to_the_last_bit(
    seed: int, dtype: torch.dtype
) -> None:
    torch.manual_seed(seed)
    x, y = torch.randn(2, 19, 37).to(dtype)
    run, eager = compiled(chain(seed), options=ROUNDING), chain(seed)
    torch.testing.assert_close(run(x, y), eager(x, y), rtol=0, atol=0, equal_nan=True)
    assert tensord.stats()["fallbacks"] == 0


def test_some_chain_is_not_without_the_option() -> None:
    torch.manual_seed(0)
    x, y = torch.randn(2, 19, 37).bfloat16()
    assert any(
        not torch.equal(mine, theirs)
        for seed in range(3)
        for mine, theirs in zip(compiled(chain(seed))(x, y), chain(seed)(x, y), strict=True)
    )


@pytest.mark.parametrize("options", [{}, ROUNDING], ids=["usual", "emulated"])
@pytest.mark.parametrize("dtype", NARROW, ids=str)
def test_a_cast_there_and_back_rounds(dtype: torch.dtype, options: dict[str, bool]) -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        rounded = (x * 3).to(dtype).float()
        return rounded - x * 3, rounded.sum(0)

    x = torch.randn(20, 33)
    torch.testing.assert_close(
        compiled(function, options=options)(x)[0], function(x)[0], rtol=0, atol=0
    )
    torch.testing.assert_close(compiled(function, options=options)(x), function(x))


@pytest.mark.parametrize("dim", [0, 1, None])
def test_sums_are_rounded_before_they_are_read(dim: int | None) -> None:
    """Small whole numbers, whose sums are exact in float32 and are not in bfloat16."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        total = x.sum() if dim is None else x.sum(dim, keepdim=True)
        return total - x, total

    x = torch.randint(-100, 400, (40, 50)).bfloat16()
    mine, theirs = compiled(function, options=ROUNDING)(x), function(x)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("dim", [0, 1])
def test_prefixes_are_rounded_before_they_are_read(dim: int) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return x.cumsum(dim) * 3, x.cummax(dim)[0] - x

    x = torch.randint(-100, 400, (40, 50)).bfloat16()
    mine, theirs = compiled(function, options=ROUNDING)(x), function(x)
    torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


class Block(nn.Module):
    """A layer of a transformer."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attend, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.attend(self.before(x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).softmax(-1)
        x = x + self.out((scores @ v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.behind(x)) * 1.1))


@pytest.mark.parametrize("training", [False, True])
def test_a_transformer_is_nearer_to_eager(training: bool) -> None:
    torch.manual_seed(0)
    block = Block().bfloat16()
    x = torch.randn(2, 24, 64).bfloat16()

    def seen(run: Any) -> Tensor:
        block.zero_grad()
        with torch.set_grad_enabled(training):
            result = run(x)
        if not training:
            return result
        result.float().square().sum().backward()
        return torch.cat([p.grad.flatten() for p in block.parameters()])

    eager = seen(block)
    usual = (seen(compiled(block)) - eager).float().norm()
    torch._dynamo.reset()
    emulated = (seen(compiled(block, options=ROUNDING)) - eager).float().norm()
    assert emulated < 0.5 * usual


def test_the_variable_says_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_EMULATE_EAGER_ROUNDING", "1")
    torch.manual_seed(0)
    x, y = torch.randn(2, 19, 37).bfloat16()
    for seed in range(3):
        mine, theirs = compiled(chain(seed))(x, y), chain(seed)(x, y)
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)
