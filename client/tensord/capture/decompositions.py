# SPDX-License-Identifier: Apache-2.0
"""What AOTAutograd decomposes: torch's own table, and operators here that torch leaves whole and
that fuse as what they are made of."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.fx.experimental.symbolic_shapes import guard_or_true

from .. import torch_compat
from ..passes.joint import counter_based_random
from .result_layouts import result_layouts

aten = torch.ops.aten

# Eager multiplies matrices for Euclidean distances from more points than these, unless told not to.
_MOST_POINTS_WITHOUT_PRODUCT = 25
_NEVER_A_PRODUCT = 2
# A loss's reduction.
_MEAN = 1


@functools.lru_cache(maxsize=8)
def decompositions(operators: tuple[str, ...]) -> dict[Any, Callable[..., Any]]:
    """{OpOverload: function} for AOTAutograd, given the operators that the daemon lowers itself."""
    # What the daemon lowers, and random operators, which AOTAutograd must leave whole for the pass.
    whole = {name.removesuffix(".default") for name in operators}
    whole |= {torch_compat.operator_name(op) for op in counter_based_random.OPERATORS}
    own = _OWN | result_layouts(whole)
    # Functions here leave whole what they do not mend.
    whole -= {torch_compat.operator_name(op) for op in own}
    keep = whole | torch_compat.KEEP_WHOLE
    return {
        op: _of_known_types(op, function) if op in torch_compat.refusing_operators() else function
        for op, function in (torch_compat.core_decompositions() | own).items()
        if not isinstance(op, torch._ops.OpOverload) or torch_compat.operator_name(op) not in keep
    }


def _of_known_types(op: torch._ops.OpOverload, function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, but of types that eager refuses: what stays whole fails in its words."""

    def decomposition(*args: Any, **kwargs: Any) -> Any:
        return NotImplemented if torch_compat.eager_refuses(op, args) else function(*args, **kwargs)

    return decomposition


def _torchs(op: torch._ops.OpOverload, *args: Any, **kwargs: Any) -> Any:
    return torch_compat.core_decompositions()[op](*args, **kwargs)


def _take(self: Tensor, index: Tensor) -> Tensor:
    # Not by flattened[index], which asks a number's data whether it is an index.
    return aten.index.Tensor(self.reshape(-1), [index])


def _dist(self: Tensor, other: Tensor, p: float = 2) -> Tensor:
    return aten.linalg_vector_norm.default(self - other, p)


def _cdist(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Any:
    points = max(x1.shape[-2], x2.shape[-2])
    if p == 2 and compute_mode != _NEVER_A_PRODUCT and points > _MOST_POINTS_WITHOUT_PRODUCT:
        return NotImplemented
    if x1.shape[-1] == 0 or x1.dtype != x2.dtype:  # of the latter eager takes none
        return NotImplemented
    apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    if p == math.inf:  # a norm's would be NaN where one is; eager's maximum passes it over
        return torch.where(apart.isnan(), 0.0, apart.abs()).amax(-1)
    if p == 0 and apart.device.type == "cpu":  # a norm counts NaN, as eager on a GPU
        return apart.abs().ceil().clamp_max(1.0).sum(-1)
    return aten.linalg_vector_norm.default(apart, p, [-1])


def _scatter_reduce(
    self: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if reduce not in ("sum", "mean") or self.dim() == 0 or index.numel() == 0:
        return NotImplemented
    if reduce == "mean" and not self.is_floating_point():
        return NotImplemented
    start = self if include_self else aten.scatter.value(self, dim, index, 0)
    total = aten.scatter_add.default(start, dim, index, src)
    if reduce == "sum":
        return total
    ones = torch.full_like(self, 1 if include_self else 0)
    counts = aten.scatter_add.default(ones, dim, index, torch.ones_like(src))
    return total / counts.clamp_min(1)


def _index_reduce(
    self: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Any:
    if reduce != "mean" or not self.is_floating_point() or self.dim() == 0:
        return NotImplemented
    # What eager raises at is left to it.
    if source.dim() != self.dim() or guard_or_true(index.numel() != source.shape[dim]):
        return NotImplemented
    start = self if include_self else aten.index_fill.int_Scalar(self, dim, index, 0)
    total = aten.index_add.default(start, dim, index, source)
    ones = torch.full_like(self, 1 if include_self else 0)
    counts = aten.index_add.default(ones, dim, index, torch.ones_like(source))
    return total / counts.clamp_min(1)


def _index_fill(self: Tensor, dim: int, index: Tensor, value: Tensor) -> Any:
    """Of a number in a tensor. torch's own (2.11) may copy into a new tensor, as no graph may."""
    if self.dim() == 0 or value.dim() > 0 or (value.is_complex() and not self.is_complex()):
        return NotImplemented
    dim %= self.dim()
    chosen = torch.zeros(self.shape[dim], dtype=torch.bool, device=self.device)
    chosen = aten.index_fill.int_Scalar(chosen, 0, index, True)
    chosen = chosen.view([size if d == dim else 1 for d, size in enumerate(self.shape)])
    return aten.where.self(chosen, value.to(self), self)


def _max_unpool2d(self: Tensor, indices: Tensor, output_size: list[int]) -> Tensor:
    """torch's own, whose result is row-major always; eager's on the CPU is as the image is."""
    result: Tensor = _torchs(aten.max_unpool2d.default, self, indices, output_size)
    if self.is_cuda or self.dim() != 4:
        return result
    return result.contiguous(memory_format=torch_compat.memory_format_of(self))


def _masked_scatter(self: Tensor, mask: Tensor, source: Tensor) -> Any:
    # Prefixes along one long row are the library's on a GPU, which has an operator for all of it.
    if self.is_cuda or guard_or_true(source.numel() == 0) or guard_or_true(self.numel() == 0):
        return NotImplemented  # also where data decides that there is something
    if source.dtype != self.dtype or mask.dtype != torch.bool:
        return NotImplemented
    self, mask = torch.broadcast_tensors(self, mask)
    place = mask.reshape(-1).cumsum(0).sub(1).clamp_min(0).reshape(mask.shape)
    # The places before the mask's next element are in range, unless the source has too few.
    chosen = torch.where(mask, aten.index.Tensor(source.reshape(-1), [place]), self)
    return chosen.contiguous()


def _put(self: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Any:
    # What eager raises at is left to it.
    if not self.is_contiguous() or guard_or_true(self.numel() == 0):
        return NotImplemented
    if guard_or_true(index.numel() != source.numel()):
        return NotImplemented
    places = [index.reshape(-1)]
    return aten.index_put.default(self.reshape(-1), places, source.reshape(-1), accumulate).view(
        self.shape
    )


def _repeat_interleave(repeats: Tensor, *, output_size: int | None = None) -> Any:
    """Nothing repeated is nothing, whatever size of it is said, which torch would take."""
    if repeats.dim() != 1 or output_size is None or guard_or_true(repeats.shape[0] != 0):
        return NotImplemented
    return torch.empty_like(repeats)


def _logit_backward(grad_output: Tensor, self: Tensor, eps: float | None = None) -> Any:
    """torch's own has no gradient where `self` is NaN: eager's is NaN but in a CPU's vectors."""
    if not self.is_cuda:
        return _torchs(aten.logit_backward.default, grad_output, self, eps)
    wide = torch.promote_types(self.dtype, torch.float32)
    gradient, x = grad_output.to(wide), self.to(wide)
    least, most, outside = (0.0, 1.0, math.nan) if eps is None or eps < 0 else (eps, 1.0 - eps, 0.0)
    result = gradient / (x * (1.0 - x))
    return torch.where((x < least) | (x > most), outside, result).to(self.dtype)


def _soft_margin_loss_backward(
    grad_output: Tensor, self: Tensor, target: Tensor, reduction: int
) -> Tensor:
    """torch's own takes 1 from a sigmoid next to it, and multiplies target and gradient first,
    which may overflow where the rest is 0."""
    wide = functools.reduce(torch.promote_types, (self.dtype, target.dtype, torch.float32))
    slope = torch.sigmoid(-target.to(wide) * self.to(wide))
    if reduction == _MEAN:
        slope = slope / self.numel()
    return (-target.to(wide) * (slope * grad_output.to(wide))).to(self.dtype)


def _addr(self: Tensor, vec1: Tensor, vec2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """torch's own multiplies the vectors first, which may overflow where eager has a number."""
    if alpha != 1 and (vec1.is_floating_point() or vec1.is_complex()):
        vec1, alpha = vec1 * alpha, 1
    result: Tensor = _torchs(aten.addr.default, self, vec1, vec2, beta=beta, alpha=alpha)
    return result


def _native_dropout_backward(grad_output: Tensor, mask: Tensor, scale: float) -> Any:
    """On a CPU a product, which lies as its factors do; torch's own is as on a GPU."""
    if grad_output.is_cuda:
        return _torchs(aten.native_dropout_backward.default, grad_output, mask, scale)
    return grad_output * (mask.type_as(grad_output) * scale)


def _log_sigmoid_forward(self: Tensor) -> Any:
    """Eager's results on the CPU are row-major always; torch declares that they are as `self`."""
    if self.is_cuda or self.is_contiguous():
        return NotImplemented
    return aten.log_sigmoid_forward.default(self.contiguous())


def _logspace(op: torch._ops.OpOverload) -> Callable[..., Any]:
    def logspace(
        start: Any,
        end: Any,
        steps: int,
        base: float = 10.0,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | None = None,
        **rest: Any,
    ) -> Any:
        # Integers are powers cut off, so no rounding may differ from the library's: on a GPU it
        # computes them in 32 bits, and a single one on the host.
        is_integral = dtype is not None and not (dtype.is_floating_point or dtype.is_complex)
        if is_integral and device is not None and torch.device(device).type != "cpu":
            return NotImplemented
        return _torchs(op, start, end, steps, base, dtype=dtype, device=device, **rest)

    return logspace


_OWN: dict[Any, Callable[..., Any]] = {
    aten.take.default: _take,
    aten.dist.default: _dist,
    aten._cdist_forward.default: _cdist,
    aten.masked_scatter.default: _masked_scatter,
    aten.put.default: _put,
    aten.scatter_reduce.two: _scatter_reduce,
    aten.index_reduce.default: _index_reduce,
    aten.index_fill.int_Tensor: _index_fill,
    aten.max_unpool2d.default: _max_unpool2d,
    aten.repeat_interleave.Tensor: _repeat_interleave,
    aten.logit_backward.default: _logit_backward,
    aten.soft_margin_loss_backward.default: _soft_margin_loss_backward,
    aten.addr.default: _addr,
    aten.native_dropout_backward.default: _native_dropout_backward,
    aten.log_sigmoid_forward.default: _log_sigmoid_forward,
    **{
        op: _logspace(op)
        for op in (
            aten.logspace.default,
            aten.logspace.Tensor_Tensor,
            aten.logspace.Tensor_Scalar,
            aten.logspace.Scalar_Tensor,
        )
    },
}
