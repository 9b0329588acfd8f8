# SPDX-License-Identifier: Apache-2.0
"""Elements that equal their own extremum, of narrow numbers that kernels compute wider: each row
has one, in forward and where backward looks for it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint

ROWS, COLUMNS = 64, 5


def _norm(x: Tensor) -> Tensor:
    return F.layer_norm(x, x.shape[-1:])


VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "norm": _norm,
    "leaky_relu": lambda x: F.leaky_relu(_norm(x), 0.1),
    "silu": lambda x: F.silu(_norm(x)),
    "hardswish": lambda x: F.hardswish(_norm(x) * 2),
    "product": lambda x: x * 1.7 * x.sigmoid(),
}
EXTREMA: dict[str, Callable[[Tensor], Tensor]] = {
    "amin": lambda v: v.amin(1),
    "amax": lambda v: v.amax(1),
    "aminmax": lambda v: v.aminmax(dim=1)[0],
    "norm": lambda v: torch.linalg.vector_norm(v, float("inf"), 1),
}


def _inputs(dtype: torch.dtype) -> Tensor:
    torch.manual_seed(0)
    return torch.randn(ROWS, COLUMNS).to(dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize("extremum", EXTREMA)
@pytest.mark.parametrize("value", VALUES)
def test_gradients_reach_what_is_extreme(
    tensord_daemon: object, value: str, extremum: str, dtype: torch.dtype
) -> None:
    """None is a quotient by 0, which it is where no element of a row equals the row's result."""

    def function(x: Tensor) -> Tensor:
        return EXTREMA[extremum](VALUES[value](x))

    def gradient(run: Callable[[Tensor], Tensor]) -> Tensor:
        x = _inputs(dtype).requires_grad_()
        run(x).sum().backward()
        assert x.grad is not None
        return x.grad

    ours = gradient(torch.compile(function, backend="tensord", dynamic=False))
    assert not ours.isnan().any()
    assert torch.equal(ours.ne(0).any(1), gradient(function).ne(0).any(1))


@pytest.mark.parametrize("value", ["norm", "silu"])
def test_checkpoints(tensord_daemon: object, value: str) -> None:
    """What a checkpoint has computed again stays so, several results at once included."""

    def function(x: Tensor) -> Tensor:
        return checkpoint(lambda x: VALUES[value](x).amax(1), x, use_reentrant=False)

    x = _inputs(torch.bfloat16).requires_grad_()
    torch.compile(function, backend="tensord", dynamic=False)(x).sum().backward()
    assert x.grad is not None and not x.grad.isnan().any()


@pytest.mark.parametrize("value", VALUES)
def test_a_row_has_its_minimum(tensord_daemon: object, value: str) -> None:
    """Where the norm is a result as well, which later passes of its kernel read from memory."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = _norm(x)
        v = F.leaky_relu(y, 0.1) if value == "norm" else VALUES[value](x)
        return y, v == v.amin(1, keepdim=True)

    compiled = torch.compile(function, backend="tensord", dynamic=False)
    _, same = compiled(_inputs(torch.bfloat16))
    assert same.any(1).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_what_equals_its_stored_value_is_neither_less_nor_greater(
    tensord_daemon: object, dtype: torch.dtype
) -> None:
    """Gradients of minimum and maximum ask all three, of values that they compute again."""

    def function(x: Tensor, stored: Tensor) -> tuple[Tensor, ...]:
        y = x * x
        return y < stored, y <= stored, y > stored, y >= stored, y == stored, y != stored

    x = torch.randn(300, COLUMNS).to(dtype)
    compiled = torch.compile(function, backend="tensord", dynamic=False)
    for got, wanted in zip(compiled(x, x * x), function(x, x * x), strict=True):
        assert torch.equal(got, wanted)
