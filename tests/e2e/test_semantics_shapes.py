# SPDX-License-Identifier: Apache-2.0
"""Programs called with 200 random shapes compile as often as Dynamo and AOTAutograd need (which is
counted with aot_eager, for AOTAutograd has guards too), and not once more."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F
from both_ways import compiled
from compare import check
from long_cases import long_but
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

pytestmark = pytest.mark.usefixtures("tensord_daemon")

CALLS = 200
Shape = tuple[int, ...]


def norm(x: Tensor) -> Tensor:
    return F.layer_norm(x * 2, x.shape[-1:]) + x.mean(-1, keepdim=True)


def attention(q: Tensor, k: Tensor) -> Tensor:
    return (q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5).softmax(-1) @ k


def joined(x: Tensor, y: Tensor) -> Tensor:
    return torch.cat([x, y, x[:1]], 0).cumsum(0)


def halves(x: Tensor) -> tuple[Tensor, Tensor]:
    return x[: x.shape[0] // 2].exp(), x.flip(0)[::2] + x.shape[1]


def flat(x: Tensor) -> Tensor:
    return x.reshape(-1).sort().values[: x.shape[0]] * x.numel()


def outer(x: Tensor, y: Tensor) -> Tensor:
    return (x[:, None] - y).abs().amin(1).sqrt()


def image(x: Tensor) -> Tensor:
    weight = torch.ones(2, 3, 3, 3) / 27
    return F.max_pool2d(F.conv2d(x, weight, padding=1).relu(), 2)


def counted(x: Tensor) -> Tensor:
    positions = torch.arange(x.shape[1]).expand(x.shape[0], -1)
    return torch.where(positions % 3 == 0, x, F.pad(x, (1, 0))[:, :-1])


def branched(x: Tensor) -> Tensor:
    return x.sin() * 2 if x.shape[0] > 20 else x.cos() + x.shape[0]


def gradient(x: Tensor) -> Tensor:
    y = (x * 2).tanh()
    return (y * y.sum(0)).mean()


# Program -> which dimensions its inputs have, by name.
PROGRAMS: list[tuple[Callable[..., Any], tuple[str, ...]]] = [
    (norm, ("ab",)), (attention, ("abc", "adc")), (joined, ("ab", "cb")), (halves, ("ab",)),
    (flat, ("ab",)), (outer, ("a", "b")), (image, ("a3bc",)), (counted, ("ab",)),
    (branched, ("ab",)), (gradient, ("ab",)),
]  # fmt: skip


def shapes(patterns: tuple[str, ...], seed: int) -> list[list[Shape]]:
    """Of the inputs of all calls. One size in ten is 1, which Dynamo keeps apart."""
    rng = random.Random(seed)
    found = []
    for _ in range(CALLS):
        sizes = {name: 1 if rng.random() < 0.1 else rng.randint(2, 40) for name in "abcd"}
        least = 2 if "3" in patterns[0] else 1  # images of one pixel cannot be pooled
        found.append([tuple(max(sizes.get(d, 3), least) for d in p) for p in patterns])
    return found


def inputs(sizes: list[Shape], training: bool) -> list[Tensor]:
    return [torch.rand(size, requires_grad=training) for size in sizes]


@pytest.mark.parametrize(
    ("function", "patterns"),
    long_but(PROGRAMS[:3], PROGRAMS),
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_compiles_as_often_as_dynamo_needs(function: Any, patterns: tuple[str, ...]) -> None:
    training = function is gradient
    calls = shapes(patterns, len(patterns))
    counter = CompileCounterWithBackend("aot_eager")
    with torch._dynamo.config.patch(recompile_limit=64, accumulated_recompile_limit=512):
        run = torch.compile(function, backend=counter, fullgraph=True)
        for sizes in calls:
            run(*inputs(sizes, training))
        torch._dynamo.reset()
        run = compiled(function, fullgraph=True)
        for number, sizes in enumerate(calls):
            given = inputs(sizes, training)
            mine = run(*given)
            if number % 5 == 0:
                check(str(sizes), mine, function(*given), magnitude=100.0)
            if training:
                mine.backward()
    graphs = tensord.stats()["graphs"]
    assert graphs == counter.frame_count * (2 if training else 1)


EXTREMES: dict[str, Callable[[Tensor], Any]] = {
    "max": torch.max,
    "min": lambda x: (x * 2).min(),
    "amax": torch.amax,
    "aminmax": torch.aminmax,
    "argmin": torch.argmin,
    "max of rows": lambda x: x.max(0),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes_of_nothing_raise(name: str, dynamic: bool) -> None:
    def function(x: Tensor) -> Any:
        return EXTREMES[name](x[8:] + 1)

    run = compiled(function, dynamic=dynamic)
    for size in (13, 8, 10):
        x = torch.randn(size, 3)
        if size > 8:
            torch.testing.assert_close(run(x), function(x))
            continue
        with pytest.raises((RuntimeError, IndexError)):
            function(x)
        with pytest.raises((RuntimeError, IndexError)) as found:
            run(x)
        assert not isinstance(found.value, tensord.TensordError)


# Of x[8:, 8:] in a call for which that is empty, and in larger ones.
EMPTY_AT_CAPTURE: dict[str, Callable[[Tensor], Tensor]] = {
    "rows": lambda x: (x[8:] * 2).t().contiguous(),
    "columns": lambda x: (x[:, 8:] + 1).exp(),
    "rows_of_classes": lambda x: F.one_hot((x[8:, 0] > 0).long(), 4),
    "sum_of_rows": lambda x: x[8:].sum(0),
    "sum_of_columns": lambda x: x[:, 8:].sum(1),
    "sum": lambda x: x[8:, 8:].sum(),
    "softmax": lambda x: torch.softmax(x[8:], 0),
    "norm": lambda x: F.layer_norm(x[8:], x.shape[1:]),
    "joined": lambda x: torch.cat([x[8:] * 2, x[:8]], 0).cumsum(0),
    "product": lambda x: x[:, 8:] @ x.t()[8:],
    "between": lambda x: (x[None, 8:, :, None] * torch.ones(3, 1, 1, 2)).sum((0, 3)),
    "padded": lambda x: F.pad(x[8:], (1, 1, 1, 1)),
    "in_place": lambda x: (x * 1)[8:].mul_(3).amax(1),
}


@pytest.mark.parametrize("name", EMPTY_AT_CAPTURE)
def test_what_is_empty_at_capture_need_not_be_later(name: str) -> None:
    function = EMPTY_AT_CAPTURE[name]
    run = compiled(function, dynamic=True)
    for size in (8, 13, 10, 8):
        x = torch.randn(size, size, requires_grad=True)
        mine, theirs = run(x), function(x)
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
        if theirs.requires_grad:
            found = [torch.autograd.grad(y.square().sum(), x)[0] for y in (mine, theirs)]
            torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_a_size_that_a_guard_holds_to_be_1_is_squeezed() -> None:
    """n - n // 2 is 1 for n = 2: torch guards that, and leaves the size as it is."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return y + x[:, x.size(1) // 2 :].squeeze()

    run = compiled(function, dynamic=True)
    for size in (2, 4, 7, 2):
        x, y = torch.randn(1, size), torch.randn(size - size // 2)
        torch.testing.assert_close(run(x, y), function(x, y))
