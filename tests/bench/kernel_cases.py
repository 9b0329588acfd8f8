# SPDX-License-Identifier: Apache-2.0
"""The single kernels: functions that should be one pass over memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F


@dataclass(frozen=True)
class KernelCase:
    """A function, what makes its arguments, and the most kernels that it should take."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[torch.Tensor, ...]]
    kernels: int = 1


def _softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x / 8 + 1, -1)


def _norm(x: torch.Tensor, y: torch.Tensor, w: torch.Tensor, b: torch.Tensor, s: torch.Tensor):
    return F.gelu(F.layer_norm(x + y, (x.shape[-1],), w, b)) * s


def _chain(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x) * torch.tanh(y) + F.silu(z).clamp(-1, 1)


def _sums(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * x).sum(), x.amax(0), x.mean(1)


def _rms_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w


def _add_transposed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (x + 1) * y.t()


def _cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, target)


def _norm_arguments() -> tuple[torch.Tensor, ...]:
    n = 4096
    return (
        *torch.randn(2, 2048, n).unbind(0),
        torch.randn(n),
        torch.randn(n),
        torch.randn(n),
    )


CASES = (
    KernelCase("softmax(x/8+1) 2048x4096", _softmax, lambda: (torch.randn(2048, 4096),)),
    KernelCase("GELU(LayerNorm(x+y))·w 2048x4096", _norm, _norm_arguments),
    KernelCase(
        "sigmoid·tanh+silu.clamp 2048² x3",
        _chain,
        lambda: tuple(torch.randn(3, 2048, 2048).unbind(0)),
    ),
    KernelCase(
        "sum(x²), amax(0), mean(1) of 2048²",
        _sums,
        lambda: (torch.randn(2048, 2048),),
        2,
    ),
    KernelCase(
        "RMSNorm(x)·w 2048x4096",
        _rms_norm,
        lambda: (torch.randn(2048, 4096), torch.randn(4096)),
    ),
    KernelCase(
        "(x+1)·yᵀ 2048²",
        _add_transposed,
        lambda: tuple(torch.randn(2, 2048, 2048).unbind(0)),
    ),
    KernelCase(
        "cross entropy 512x16384",
        _cross_entropy,
        lambda: (torch.randn(512, 16384), torch.randint(0, 16384, (512,))),
        2,
    ),
)

# The four that DESIGN sets an aim for: no slower than TorchInductor.
REQUIRED = tuple(case.name for case in CASES[:4])


def tiny(x: torch.Tensor) -> torch.Tensor:
    """Three operators on eight numbers: what a call costs the host."""
    return torch.relu(x * 2 + 1)
