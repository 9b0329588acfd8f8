# SPDX-License-Identifier: Apache-2.0
"""Hand-written attention with views between batches and heads, and numbers in place of scores."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from attention_passes import B, D, H, Passes, T, random_inputs, run
from tensord.passes.captured import attention, dynamo
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode

LOWEST = torch.finfo(torch.float32).min
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


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("how", ["where", "masked_fill"])
def test_the_lowest_number_in_place_of_scores(how: str, dtype: torch.dtype) -> None:
    """By a mask that is not known: a row of which nothing is left is uniform, as in eager. Its
    gradients would not be: none of the number's goes to the score."""
    keep = torch.rand(1, 1, T, T) < 0.7
    keep[..., 0] = True
    keep[:, :, 3] = False
    lowest = torch.finfo(dtype).min

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        scores = q @ k.mT
        if how == "where":
            scores = torch.where(keep, scores, torch.tensor(lowest, dtype=dtype))
        else:
            scores = scores.masked_fill(~keep, lowest)
        return (scores + _padding(dtype)).softmax(-1) @ v

    inputs = random_inputs(dtype)
    assert run(function, inputs).counts["attention"] == 0
    torch._dynamo.reset()
    passes = Passes()
    with torch.no_grad():
        ours = torch.compile(function, backend=passes, fullgraph=True)(*inputs)
        torch.testing.assert_close(ours, function(*inputs))
    assert passes.counts["attention"] == 1


LEFT_ALONE: dict[str, Callable[..., Tensor]] = {
    "a number that does not absorb scores": lambda q, k, v, keep: (
        (q @ k.mT).masked_fill(keep, -1e20).softmax(-1) @ v
    ),
    "a bias that the number replaces": lambda q, k, v, keep: (
        (q @ k.mT + v.sum(-1, keepdim=True)).masked_fill(keep, LOWEST).softmax(-1) @ v
    ),
    "a view of other dimensions": lambda q, k, v, keep: (
        (q @ k.mT).view(B * H * T, T).softmax(-1).view(B, H, T, T) @ v
    ),
    "queries that all batches share": lambda q, k, v, keep: (
        (q[:1, 0] @ k.view(B * H, T, D).mT)
        .view(B, H, T, T).softmax(-1).view(B * H, T, T) @ v.view(B * H, T, D)
    ),
    "two views that part otherwise": lambda q, k, v, keep: (
        (q.view(B * H, T, D) @ k.view(B * H, T, D).mT)
        .view(H, B, T, T).softmax(-1).view(B * H, T, T).view(B, H, T, T) @ v
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    keep = torch.rand(B, H, T, T) < 0.3
    passes = Passes()
    torch._dynamo.reset()
    with torch.no_grad():
        inputs = [*random_inputs(torch.float32), keep]
        ours = torch.compile(LEFT_ALONE[name], backend=passes, fullgraph=True)(*inputs)
        torch.testing.assert_close(ours, LEFT_ALONE[name](*inputs))
    assert passes.counts["attention"] == 0


def test_float16_has_no_such_number() -> None:
    """-65504 and a score is another number: a row of which nothing is left would not be uniform."""

    def like(dtype: torch.dtype) -> fx.Node:
        node = fx.Graph().placeholder("x")
        with FakeTensorMode():
            node.meta["example_value"] = torch.empty(B, H, T, D, dtype=dtype, device="cuda")
        return node

    for dtype in (torch.bfloat16, torch.float16):
        q = like(dtype)
        match = attention.Match(q, q, product=attention.Product(q, q))
        assert attention.fused_kernel_exists(match, None)
        match.masks.append(attention.Mask("drop", q, 4, LOWEST))
        assert attention.fused_kernel_exists(match, None) == (dtype is torch.bfloat16)
