# SPDX-License-Identifier: Apache-2.0
"""The single kernels of the GPU benchmark: each should cost what a copy of its bytes costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from kernel_cases import _add_transposed, _chain, _norm, _rms_norm, _softmax, _sums

Tensors = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class GpuKernel:
    """A function and the shapes of its arguments.

    shapes: of each argument; `small` divides the first size. dtype: of the arguments. make:
    replaces shapes where the arguments are special; it takes (device, small). grad: forward and
    backward, for all floating-point arguments. bytes: of one call given arguments and results; what
    it reads and writes once when None.
    """

    name: str
    function: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]] = ()
    dtype: torch.dtype = torch.float32
    make: Callable[[str, bool], Tensors] | None = None
    grad: bool = False
    bytes: Callable[[Tensors, Tensors], int] | None = None

    def arguments(self, device: str, small: bool) -> Tensors:
        """Fresh arguments."""
        if self.make is not None:
            return self.make(device, small)
        first = self.shapes[0][0]
        divide = 64 if small else 1
        made = []
        for shape in self.shapes:
            sizes = [s // divide if s == first and s >= 4096 else s for s in shape]
            made.append(torch.randn(sizes, device=device, dtype=self.dtype))
        return tuple(made)

    def moved(self, arguments: Tensors, results: Tensors) -> int:
        """Bytes that one call has to read and write at least."""
        if self.bytes is not None:
            return self.bytes(arguments, results)
        return size_of(*arguments, *results)


def size_of(*tensors: torch.Tensor) -> int:
    """Bytes of all of them."""
    return sum(t.numel() * t.element_size() for t in tensors)


def _passes(count: int) -> Callable[[Tensors, Tensors], int]:
    """So many times the first argument."""
    return lambda arguments, results: count * size_of(arguments[0])


def _cross_entropy(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x.float(), target)


def _logits(classes: int, rows: int) -> Callable[[str, bool], Tensors]:
    def make(device: str, small: bool) -> Tensors:
        n = rows // 64 if small else rows
        logits = torch.randn(n, classes, device=device, dtype=torch.bfloat16)
        return logits, torch.randint(0, classes, (n,), device=device)

    return make


def _dropout_norm(x, residual, weight, bias):
    hidden = F.dropout(x, 0.1) + residual
    return F.layer_norm(hidden, (x.shape[-1],), weight, bias)


def _wide(width: int, full: int, rows: int = 16384) -> Callable[[str, bool], Tensors]:
    """`full` matrices and then two vectors, bfloat16."""

    def make(device: str, small: bool) -> Tensors:
        n = rows // 64 if small else rows
        kind = {"device": device, "dtype": torch.bfloat16}
        matrices = [torch.randn(n, width, **kind) for _ in range(full)]
        return (*matrices, torch.randn(width, **kind), torch.randn(width, **kind))

    return make


def _rope(q, k, cos, sin):
    def turn(x):
        first, second = x.chunk(2, -1)
        return x * cos + torch.cat((-second, first), -1) * sin

    return turn(q), turn(k)


def _rope_arguments(device: str, small: bool) -> Tensors:
    batch, length = (1, 64) if small else (8, 2048)
    kind = {"device": device, "dtype": torch.bfloat16}
    q, k = (torch.randn(batch, heads, length, 128, **kind) for heads in (32, 8))
    return q, k, torch.randn(length, 128, **kind), torch.randn(length, 128, **kind)


def _swiglu(gate, up):
    return F.silu(gate) * up


def _heads_apart(x):
    return (x * 0.5).transpose(1, 2).contiguous()


def _heads_argument(device: str, small: bool) -> Tensors:
    shape = (2, 128, 16, 64) if small else (32, 2048, 32, 64)
    return (torch.randn(shape, device=device, dtype=torch.bfloat16),)


def _embedding(weight, tokens):
    return F.embedding(tokens, weight)


def _embedding_arguments(device: str, small: bool) -> Tensors:
    rows, count = (512, 256) if small else (50304, 32768)
    weight = torch.randn(rows, 768, device=device)
    return weight, torch.randint(0, rows, (count,), device=device)


def _embedding_bytes(arguments: Tensors, results: Tensors) -> int:
    weight, tokens = arguments
    rows = tokens.numel() * weight.shape[1] * weight.element_size()
    return 3 * rows + size_of(weight) + 2 * size_of(tokens)


def _batch_norm(x, weight, bias):
    return F.relu(F.batch_norm(x, None, None, weight, bias, training=True))


def _batch_norm_arguments(device: str, small: bool) -> Tensors:
    n = 2 if small else 64
    vectors = torch.randn(2, 256, device=device).unbind(0)
    return torch.randn(n, 256, 56, 56, device=device, dtype=torch.bfloat16), *vectors


def _cumsum(x):
    return x.cumsum(-1)


def _cumsum_first(x):
    return x.cumsum(0)


def _cumsum_around(x, y):
    return (x * 2).cumsum(-1) * y


def _cummax(x):
    return x.cummax(-1)


def _cummax_first(x):
    return x.cummax(0)


def _logcumsumexp(x):
    return x.logcumsumexp(-1)


def _most_probable(x):
    """As in sampling from the most probable tokens."""
    p = x.softmax(-1)
    return torch.where(p.cumsum(-1) < 0.9, p, 0.0)


def _choices(device: str, small: bool) -> Tensors:
    """The experts of tokens, one hot."""
    chosen = torch.randint(0, 64, (128 if small else 16384,), device=device)
    return (F.one_hot(chosen, 64),)


_BF16 = torch.bfloat16
_SCANS = (
    GpuKernel("cumsum 4096²", _cumsum, [(4096, 4096)]),
    GpuKernel("cumsum 4096x4095", _cumsum, [(4096, 4095)]),
    GpuKernel("cumsum 32768x100", _cumsum, [(32768, 100)]),
    # Eager adds 16-bit floats up as such, and is nothing to compare with.
    GpuKernel("cumsum(2x)·y 4096²", _cumsum_around, [(4096, 4096)] * 2),
    GpuKernel("cumsum(0) 4096²", _cumsum_first, [(4096, 4096)]),
    GpuKernel("cumsum(0) 16384x64 int64", _cumsum_first, make=_choices),
    GpuKernel("cumsum(0) 65536x512", _cumsum_first, [(65536, 512)]),
    GpuKernel("p where cumsum(p) < 0.9, p softmax 64x50257", _most_probable, [(64, 50257)]),
    GpuKernel("cumsum 4x1000000", _cumsum, [(4, 1000000)]),
    GpuKernel("cummax 4x1000000", _cummax, [(4, 1000000)]),
    GpuKernel("cumsum(2x)·y 8x262144", _cumsum_around, [(8, 262144)] * 2),
    GpuKernel("cumsum 1x10000000, the library's", _cumsum, [(1, 10000000)]),
    GpuKernel("cummax 4096²", _cummax, [(4096, 4096)]),
    GpuKernel("cummax(0) 4096²", _cummax_first, [(4096, 4096)]),
    GpuKernel("logcumsumexp 4096²", _logcumsumexp, [(4096, 4096)]),
)
CASES = (
    GpuKernel("softmax(x/8+1) 16384x4096", _softmax, [(16384, 4096)]),
    GpuKernel("sigmoid·tanh+silu.clamp 8192² x3", _chain, [(8192, 8192)] * 3),
    GpuKernel(
        "GELU(LayerNorm(x+y))·w 16384x4096",
        _norm,
        [(16384, 4096), (16384, 4096), (4096,), (4096,), (4096,)],
    ),
    GpuKernel("RMSNorm(x)·w 16384x4096", _rms_norm, [(16384, 4096), (4096,)]),
    GpuKernel("sum(x²), amax(0), mean(1) of 8192²", _sums, [(8192, 8192)]),
    GpuKernel("RMSNorm(x)·w 16384x4096 bf16", _rms_norm, [(16384, 4096), (4096,)], _BF16),
    GpuKernel("(x+1)·yᵀ 8192²", _add_transposed, [(8192, 8192)] * 2),
    GpuKernel("heads apart 32x2048x32x64 bf16", _heads_apart, make=_heads_argument),
    GpuKernel("cross entropy 8192x30528 bf16", _cross_entropy, make=_logits(30528, 8192)),
    GpuKernel("cross entropy 4096x128256 bf16", _cross_entropy, make=_logits(128256, 4096)),
    GpuKernel(
        "cross entropy 8192x30528 bf16, both ways",
        _cross_entropy,
        make=_logits(30528, 8192),
        grad=True,
        bytes=_passes(3),
    ),
    GpuKernel(
        "dropout, residual, LayerNorm 16384x1024 bf16, both ways",
        _dropout_norm,
        make=_wide(1024, 2),
        grad=True,
        bytes=_passes(8),
    ),
    GpuKernel("RoPE 8x(32+8)x2048x128 bf16", _rope, make=_rope_arguments),
    GpuKernel("SwiGLU 16384x11008 bf16", _swiglu, [(16384, 11008)] * 2, _BF16),
    GpuKernel(
        "SwiGLU 16384x11008 bf16, both ways",
        _swiglu,
        [(16384, 11008)] * 2,
        _BF16,
        grad=True,
        bytes=_passes(8),
    ),
    GpuKernel(
        "embedding 50304x768, 32768 tokens, both ways",
        _embedding,
        make=_embedding_arguments,
        grad=True,
        bytes=_embedding_bytes,
    ),
    GpuKernel(
        "batch norm, ReLU 64x256x56² bf16, both ways",
        _batch_norm,
        make=_batch_norm_arguments,
        grad=True,
        bytes=_passes(8),
    ),
    *_SCANS,
)


def runner(case: GpuKernel, function: Callable[..., Any], arguments: Tensors) -> Callable[[], Any]:
    """One call: the results, or with `grad` the gradients of all floating-point arguments."""
    if not case.grad:

        def forward() -> Any:
            with torch.no_grad():
                return function(*arguments)

        return forward
    leaves = tuple(x.detach().requires_grad_() if x.is_floating_point() else x for x in arguments)
    wanted = [x for x in leaves if x.requires_grad]
    with torch.no_grad():
        weight = torch.randn_like(case.function(*leaves))

    def both() -> Any:
        return torch.autograd.grad(function(*leaves), wanted, weight)

    return both


class AdamW:
    """The optimizer's step over the parameters of a 12-layer transformer, float32."""

    name = "AdamW step, 12 layers"

    def __init__(self, device: str, small: bool) -> None:
        width, layers = (64, 2) if small else (768, 12)
        block = [(3 * width, width), (3 * width,), (width, width), (width,), (4 * width, width)]
        block += [(4 * width,), (width, 4 * width), *[(width,)] * 5]
        self._shapes = [(64 * width, width), *block * layers]
        self._device = device

    def run(self, compiler: Callable[..., Any] | None) -> Callable[[], Any]:
        """A step: eager's own fused one, or the plain one compiled."""
        make = torch.randn
        parameters = [make(s, device=self._device).requires_grad_() for s in self._shapes]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        if compiler is None:
            return torch.optim.AdamW(parameters, lr=1e-4, fused=True).step
        # A rate in a tensor is no constant of the graph; only optimizers on GPUs take one.
        cuda = self._device == "cuda"
        rate = torch.tensor(1e-4, device=self._device) if cuda else 1e-4
        optimizer = torch.optim.AdamW(parameters, lr=rate, foreach=True, capturable=cuda)
        return compiler(lambda: optimizer.step())

    def moved(self) -> int:
        """Parameter, gradient and two moments read; parameter and moments written."""
        return 7 * 4 * sum(math.prod(shape) for shape in self._shapes)
