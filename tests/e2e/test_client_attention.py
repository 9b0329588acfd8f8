# SPDX-License-Identifier: Apache-2.0
"""Passes before autograd: hand-written attention, constant masks, grouped heads.

Graphs are captured by Dynamo and run in eager, before and after; the passes aim at GPUs, so here
they are told to take every attention that they recognise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import client_passes
import models
import pytest
import tensord
import torch
import torch.nn.functional as F
from attention_passes import B, D, H, Passes, T, random_inputs, run
from long_cases import long_but
from tensord.passes.captured import attention, dynamo
from torch import Tensor, fx

INF = float("-inf")
DTYPES = (torch.float32, torch.float64)


def _causal(device: Any = None) -> Tensor:
    return torch.ones(T, T, dtype=torch.bool, device=device).tril()


# -- hand-written attention ------------------------------------------------------------------------

_S = 1 / math.sqrt(D)
SPELLINGS: dict[str, Callable[..., Tensor]] = {
    "plain": lambda q, k, v: (q @ k.transpose(-2, -1)).softmax(-1) @ v,
    "scaled after": lambda q, k, v: torch.softmax(q @ k.transpose(2, 3) * _S, dim=-1) @ v,
    "divided": lambda q, k, v: F.softmax((q @ k.mT) / math.sqrt(D), dim=3).matmul(v),
    "number first": lambda q, k, v: (_S * torch.matmul(q, k.permute(0, 1, 3, 2))).softmax(-1) @ v,
    "scaled q": lambda q, k, v: ((q * _S) @ k.transpose(-1, -2)).softmax(-1) @ v,
    "scaled k": lambda q, k, v: (q @ (k / 4).transpose(-1, -2)).softmax(-1) @ v,
    "einsum": lambda q, k, v: torch.einsum(
        "bhij,bhjd->bhid", (torch.einsum("bhid,bhjd->bhij", q, k) * _S).softmax(-1), v
    ),
    "einsum, heads third": lambda q, k, v: torch.einsum(
        "bhqk,bkhd->bqhd",
        (torch.einsum("bqhd,bkhd->bhqk", q.mT.mT, k) * _S).softmax(-1),
        v,
    ),
    "einsum, keys first": lambda q, k, v: torch.einsum("bhjd,bhid->bhij", k, q).softmax(-1) @ v,
    "wider softmax": lambda q, k, v: (
        F.softmax(q @ k.mT * _S, dim=-1, dtype=torch.float64).to(q.dtype) @ v
    ),
    "scores as double": lambda q, k, v: ((q @ k.mT).double() * _S).softmax(-1).type_as(v) @ v,
    "no dropout in eval": lambda q, k, v: F.dropout((q @ k.mT).softmax(-1), 0.5, False) @ v,
    "in place": lambda q, k, v: _in_place(q, k, v),
    "causal by masked_fill": lambda q, k, v: (
        (q @ k.mT * _S).masked_fill(~_causal(), INF).softmax(-1) @ v
    ),
    "causal by where": lambda q, k, v: (
        torch.where(_causal(), q @ k.mT * _S, torch.finfo(q.dtype).min).softmax(-1) @ v
    ),
    "causal by triu": lambda q, k, v: (
        (q @ k.mT + torch.full((T, T), INF).triu(1).to(q.dtype)).softmax(-1) @ v
    ),
    "causal by arange": lambda q, k, v: (
        (q @ k.mT)
        .masked_fill(torch.arange(T)[None, :] > torch.arange(T)[:, None], -1e30)
        .softmax(-1)
        @ v
    ),
    "all seen": lambda q, k, v: (
        (q @ k.mT).masked_fill(torch.zeros(T, T, dtype=torch.bool), INF).softmax(-1) @ v
    ),
    "zeros added": lambda q, k, v: (
        (q @ k.mT + torch.zeros(1, 1, 1, T, dtype=q.dtype)).softmax(-1) @ v
    ),
}


def _in_place(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    scores = q @ k.mT
    scores *= _S
    scores += torch.linspace(0, 1, T, dtype=q.dtype)
    return scores.softmax(-1) @ v


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling(name: str, dtype: torch.dtype) -> None:
    _expect_attention(name, run(SPELLINGS[name], random_inputs(dtype)))


@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling_by_methods(name: str) -> None:
    _expect_attention(name, run(SPELLINGS[name], random_inputs(torch.float64), methods=True))


def _expect_attention(name: str, passes: Passes) -> None:
    assert passes.counts["attention"] == 1
    (call,) = passes.calls()
    causal = name.startswith("causal")
    assert dynamo.argument(call, "is_causal") is causal
    if causal or name in ("all seen", "zeros added"):
        assert dynamo.argument(call, "attn_mask") is None
    left = {dynamo.name_of(n) for n in passes.graphs[0].graph.nodes}
    assert not left & {"matmul", "softmax", "einsum", "arange", "ones", "tril"}, left


THREE: dict[str, Callable[..., Tensor]] = {
    "bmm": lambda q, k, v: torch.bmm((torch.bmm(q, k.transpose(1, 2)) * _S).softmax(-1), v),
    "baddbmm": lambda q, k, v: torch.bmm(
        torch.baddbmm(torch.linspace(0, 1, T, dtype=q.dtype), q, k.mT, alpha=_S).softmax(2), v
    ),
    "baddbmm without base": lambda q, k, v: (
        torch.baddbmm(torch.empty(1, 1, T, dtype=q.dtype), q, k.mT, beta=0, alpha=_S).softmax(2) @ v
    ),
    "einsum": lambda q, k, v: torch.einsum(
        "bij,bjd->bid", torch.einsum("bid,bjd->bij", q, k).softmax(-1), v
    ),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", THREE)
def test_three_dimensions(name: str, dtype: torch.dtype) -> None:
    passes = run(THREE[name], random_inputs(dtype, (B * H, T, D)))
    assert passes.counts["attention"] == 1
    assert dynamo.sizes_of(passes.calls()[0]) == [B * H, 1, T, D]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["bias", "keep", "drop", "both"])
def test_masks_that_are_inputs(kind: str, dtype: torch.dtype) -> None:
    keep = torch.rand(B, 1, T, T) < 0.7
    keep[..., 0] = True
    bias = torch.randn(1, H, T, T, dtype=dtype, requires_grad=True)

    def function(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        scores = q @ k.mT * _S
        if kind in ("bias", "both"):
            scores = scores + bias
        if kind in ("drop", "both"):
            scores = scores.masked_fill(~keep, INF)
        if kind == "keep":
            scores = torch.where(keep, scores, INF)
        return scores.softmax(-1) @ v + bias.sum()

    passes = run(function, [*random_inputs(dtype), bias])
    assert passes.counts["attention"] == 1
    assert dynamo.argument(passes.calls()[0], "attn_mask") is not None


def test_dropout_becomes_an_argument() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.dropout((q @ k.mT).softmax(-1), 0.25) @ v

    passes = Passes()
    torch.compile(function, backend=passes, fullgraph=True)(*random_inputs(torch.float32))
    assert passes.calls()[0].kwargs["dropout_p"] == 0.25


def _weights_returned(q: Tensor, k: Tensor, v: Tensor) -> Any:
    weights = (q @ k.mT).softmax(-1)
    return (weights @ v).sum() + weights.square().sum()


def _scores_used(q: Tensor, k: Tensor, v: Tensor) -> Any:
    scores = q @ k.mT
    return (scores.softmax(-1) @ v).sum() + scores.sum()


LEFT_ALONE: dict[str, Callable[..., Any]] = {
    "weights returned": _weights_returned,
    "scores used": _scores_used,
    "other softmax": lambda q, k, v: (q @ k.mT).softmax(-2) @ v,
    "scale is a tensor": lambda q, k, v: (q @ k.mT * q.sum()).softmax(-1) @ v,
    "mask scaled too": lambda q, k, v: (
        ((q @ k.mT + torch.linspace(0, 1, T, dtype=q.dtype)) * _S).softmax(-1) @ v
    ),
    "activation between": lambda q, k, v: (q @ k.mT).tanh().softmax(-1) @ v,
    "small number filled in": lambda q, k, v: (
        (q @ k.mT).masked_fill(~_causal(), -10.0).softmax(-1) @ v
    ),
    "number in unknown mask": lambda q, k, v: (
        (q @ k.mT).masked_fill(q.sum(-1, keepdim=True) > 0, -1e9).softmax(-1) @ v
    ),
    "batches broadcast": lambda q, k, v: (q @ k[:, :1].mT).softmax(-1) @ v,
    "no product of scores": lambda q, k, v: (q + k).softmax(-1) @ v.mT,
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    def function(*inputs: Tensor) -> Tensor:
        result = LEFT_ALONE[name](*inputs)
        return result if result.dim() else result[None]

    passes = run(function, random_inputs(torch.float64))
    assert not passes.counts["attention"] and not passes.calls()


def test_inputs_that_change_on_the_way_are_left_alone() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        q = q * 1
        scores = q @ k.mT
        q.add_(1)
        return scores.softmax(-1) @ v + q

    torch._dynamo.reset()
    passes = Passes()
    inputs = [x.detach() for x in random_inputs(torch.float64)]
    ours = torch.compile(function, backend=passes)(*inputs)
    torch.testing.assert_close(ours, function(*inputs))
    assert not passes.counts["attention"]


# -- eligibility -----------------------------------------------------------------------------------


def test_cpu_graphs_are_left_alone() -> None:
    found: list[int] = []

    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        found.append(attention.attention(module))
        return module.forward

    torch._dynamo.reset()
    torch.compile(SPELLINGS["plain"], backend=backend)(*random_inputs(torch.float32))
    assert found == [0]


@pytest.mark.parametrize("within", [False, True])
def test_autocast_is_known(within: bool) -> None:
    seen: list[Any] = []

    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        attention.attention(module, lambda match, dtype: bool(seen.append(dtype)))
        return module.forward

    plain = SPELLINGS["scaled after"]

    def inside(*inputs: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return plain(*inputs)

    torch._dynamo.reset()
    function = torch.compile(inside if within else plain, backend=backend)
    with torch.autocast("cpu", torch.bfloat16, enabled=not within):
        function(*random_inputs(torch.float32))
    assert seen == [torch.bfloat16]


def test_half_precision_with_a_wider_bias() -> None:
    bias = torch.full((T, T), torch.finfo(torch.float32).min).triu(1)
    bias[3] = torch.finfo(torch.float32).min  # a row of which nothing is left

    def function(q: Tensor, k: Tensor, v: Tensor, bias: Tensor) -> Tensor:
        return ((q @ k.mT).float() * _S + bias).softmax(-1).to(q.dtype) @ v

    inputs = [x.detach().bfloat16() for x in random_inputs(torch.float32)]
    passes = Passes()
    ours = torch.compile(function, backend=passes)(*inputs, bias)
    assert passes.counts["attention"] == 1
    torch.testing.assert_close(ours, function(*inputs, bias), rtol=0.05, atol=0.05)


# -- masks of calls that are there -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("mask", "wanted"),
    [
        (lambda: torch.ones(T, T, dtype=torch.bool), (True, False)),
        (lambda: torch.arange(T)[:, None] >= torch.arange(T), (True, True)),
        (lambda: torch.zeros(T, T), (True, False)),
        (lambda: torch.full((1, 1, T, T), INF).triu(1), (True, True)),
        (lambda: torch.where(_causal(), torch.tensor(0.0), -3e38), (True, True)),
        (lambda: torch.ones(T, T, dtype=torch.bool).tril(1), (False, False)),
        (lambda: torch.ones(T, T).tril(), (False, False)),
    ],
    ids=["all", "causal", "zeros", "added", "a number", "wider", "not a mask"],
)
@pytest.mark.parametrize("methods", [False, True], ids=["functions", "methods"])
def test_masks_of_calls(
    mask: Callable[[], Tensor], wanted: tuple[bool, bool], methods: bool
) -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, mask())

    passes = run(function, random_inputs(torch.float32), methods)
    (call,) = passes.calls()
    gone = dynamo.argument(call, "attn_mask") is None
    assert (gone, dynamo.argument(call, "is_causal", False)) == wanted


def _item_set(mask: Tensor) -> None:
    mask[0, 1:] = False


def _all_anded(mask: Tensor) -> None:
    mask &= torch.eye(T, dtype=torch.bool)


def _row_xored(mask: Tensor) -> None:
    row = mask[0]
    row ^= torch.arange(T) > 0


@pytest.mark.parametrize("methods", [False, True], ids=["functions", "methods"])
@pytest.mark.parametrize("change", [_item_set, _all_anded, _row_xored])
def test_a_mask_that_is_changed_in_place_is_no_constant(
    change: Callable[[Tensor], None], methods: bool
) -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = torch.ones(T, T, dtype=torch.bool)
        change(mask)
        return F.scaled_dot_product_attention(q, k, v, mask)

    passes = run(function, random_inputs(torch.float32), methods)
    assert not passes.counts["masks"]
    assert passes.counts["methods"] or not methods


def test_causal_masks_of_other_shapes_are_left() -> None:
    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        mask = torch.ones(3, T, dtype=torch.bool).tril()
        return F.scaled_dot_product_attention(q[:, :, :3], k, v, mask)

    assert not run(function, random_inputs(torch.float32)).counts["masks"]


# -- grouped heads ---------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["expand", "unsqueeze", "repeat_interleave"])
@pytest.mark.parametrize("written", [False, True])
def test_grouped_heads(how: str, written: bool) -> None:
    def repeated(x: Tensor) -> Tensor:
        if how == "repeat_interleave":
            return x.repeat_interleave(2, dim=1)
        wide = x[:, :, None, :, :] if how == "expand" else x.unsqueeze(2)
        return wide.expand(B, H // 2, 2, T, D).reshape(B, H, T, D)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = repeated(k), repeated(v)
        if written:
            return (q @ k.transpose(2, 3) * 0.3).softmax(-1) @ v
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    q, k, v = random_inputs(torch.float64)
    narrow = [x.detach()[:, : H // 2].clone().requires_grad_() for x in (k, v)]
    passes = run(function, [q, *narrow])
    (call,) = passes.calls()
    assert call.kwargs["enable_gqa"] is True
    assert dynamo.sizes_of(call.args[1]) == [B, H // 2, T, D]


# -- models of transformers ------------------------------------------------------------------------

# Model -> calls of attention, of them causal.
MODELS = {"bert": (2, 0), "gpt2": (2, 2), "llama": (2, 2), "t5": (6, 0), "vit": (2, 0)}


@pytest.mark.parametrize("implementation", long_but(("eager",), ("sdpa", "eager")))
@pytest.mark.parametrize("name", MODELS)
def test_models(name: str, implementation: str) -> None:
    model, inputs = models.build(name)
    inputs.pop("attention_mask", None)
    model.set_attn_implementation(implementation)
    torch._dynamo.reset()
    passes = Passes()
    compiled = torch.compile(model, backend=passes, dynamic=False)
    ours, eager = compiled(**inputs), model(**inputs)
    torch.testing.assert_close(ours.logits, eager.logits, rtol=1e-4, atol=1e-4)
    found = passes.calls()
    causal = [c for c in found if dynamo.argument(c, "is_causal") is True]
    total, of_them = MODELS[name]
    assert len(found) == total
    if name == "t5":  # its causal self-attention has a bias as well
        return
    assert len(causal) == of_them
    assert all(dynamo.argument(c, "attn_mask") is None for c in found)
    if name == "llama":
        assert all(c.kwargs.get("enable_gqa") for c in found)


# -- as part of the backend ------------------------------------------------------------------------


def test_the_backend_runs_them(daemon: object, monkeypatch: pytest.MonkeyPatch) -> None:
    client_passes.on_any_device(monkeypatch)
    monkeypatch.setattr(attention, "fused_kernel_exists", lambda match, dtype: True)
    function, inputs = SPELLINGS["causal by masked_fill"], random_inputs(torch.float32)
    for options, count in (({}, 1), ({"attention": False}, 0)):
        torch._dynamo.reset()
        tensord.reset_stats()
        compiled = torch.compile(function, backend="tensord", options=options)
        torch.testing.assert_close(compiled(*inputs), function(*inputs), rtol=1e-4, atol=1e-4)
        stats = tensord.stats()
        assert (stats["attention_fused"], stats["masks_simplified"]) == (count, count)
