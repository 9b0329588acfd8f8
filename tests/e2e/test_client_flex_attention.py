# SPDX-License-Identifier: Apache-2.0
"""FlexAttention in programs: its functions of scores and masks share a kernel with the softmax.

torch refuses gradients of queries, keys and values on the CPU, though eager computes them; here it
does not ask for the device.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensord
import torch
from long_cases import long_but
from tensord import passes
from tensord.capture.partition import partition
from tensord.passes.captured import flex_attention as captured
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

B, H, M, N, D = 2, 4, 24, 40, 16
TOLERANCES: dict[torch.dtype, dict[str, float]] = {
    torch.float32: {"rtol": 2e-5, "atol": 2e-5},
    torch.float64: {"rtol": 1e-12, "atol": 1e-12},
    torch.bfloat16: {"rtol": 2e-2, "atol": 2e-2},
}
Attention = Callable[..., Any]


@pytest.fixture(autouse=True)
def gradients_anywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torchs, "_validate_device", lambda query, key, value: None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        warnings.filterwarnings("ignore", "return_lse is deprecated")
        yield


def _inputs(
    dtype: torch.dtype = torch.float32, heads: int = H, queries: int = M, keys: int = N
) -> list[Tensor]:
    torch.manual_seed(0)
    shapes = ((B, H, queries, D), (B, heads, keys, D), (B, heads, keys, D))
    return [torch.randn(shape).to(dtype) for shape in shapes]


def _compiled(function: Attention, **options: Any) -> Attention:
    return torch.compile(function, backend="tensord", fullgraph=True, **options)


def _close(ours: Any, eager: Any, dtype: torch.dtype) -> None:
    torch.testing.assert_close(ours, eager, **TOLERANCES[dtype], equal_nan=True)
    for a, b in zip(*(torch.utils._pytree.tree_leaves(x) for x in (ours, eager)), strict=True):
        assert a.stride() == b.stride()


def _is_compiled(programs: int = 1, kernels: int | None = None) -> None:
    stats = tensord.stats()
    assert (stats["flex_attentions"], stats["graphs"]) == (1, programs)
    assert stats["call_backs"] == 0, stats["call_back_reasons"]
    assert stats["fallbacks"] == 0 and stats["calls_in_eager"] == 0
    if kernels is not None:
        assert stats["kernels"] == kernels


def _masked(mask: Any, queries: int = M, keys: int = N, **where: Any) -> BlockMask:
    return create_block_mask(mask, None, None, queries, keys, device="cpu", **where)


# -- functions of scores and masks -----------------------------------------------------------------


def _alibi(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + (k - q) * torch.exp2(-(h + 1) * 8.0 / H)


def _capped(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return 5 * torch.tanh(score / 5)


def _causal(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return q >= k


def _window(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q >= k) & (q - k < 7)


def _none_for_some(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (q % 5 != 2) & (k > b)


DOCUMENTS = torch.arange(N) // 9
TABLE = torch.linspace(-2, 2, H * (M + N)).reshape(H, M + N).sin()
LENGTHS = torch.tensor([N, 11])


def _documents(b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return (DOCUMENTS[q] == DOCUMENTS[k]) & (k < LENGTHS[b])


def _relative(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return score + TABLE[h, q - k + N]


def _of_a_row(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    """A vector of the table, reduced: no function of single elements."""
    return score * TABLE[h].sum() + TABLE[0, 3] - TABLE[h][k]


def _masked_by_scores(score: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
    return torch.where(q > 3, score, -math.inf)


FUNCTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "alibi": {"score_mod": _alibi},
    "soft cap": {"score_mod": _capped},
    "relative": {"score_mod": _relative},
    "row of a table": {"score_mod": _of_a_row},
    "rows of -inf": {"score_mod": _masked_by_scores},
    "causal": {"mask": _causal},
    "window": {"mask": _window},
    "documents": {"mask": _documents},
    "fully masked rows": {"mask": _none_for_some},
    "causal alibi": {"mask": _causal, "score_mod": _alibi},
    "capped documents": {"mask": _documents, "score_mod": _capped},
    "scaled": {"score_mod": _alibi, "scale": 0.3},
}


_WIDE = [(name, torch.float32) for name in FUNCTIONS]
_NARROW = [(name, torch.bfloat16) for name in FUNCTIONS]
CASES = long_but([*_WIDE, *_NARROW[-2:]], [*_WIDE, *_NARROW])


def _attention(mask: Any = None, **options: Any) -> Attention:
    block_mask = None if mask is None else _masked(mask)

    def attention(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask, **options)

    return attention


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_forward(tensord_daemon: Any, name: str, dtype: torch.dtype) -> None:
    function = _attention(**FUNCTIONS[name])
    inputs = _inputs(dtype)
    run = _compiled(function)
    for _ in range(2):
        _close(run(*inputs), function(*inputs), dtype)
    _is_compiled()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_scores_masks_and_softmax_are_one_kernel(tensord_daemon: Any, name: str) -> None:
    """Between the two products; a sum of a table's row is one of its own."""
    _compiled(_attention(**FUNCTIONS[name]))(*_inputs())
    _is_compiled(kernels=2 if name == "row of a table" else 1)


def test_kernels_of_16_bits(tensord_daemon: Any) -> None:
    """And what the first product reads, as float32."""
    _compiled(_attention(mask=_causal, score_mod=_alibi))(*_inputs(torch.bfloat16))
    _is_compiled(kernels=2)


@pytest.mark.parametrize("heads", [1, 2])
def test_grouped_queries(tensord_daemon: Any, heads: int) -> None:
    function = _attention(mask=_causal, score_mod=_relative, enable_gqa=True)
    inputs = _inputs(heads=heads)
    _close(_compiled(function)(*inputs), function(*inputs), torch.float32)
    _is_compiled(kernels=1)


def test_keys_of_one_batch(tensord_daemon: Any) -> None:
    block_mask = create_block_mask(_none_for_some, B, None, M, N, device="cpu")

    def function(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, block_mask=block_mask)

    q, k, v = _inputs()
    inputs = (q, k[:1], v[:1])
    _close(_compiled(function)(*inputs), function(*inputs), torch.float32)
    _is_compiled()


def test_queries_of_other_strides(tensord_daemon: Any) -> None:
    """The result is laid out as they are."""
    function = _attention(mask=_causal)
    inputs = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in _inputs()]
    _close(_compiled(function)(*inputs), function(*inputs), torch.float32)
    _is_compiled()


def test_float64(tensord_daemon: Any) -> None:
    function = _attention(mask=_none_for_some, score_mod=_capped, return_lse=True)
    inputs = _inputs(torch.float64)
    _close(_compiled(function)(*inputs), function(*inputs), torch.float64)
    _is_compiled()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", ["causal alibi", "fully masked rows", "rows of -inf"])
def test_sums_of_exponentials(tensord_daemon: Any, name: str, dtype: torch.dtype) -> None:
    function = _attention(**FUNCTIONS[name], return_lse=True)
    inputs = _inputs(dtype)
    _close(_compiled(function)(*inputs), function(*inputs), dtype)
    _is_compiled()


def test_results_beside_the_values(tensord_daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The largest scores too, for which torch asks for a GPU as well."""
    request = getattr(torchs, "AuxRequest", None)
    if request is None:
        pytest.skip("torch has no AuxRequest")
    monkeypatch.setattr(torchs, "_apply_kernel_options", lambda *_: {"BACKEND": "AUTO"})
    wanted = request(lse=True, max_scores=True)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Any:
        out, more = flex_attention(q, k, v, score_mod=_alibi, return_aux=wanted)
        return out, more.lse, more.max_scores

    inputs = _inputs()
    _close(_compiled(function)(*inputs), function(*inputs), torch.float32)
    _is_compiled()


def test_as_part_of_a_layer(tensord_daemon: Any) -> None:
    block_mask = _masked(_causal, M, M)
    weight = torch.randn(H * D, 3 * H * D) / 8

    def layer(x: Tensor) -> Tensor:
        q, k, v = ((x @ weight).view(B, M, 3, H, D).permute(2, 0, 3, 1, 4)).unbind(0)
        out = flex_attention(q, k, v, score_mod=_capped, block_mask=block_mask)
        return x + out.transpose(1, 2).reshape(B, M, H * D)

    x = torch.randn(B, M, H * D)
    _close(_compiled(layer)(x), layer(x), torch.float32)
    _is_compiled()


def test_autocast(tensord_daemon: Any) -> None:
    function = _attention(score_mod=_alibi)
    inputs = _inputs()
    with torch.autocast("cpu", torch.bfloat16):
        ours, eager = _compiled(function)(*inputs), function(*inputs)
    assert eager.dtype == torch.bfloat16
    _close(ours, eager, torch.bfloat16)
    _is_compiled()


def test_two_in_a_graph(tensord_daemon: Any) -> None:
    local, capped = _attention(mask=_window), _attention(score_mod=_capped)

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return local(q, k, v) + capped(q, k, v)

    inputs = _inputs()
    _close(_compiled(function)(*inputs), function(*inputs), torch.float32)
    stats = tensord.stats()
    assert (stats["flex_attentions"], stats["graphs"], stats["call_backs"]) == (2, 1, 0)


def test_dynamic_sizes(tensord_daemon: Any) -> None:
    """One program for all lengths; eager makes the mask of each anew."""

    def function(q: Tensor, k: Tensor, v: Tensor) -> Any:
        return flex_attention(q, k, v, score_mod=_alibi, return_lse=True)

    run = _compiled(function, dynamic=True)
    for length in (24, 33, 7):
        inputs = _inputs(queries=length, keys=length)
        _close(run(*inputs), function(*inputs), torch.float32)
    _is_compiled()


# -- training --------------------------------------------------------------------------------------


def _gradients(function: Attention, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_() for x in inputs]
    results = torch.utils._pytree.tree_leaves(function(*leaves))
    total = torch.zeros(())
    for result in results:
        weight = torch.linspace(-1, 1, result.numel()).view(result.shape)
        total = total + (torch.where(result.isinf(), 0, result) * weight).sum()
    total.backward()
    return [*(x.detach() for x in results), *(x.grad for x in leaves)]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=str)
def test_training(tensord_daemon: Any, name: str, dtype: torch.dtype) -> None:
    function = _attention(**FUNCTIONS[name])
    inputs = _inputs(dtype)
    _near(_gradients(_compiled(function), inputs), _gradients(function, inputs), dtype)
    _is_compiled(programs=2)


def _near(ours: list[Tensor], eager: list[Tensor], dtype: torch.dtype) -> None:
    """Sums of many terms are as far off as their largest."""
    for a, b in zip(ours, eager, strict=True):
        scale = max(1.0, b[b.isfinite()].abs().max().item())
        tolerances = TOLERANCES[dtype]
        torch.testing.assert_close(
            a, b, rtol=tolerances["rtol"], atol=tolerances["atol"] * scale, equal_nan=True
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_gradients_of_what_functions_capture(tensord_daemon: Any, dtype: torch.dtype) -> None:
    block_mask = _masked(_causal)

    def function(q: Tensor, k: Tensor, v: Tensor, table: Tensor, slopes: Tensor) -> Any:
        def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return s * slopes[0, h] + table[h, i - j + N]

        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask, enable_gqa=True)

    inputs = [*_inputs(dtype, heads=2), TABLE.to(dtype), torch.rand(1, H).to(dtype)]
    _near(_gradients(_compiled(function), inputs), _gradients(function, inputs), dtype)
    _is_compiled(programs=2)


@pytest.mark.parametrize("name", ["causal alibi", "fully masked rows", "soft cap"])
def test_gradients_of_sums_of_exponentials(tensord_daemon: Any, name: str) -> None:
    function = _attention(**FUNCTIONS[name], return_lse=True)
    inputs = _inputs()
    _near(_gradients(_compiled(function), inputs), _gradients(function, inputs), torch.float32)
    _is_compiled(programs=2)


def test_no_gradient_from_keys_that_are_not_seen(tensord_daemon: Any) -> None:
    """Where a function of scores gives NaN, or its derivative is."""

    def rooted(s: Tensor, b: Tensor, h: Tensor, q: Tensor, k: Tensor) -> Tensor:
        return s * torch.sqrt((q - k).float())

    function = _attention(mask=_causal, score_mod=rooted)
    inputs = _inputs()
    eager = _gradients(function, inputs)
    assert not any(x.isnan().any() for x in eager)
    _near(_gradients(_compiled(function), inputs), eager, torch.float32)
    _is_compiled(programs=2)


def test_what_functions_capture_has_gradients_of_scores_that_are_seen(tensord_daemon: Any) -> None:
    """Also where a function is singular at 0."""
    block_mask = _masked(_causal)

    def function(q: Tensor, k: Tensor, v: Tensor, slopes: Tensor) -> Any:
        def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            return s + slopes[h] * torch.log(s.abs())

        return flex_attention(q, k, v, score_mod=score, block_mask=block_mask)

    inputs = [*_inputs(), torch.rand(H)]
    eager = _gradients(function, inputs)
    assert not any(x.isnan().any() for x in eager)
    _near(_gradients(_compiled(function), inputs), eager, torch.float32)


def _saved(function: Attention, inputs: list[Tensor]) -> list[Tensor]:
    """What the forward graph saves of batch x heads x queries x keys."""
    found: list[Tensor] = []

    def backward(module: Any, inputs: Any) -> Any:
        for node in module.graph.find_nodes(op="placeholder"):
            if "tangents" not in node.name and node.meta["val"].numel() >= B * H * M * N:
                found.append(node.meta["val"])
        return module.forward

    def backend(module: Any, inputs: Any) -> Any:
        passes.run("captured", module)
        compilers = {"fw_compiler": lambda module, _: module.forward, "bw_compiler": backward}
        return aot_autograd(partition_fn=partition, **compilers)(module, inputs)

    leaves = [x.clone().requires_grad_() for x in inputs]
    run = torch.compile(function, backend=backend, fullgraph=True)
    torch.utils._pytree.tree_leaves(run(*leaves))[0].sum().backward()
    return found


@pytest.mark.usefixtures("nothing_compiled")
@pytest.mark.filterwarnings("ignore:Your compiler for AOTAutograd")
def test_what_forward_saves() -> None:
    """The weights; the scores where the derivative of a function of them reads these."""
    assert len(_saved(_attention(mask=_causal, score_mod=_alibi), _inputs())) == 1
    assert len(_saved(_attention(mask=_causal, score_mod=_capped), _inputs())) == 2
    assert len(_saved(_attention(mask=_causal, score_mod=_capped, return_lse=True), _inputs())) == 2


# -- what is left to a call-back -------------------------------------------------------------------


def test_what_plain_operators_refuse_calls_back(
    tensord_daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(captured, "plain_attention", refuse)
    attention = _attention(**FUNCTIONS["causal alibi"])

    def function(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v).relu() + 1

    inputs = _inputs()
    _close(_compiled(function)(*inputs), function(*inputs), torch.float32)
    stats = tensord.stats()
    assert (stats["flex_attentions"], stats["graphs"], stats["call_backs"]) == (0, 1, 1)
