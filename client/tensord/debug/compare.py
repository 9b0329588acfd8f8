# SPDX-License-Identifier: Apache-2.0
"""Compares what tensord computes with eager PyTorch, and both with float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

# dtype -> (relative, absolute) error that is always allowed against float64.
TOLERANCE = {
    torch.float64: (1e-12, 1e-12),
    torch.float32: (1e-5, 1e-6),
    torch.float16: (2e-3, 1e-4),
    torch.bfloat16: (1e-2, 1e-3),
}
# How much larger than eager's own error ours may be, where eager's is larger than the above.
EAGER_FACTOR = 3.0


@dataclass
class Mismatch(AssertionError):
    """What differs, and by how much."""

    message: str

    def __str__(self) -> str:
        return self.message


def wide(value: Any) -> Any:
    """The value with every floating-point tensor in float64 (complex128), for the reference."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            return value.detach().to(torch.float64).requires_grad_(value.requires_grad)
        return value.to(torch.complex128) if value.is_complex() else value
    if isinstance(value, (list, tuple)):
        return type(value)(wide(item) for item in value)
    if isinstance(value, dict):
        return {name: wide(item) for name, item in value.items()}
    return value


def flatten(value: Any) -> list[Any]:
    """All leaves of nested lists, tuples and dicts (of model outputs too), in order."""
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in flatten(item)]
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flatten(item)]
    return [value]


def check(
    what: str,
    ours: Any,
    eager: Any,
    reference: Any = None,
    *,
    strides: bool = True,
    magnitude: float = 1.0,
) -> None:
    """Raises Mismatch unless `ours` is as good as `eager`, leaf by leaf.

    Integers and truth values must be equal, NaN and infinities in the same places, and errors
    against `reference` (the same in float64; eager itself when None) within TOLERANCE, or within
    EAGER_FACTOR times eager's own largest error. Absolute errors are in units of `magnitude`: of
    the largest term where results are sums, which may cancel.
    """
    leaves = [flatten(ours), flatten(eager), flatten(eager if reference is None else reference)]
    if len({len(group) for group in leaves}) != 1:
        raise Mismatch(f"{what}: {len(leaves[0])} results, eager has {len(leaves[1])}")
    for number, (mine, theirs, exact) in enumerate(zip(*leaves, strict=True)):
        name = what if len(leaves[0]) == 1 else f"{what}, result {number}"
        if isinstance(theirs, torch.Tensor):
            _check_tensor(name, mine, theirs, exact, strides, magnitude)
        elif mine != theirs and not (_is_nan(mine) and _is_nan(theirs)):
            raise Mismatch(f"{name}: {mine!r}, eager has {theirs!r}")


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _check_tensor(
    what: str,
    ours: Any,
    eager: torch.Tensor,
    exact: torch.Tensor,
    strides: bool,
    magnitude: float,
) -> None:
    if not isinstance(ours, torch.Tensor):
        raise Mismatch(f"{what}: {type(ours).__name__}, not a tensor")
    if (ours.dtype, ours.shape) != (eager.dtype, eager.shape):
        raise Mismatch(
            f"{what}: {ours.dtype} {tuple(ours.shape)}, eager has {eager.dtype} "
            f"{tuple(eager.shape)}"
        )
    if strides:
        check_strides(what, ours, eager)
    ours, eager, exact = ours.detach(), eager.detach(), exact.detach()
    if eager.is_complex():
        ours, eager, exact = (torch.view_as_real(t.resolve_conj()) for t in (ours, eager, exact))
    if not eager.is_floating_point():
        if not torch.equal(ours, eager):
            wrong = (ours != eager).nonzero()
            at = tuple(wrong[0].tolist())
            raise Mismatch(
                f"{what}: {len(wrong)} of {ours.numel()} differ; at {at} "
                f"{ours[at].item()}, eager has {eager[at].item()}"
            )
        return
    _check_floats(what, ours, eager, exact, magnitude)


def check_strides(what: str, ours: torch.Tensor, eager: torch.Tensor) -> None:
    """Raises Mismatch unless strides are equal where they mean something."""
    if strides_of(ours) != strides_of(eager):
        raise Mismatch(f"{what}: strides {ours.stride()}, eager has {eager.stride()}")


def strides_of(tensor: torch.Tensor) -> list[int]:
    """Strides where they mean something."""
    if tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _check_floats(
    what: str, ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, magnitude: float
) -> None:
    # Where eager's float64 disagrees with its narrow type on NaN and infinities, either will do.
    truth = exact.to(eager.dtype)
    special = ~(torch.isfinite(eager) & torch.isfinite(ours))
    same = _same(ours, eager) | _same(ours, truth)
    if not (same | ~special).all():
        at = tuple((special & ~same).nonzero()[0].tolist())
        raise Mismatch(
            f"{what}: at {at} {ours[at].item()}, eager has {eager[at].item()}, float64 "
            f"{exact[at].item()}"
        )
    if not (~special).any():
        return
    relative, absolute = TOLERANCE[eager.dtype]
    # Where the narrow type overflows or NaN came from rounding, float64 is no reference.
    truth = exact.to(torch.float64)
    truth = torch.where(special | ~torch.isfinite(truth), eager.to(torch.float64), truth)
    allowed = absolute * magnitude + relative * truth.abs()

    def error(value: torch.Tensor) -> torch.Tensor:
        value = torch.where(special, truth, value.to(torch.float64))
        return torch.where(special, 0.0, (value - truth).abs() / allowed)

    mine, theirs = error(ours), error(eager)
    limit = max(1.0, EAGER_FACTOR * theirs.max().item())
    if mine.max().item() > limit:
        at = tuple((mine == mine.max()).nonzero()[0].tolist())
        raise Mismatch(
            f"{what}: at {at} {ours[at].item()!r}, eager {eager[at].item()!r}, float64 "
            f"{truth[at].item()!r}: {mine.max().item():.2f} times the tolerance, eager "
            f"{theirs.max().item():.2f}; {int((mine > limit).sum())} of {mine.numel()} are beyond"
        )


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def check_relative(
    what: str, ours: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor, tolerance: float
) -> None:
    """For losses and gradients: the error as a fraction of the largest magnitude of the tensor.

    It may be `tolerance`, or EAGER_FACTOR times eager's own.
    """
    if (ours.dtype, ours.shape) != (eager.dtype, eager.shape):
        raise Mismatch(
            f"{what}: {ours.dtype} {tuple(ours.shape)}, eager has {eager.dtype} "
            f"{tuple(eager.shape)}"
        )
    truth = exact.detach().double()
    scale = max(truth.abs().max().item(), 1e-30) if truth.numel() else 1.0

    def error(value: torch.Tensor) -> float:
        return (
            (value.detach().double() - truth).abs().max().item() / scale if truth.numel() else 0.0
        )

    mine, theirs = error(ours), error(eager)
    if not mine <= max(tolerance, EAGER_FACTOR * theirs):
        raise Mismatch(f"{what}: error {mine:.3g} of the largest value, eager {theirs:.3g}")
