# SPDX-License-Identifier: Apache-2.0
"""Nodes without a form on the wire or on the CPU, and tensors without elements, on a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensord
import torch
from torch import Tensor


@torch.library.custom_op("tensord_gpu::scale_", mutates_args={"x"})
def _scale_(x: Tensor, factor: float) -> None:
    x.mul_(factor)


@_scale_.register_fake
def _(x: Tensor, factor: float) -> None:
    return None


def _cond(x: Tensor) -> Tensor:
    y = x.sin()
    return torch.cond(y.sum() > 0, lambda a: a + 1, lambda a: a - 1, (y,)).relu() * 2


def _custom(x: Tensor) -> Tensor:
    y = x + 1
    _scale_(y, 3.0)
    return y.exp()


def _mask(x: Tensor) -> Tensor:
    return (x * 3)[x > 0.5].sum() + x.mean()


def _number(x: Tensor) -> Tensor:
    number = x.sum().item()
    torch._check(number > 0)
    return x * number + 1


def _conjugate(x: Tensor) -> Tensor:
    c = torch.view_as_complex((x * 2).reshape(-1, 2))
    return torch.view_as_real(c.conj() * c).sum() + x.sum()


def _flex(x: Tensor) -> Tensor:
    from torch.nn.attention.flex_attention import flex_attention

    heads = x.reshape(1, 2, -1, 16)
    biased = flex_attention(heads, heads, heads, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1)
    return biased.relu() + 1


def _made_on_the_cpu(x: Tensor) -> Any:
    """A mask and places that are computed on the CPU in each call, as swinv2 and vilt do."""
    regions = torch.zeros(1, 8, 8, 1, device="cpu")
    for i in range(2):
        regions[:, i * 4 : i * 4 + 4, ::2] = i + 1
    windows = regions.view(1, 2, 4, 2, 4, 1).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16)
    apart = windows.unsqueeze(1) - windows.unsqueeze(2)
    mask = apart.masked_fill(apart != 0, -100.0)
    numbers = torch.arange(4, device="cpu")
    places = torch.stack(torch.meshgrid(numbers, numbers, indexing="ij"), -1).flatten(0, 1).t()
    return (x.view(4, 16, 16) + mask.to(x.device)).softmax(-1), places.to(x.device), places


def _check(function: Callable[[Tensor], Any], mode: str, calls_back: bool = True) -> None:
    tensord.reset_stats()
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        run = torch.compile(function, backend="tensord", mode=mode, fullgraph=True)
        for _ in range(4):
            x = torch.rand(64, 16)
            torch.testing.assert_close(run(x), function(x), rtol=1e-4, atol=1e-4)
    stats = tensord.stats()
    assert (stats["call_backs"] > 0) == calls_back, stats
    assert stats["fallbacks"] == 0 and stats["calls_in_eager"] == 0, stats


def _triton() -> None:
    """A kernel that the user wrote is launched as it was written."""
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return
    if torch.get_default_device().type != "cuda":
        return

    @triton.jit
    def double(source, target, count, BLOCK: tl.constexpr):
        offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < count
        tl.store(target + offsets, tl.load(source + offsets, mask=mask) * 2, mask=mask)

    def function(x: Tensor) -> Tensor:
        y, z = x + 1, torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 256),)](y, z, x.numel(), BLOCK=256)
        return z.exp()

    _check(function, "default")


_EMPTY: dict[str, Callable[[], tuple[Callable[[Tensor], Any], Tensor]]] = {
    "nanmean": lambda: (lambda x: x.nanmean(), torch.empty(0)),
    "median": lambda: (lambda x: x.median(), torch.empty(0, 3)),
    "renorm": lambda: (lambda x: x.renorm(2, 0, 1.0), torch.empty(0, 3)),
    "bicubic": lambda: (
        lambda x: torch.nn.functional.interpolate(x, size=(4, 4), mode="bicubic"),
        torch.empty(0, 3, 5, 5),
    ),
    "std_mean": lambda: (lambda x: torch.std_mean(x, dim=0), torch.empty(0, 5)),
}


def _empty(name: str) -> None:
    function, x = _EMPTY[name]()
    run = torch.compile(function, backend="tensord")
    torch.testing.assert_close(run(x), function(x), equal_nan=True)


def _assertion() -> None:
    """Its own process would be lost where it fails on a GPU, so here it holds."""

    def function(x: Tensor) -> Tensor:
        torch._assert_async(x.sum() > 0, "the sum must be positive")
        return x + 1

    x = torch.ones(3)
    torch.testing.assert_close(torch.compile(function, backend="tensord")(x), x + 1)


def _flex_training() -> None:
    """Gradients of tables too; products of 16 bits have results of 32. torch has none on a CPU."""
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    if torch.get_default_device().type != "cuda":
        return
    block_mask = create_block_mask(lambda b, h, i, j: i >= j, None, None, 96, 96)

    def function(q: Tensor, k: Tensor, v: Tensor, table: Tensor) -> Any:
        def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return 20 * torch.tanh(s / 20) + table[h, i - j + 96]

        return flex_attention(q, k, v, score, block_mask, enable_gqa=True, return_lse=True)

    for dtype, most in ((torch.float32, 1e-4), (torch.bfloat16, 2e-2)):
        tensord.reset_stats()
        shapes = ((2, 4, 96, 32), (2, 2, 96, 32), (2, 2, 96, 32), (4, 192))
        inputs = [torch.randn(shape).to(dtype) for shape in shapes]
        both = []
        for run in (torch.compile(function, backend="tensord", fullgraph=True), function):
            leaves = [x.clone().requires_grad_() for x in inputs]
            out, sums = run(*leaves)
            (out.float().square().sum() + sums.sum()).backward()
            both.append([out, sums, *(x.grad for x in leaves)])
        for ours, eager in zip(*both, strict=True):
            scale = max(1.0, float(eager.detach().abs().max()))
            torch.testing.assert_close(ours, eager, rtol=most, atol=most * scale)
        stats = tensord.stats()
        assert stats["flex_attentions"] == 1 and stats["call_backs"] == 0, stats
        assert stats["fallbacks"] == 0 and stats["calls_in_eager"] == 0, stats


def checks() -> list[tuple[str, Callable[[], None]]]:
    functions = (_cond, _custom, _mask, _number, _conjugate, _flex, _made_on_the_cpu)
    whole = (_conjugate, _flex, _made_on_the_cpu)  # without a call back
    runs: list[tuple[str, Callable[[], None]]] = [
        (f"{function.__name__[1:]}-{mode}", lambda f=function, m=mode: _check(f, m, f not in whole))
        for function in functions
        for mode in ("default", "reduce-overhead")
    ]
    runs += [(f"empty-{name}", lambda n=name: _empty(n)) for name in _EMPTY]
    runs += [("flex-training", _flex_training), ("triton", _triton), ("assertion", _assertion)]
    return runs
