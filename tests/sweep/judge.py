# SPDX-License-Identifier: Apache-2.0
"""Whether results are eager's.

A result is right when all of this holds, leaf by leaf of nested results:

- It is of the same type; a tensor has the same dtype, sizes, and strides where they mean something
  (of dimensions above 1, in tensors with elements). Gradients may have other strides: autograd
  promises none.
- Integers and truth values are equal.
- NaN and infinities are where eager, or the same call in float64, has them; a number that float64
  has where eager has none is within TOLERANCE. A complex number may be infinite or NaN where eager
  or complex128 is so, in whatever way.
- Other floating-point elements differ from eager's by at most TOLERANCE, the tolerances of
  torch.testing. Where one differs by more, the call is made again in float64 (complex128), and
  ours may be off by FACTOR times eager's largest relative error plus ULPS units in the last place;
  or, for an operator that is not pointwise, whose terms may cancel, by FACTOR times eager's largest
  absolute error plus ULPS units in the last place of the largest element.

For float64 nothing is more exact: only the tolerance counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree as pytree

# dtype -> (relative, absolute), those of torch.testing.assert_close.
TOLERANCE = {
    torch.float64: (1e-7, 1e-7),
    torch.complex128: (1e-7, 1e-7),
    torch.float32: (1.3e-6, 1e-5),
    torch.complex64: (1.3e-6, 1e-5),
    torch.complex32: (1e-3, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
}
FACTOR = 2.0
ULPS = 4.0

Reference = Callable[[], Any]


def difference(
    ours: Any, eager: Any, reference: Reference, *, pointwise: bool, strides: bool = True
) -> str:
    """What is unlike eager, and how far; empty when nothing is.

    reference: the results in float64, asked for only when they are needed; raises where there are
    none. pointwise: no sums of terms that may cancel.
    """
    mine, theirs = (pytree.tree_leaves(value) for value in (ours, eager))
    if len(mine) != len(theirs):
        return f"{len(mine)} results, eager has {len(theirs)}"
    exact: list[Any] = []
    for number, (a, b) in enumerate(zip(mine, theirs, strict=True)):
        found = _unlike(a, b, strides)
        if found is None:
            if not exact:
                exact = _exact(reference, theirs)
            found = _inexact(a.detach(), b.detach(), exact[number], pointwise)
        if found:
            return found if len(mine) == 1 else f"result {number}: {found}"
    return ""


def _exact(reference: Reference, eager: list[Any]) -> list[Any]:
    """The leaves in float64; eager's own where float64 cannot be had or is of other sizes."""
    try:
        leaves = pytree.tree_leaves(reference())
    except Exception:  # some operators mix dtypes in ways that float64 does not allow
        return eager
    if len(leaves) != len(eager):
        return eager
    return [
        wide if isinstance(wide, torch.Tensor) and wide.shape == narrow.shape else narrow
        for wide, narrow in zip(leaves, eager, strict=True)
    ]


def meaningful_strides(tensor: torch.Tensor) -> list[int]:
    """The strides of dimensions above 1, of a tensor with elements."""
    if tensor.layout is not torch.strided or tensor.numel() == 0:
        return []
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1]


def _unlike(ours: Any, eager: Any, strides: bool) -> str | None:
    """What differs without a tolerance; None where the numbers are beyond TOLERANCE."""
    if not isinstance(eager, torch.Tensor):
        both_nan = isinstance(eager, float) and isinstance(ours, float) and math.isnan(eager)
        if type(ours) is not type(eager):
            return f"{type(ours).__name__} {ours!r}, eager has {type(eager).__name__} {eager!r}"
        same = ours == eager or (both_nan and math.isnan(ours))
        return "" if same else f"{ours!r}, eager has {eager!r}"
    if not isinstance(ours, torch.Tensor):
        return f"{type(ours).__name__}, not a tensor"
    if ours.dtype is not eager.dtype:
        return f"dtype {ours.dtype}, eager has {eager.dtype}"
    if ours.device != eager.device:
        return f"device {ours.device}, eager has {eager.device}"
    if ours.shape != eager.shape:
        return f"shape {list(ours.shape)}, eager has {list(eager.shape)}"
    if ours.layout is not eager.layout:
        return f"layout {ours.layout}, eager has {eager.layout}"
    mine, theirs = meaningful_strides(ours), meaningful_strides(eager)
    if strides and mine != theirs:
        return f"strides {list(ours.stride())}, eager has {list(eager.stride())}"
    ours, eager = ours.detach(), eager.detach()
    if eager.layout is not torch.strided:
        ours, eager = ours.to_dense(), eager.to_dense()
    if eager.is_quantized:
        ours, eager = ours.dequantize(), eager.dequantize()
    ours, eager = (t.resolve_conj().resolve_neg() for t in (ours, eager))
    if eager.is_floating_point() or eager.is_complex():
        relative, absolute = TOLERANCE.get(eager.dtype, (0.0, 0.0))
        close = torch.isclose(ours, eager, rtol=relative, atol=absolute, equal_nan=True)
        return "" if bool(close.all()) else None
    wrong = (ours != eager).nonzero()
    if not len(wrong):
        return ""
    at = tuple(wrong[0].tolist())
    return (
        f"{len(wrong)} of {ours.numel()} differ: at {list(at)} {ours[at].item()!r}, "
        f"eager {eager[at].item()!r}"
    )


def _inexact(ours: torch.Tensor, eager: torch.Tensor, exact: Any, pointwise: bool) -> str:
    """What is too far from the result in float64; all are floating-point and of one shape."""
    if eager.layout is not torch.strided:
        ours, eager = ours.to_dense(), eager.to_dense()
        exact = exact.to_dense() if exact.layout is not torch.strided else exact
    ours, eager = (t.resolve_conj().resolve_neg() for t in (ours, eager))
    exact = exact.detach().to(eager.device)
    relative, absolute = TOLERANCE.get(eager.dtype, (0.0, 0.0))
    eps = torch.finfo(eager.dtype).eps
    wide = torch.complex128 if eager.is_complex() else torch.float64
    truth = exact.to(wide)
    same_kind = exact.is_complex() if eager.is_complex() else exact.is_floating_point()
    narrow = exact.to(eager.dtype) if same_kind else eager
    special = ~(torch.isfinite(ours) & torch.isfinite(eager))
    lost = ~torch.isfinite(ours) & ~torch.isfinite(eager)
    if eager.is_complex():
        same = lost | (~torch.isfinite(ours) & ~torch.isfinite(exact))
    else:
        # Where float64 has a number, both overflowed on the way, and how says nothing.
        same = _same(ours, eager) | _same(ours, narrow) | (lost & torch.isfinite(exact))
    same |= torch.isclose(ours, narrow, rtol=relative, atol=absolute)
    close = torch.isclose(ours, eager, rtol=relative, atol=absolute, equal_nan=True)
    truth = torch.where(special | ~torch.isfinite(truth), eager.to(wide), truth)
    mine, theirs = ((t.to(wide) - truth).abs() for t in (ours, eager))
    size = truth.abs()
    quiet = torch.where(special, 0.0, theirs)
    unit = torch.finfo(eager.dtype).smallest_normal
    worst = (quiet / size.clamp_min(unit)).max()
    wrong = torch.where(special, ~same, ~close & (mine > (FACTOR * worst + ULPS * eps) * size))
    if not pointwise:
        finite = torch.where(special, 0.0, size)
        bound = FACTOR * quiet.max() + ULPS * eps * finite.max()
        wrong &= special | (mine > bound)
    if not bool(wrong.any()):
        return ""
    distance = torch.where(wrong, torch.where(special, math.inf, mine), -1.0)
    at = tuple(int(i) for i in torch.unravel_index(distance.argmax(), distance.shape))
    return (
        f"{int(wrong.sum())} of {ours.numel()} are too far off: at {list(at)} {ours[at].item()!r}, "
        f"eager {eager[at].item()!r}, float64 {exact[at].item()!r}"
    )


def _same(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a == b) | (a.isnan() & b.isnan())


def unlike_random(ours: Any, eager: Any, *, means: bool = True) -> str:
    """What is unlike in random results: sizes, dtypes, strides, and the means of many elements,
    which may be apart by six standard errors. means: False where elements mean nothing."""
    mine, theirs = (pytree.tree_leaves(value) for value in (ours, eager))
    if len(mine) != len(theirs):
        return f"{len(mine)} results, eager has {len(theirs)}"
    for a, b in zip(mine, theirs, strict=True):
        if not isinstance(b, torch.Tensor):
            continue
        found = _unlike(torch.zeros_like(a), torch.zeros_like(b), True) or ""
        if found:
            return found
        if not means or b.numel() < 32 or b.dtype is torch.bool or b.is_complex():
            continue
        x, y = a.detach().double(), b.detach().double()
        error = math.sqrt(float(x.var() + y.var()) / b.numel())
        apart = abs(float(x.mean() - y.mean()))
        if apart > 6 * error + 1e-6:
            return f"random, with mean {float(x.mean()):.4g}, eager {float(y.mean()):.4g}"
    return ""
