# SPDX-License-Identifier: Apache-2.0
"""Hand-written attention with views that part batches from heads, and join them again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from attention_passes import B, D, H, Passes, T, random_inputs, run
from tensord.passes.captured import dynamo
from torch import Tensor

DTYPES = (torch.float32, torch.float64)


def _alibi(dtype: torch.dtype) -> Tensor:
    return torch.linspace(0, 2, B * H * T, dtype=dtype).view(B * H, 1, T)


def _padding(dtype: torch.dtype) -> Tensor:
    """Added to scores: of the second batch the last two keys are not seen."""
    seen = torch.arange(T) < torch.tensor([T, T - 2])[:, None]
    zero, lowest = (torch.tensor(x, dtype=dtype) for x in (0.0, torch.finfo(dtype).min))
    return torch.where(seen, zero, lowest)[:, None, None]


def _bloom(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Scores of batches times heads with a bias, masked with both apart."""
    q, k, v = (x.reshape(B * H, T, D) for x in (q, k, v))
    scores = _alibi(q.dtype).baddbmm(batch1=q, batch2=k.transpose(-1, -2), beta=1.0, alpha=0.25)
    scores = scores.view(B, H, T, -1) + _padding(q.dtype)
    weights = F.softmax(scores, dim=-1, dtype=torch.float64).to(q.dtype)
    y = torch.bmm(weights.view(B * H, T, -1), v)
    return y.view(B, H, T, D)


def _fairseq(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """Apart for the mask alone."""
    q, k, v = (x.reshape(B * H, T, D) for x in (q, k, v))
    scores = torch.bmm(q, k.transpose(1, 2)).view(B, H, T, T) + _padding(q.dtype)
    return torch.bmm(F.softmax(scores.view(B * H, T, T), dim=-1), v).view(B, H, T, D)


def _joined_mask(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The heads apart from the softmax on, masks before: one for all, and one for each."""
    one = torch.ones(1, T, T, dtype=torch.bool).tril()
    each = torch.linspace(0, 1, B * H * T * T, dtype=q.dtype).view(B * H, T, T)
    scores = q.reshape(B * H, T, D) @ k.reshape(B * H, T, D).mT + each
    weights = scores.masked_fill(~one, float("-inf")).view(B, H, T, T).softmax(-1)
    return weights @ v


VIEWS = {"bloom": _bloom, "fairseq": _fairseq, "masks of both at once": _joined_mask}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", VIEWS)
def test_views_between_batches_and_heads(name: str, dtype: torch.dtype) -> None:
    passes = run(VIEWS[name], random_inputs(dtype))
    assert passes.counts["attention"] == 1
    (call,) = passes.calls()
    assert dynamo.value_of(call).shape == (B, H, T, D)


def test_views_of_sizes_that_change() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        batch, time = q.shape[0], q.shape[2]
        q, k, v = (x.reshape(batch * H, time, D) for x in (q, k, v))
        scores = torch.bmm(q, k.transpose(1, 2)).view(batch, H, time, time) + mask
        return torch.bmm(scores.view(batch * H, time, time).softmax(-1), v)

    torch._dynamo.reset()
    passes = Passes()
    compiled = torch.compile(function, backend=passes, fullgraph=True)
    for batch, time in ((2, 8), (3, 9), (5, 11)):
        inputs = [torch.randn(batch, H, time, D) for _ in range(3)]
        mask = torch.randn(batch, 1, 1, time)
        torch.testing.assert_close(compiled(*inputs, mask), function(*inputs, mask))
    assert passes.counts["attention"] == len(passes.graphs) == 2


LEFT_ALONE: dict[str, Callable[..., Tensor]] = {
    "a view of other dimensions": lambda q, k, v: (
        (q @ k.mT).view(B * H * T, T).softmax(-1).view(B, H, T, T) @ v
    ),
    "sizes as keywords": lambda q, k, v: (
        torch.reshape(input=q @ k.mT, shape=(B * H, T, T)).softmax(-1) @ v.reshape(B * H, T, D)
    ),
    "one query for all": lambda q, k, v: (
        torch.softmax(k[0, 0] @ q[0, 0, 0], -1) @ v[0, 0]
    ),
    "queries that all batches share": lambda q, k, v: (
        (q[:1, 0] @ k.view(B * H, T, D).mT)
        .view(B, H, T, T).softmax(-1).view(B * H, T, T) @ v.view(B * H, T, D)
    ),
    "two views that part otherwise": lambda q, k, v: (
        (q.view(B * H, T, D) @ k.view(B * H, T, D).mT)
        .view(H, B, T, T).softmax(-1).view(B * H, T, T).view(B, H, T, T) @ v
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    passes = Passes()
    torch._dynamo.reset()
    inputs = [x.detach() for x in random_inputs(torch.float32)]
    ours = torch.compile(LEFT_ALONE[name], backend=passes, fullgraph=True)(*inputs)
    torch.testing.assert_close(ours, LEFT_ALONE[name](*inputs))
    assert passes.counts["attention"] == 0


def test_a_bias_that_is_a_product_is_none_of_the_scores() -> None:
    """As of relative positions, in four dimensions before and after a view."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        table = torch.linspace(-1, 1, D * T, dtype=q.dtype).view(D, T)
        return ((q @ table).reshape(B, H, T, T) + q @ k.mT).softmax(-1) @ v

    assert run(function, random_inputs(torch.float64)).counts["attention"] == 1


def test_gradients_that_begin_behind_the_weights() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with torch.no_grad():
            weights = (q @ k.mT).softmax(-1)
        return weights @ v + 0 * (q + k)

    assert run(function, random_inputs(torch.float32)).counts["attention"] == 0


def test_who_sees_how_the_result_lies_gets_rows() -> None:
    """Fused kernels have heads within positions: a view of all rows of a head would fail."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1).matmul(v).view(B, H * T, D)

    passes = run(function, random_inputs(torch.float32))
    (call,) = passes.calls()
    assert [user.target for user in call.users] == ["contiguous"]

    def usual(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return (q @ k.mT).softmax(-1).matmul(v).transpose(1, 2).reshape(B, T, H * D).relu()

    (call,) = run(usual, random_inputs(torch.float32)).calls()
    assert [user.target for user in call.users] == ["transpose"]
