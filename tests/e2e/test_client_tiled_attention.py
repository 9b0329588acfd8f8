# SPDX-License-Identifier: Apache-2.0
"""FlexAttention as operators of which the daemon makes one kernel on GPUs that can.

Here the operators run in the job, with all scores in memory: what is looked at is what they say,
and what the graphs around them save. torch refuses gradients on the CPU, though eager computes
them; here it does not ask for the device.
"""

from __future__ import annotations

import dataclasses
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import tensord
import torch
from partitioned_graphs import Graphs
from tensord import attention_operators as operators
from tensord import passes
from tensord.passes.captured import flex_attention as flex_attention_module
from tensord.passes.captured.tiled_attention import CAPABILITY, is_tiled
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.nn.attention import flex_attention as torchs
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch.utils._pytree import tree_leaves, tree_map_only

# Two whole blocks of rows and a piece of one.
BATCH, HEADS, LENGTH, WIDTH = 2, 4, 136, 16
BLOCK = 64
Attention = Callable[..., Any]


@pytest.fixture(autouse=True)
def gradients_anywhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(torchs, "_validate_device", lambda query, key, value: None)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "flex_attention called without torch.compile")
        warnings.filterwarnings("ignore", "return_lse is deprecated")
        yield


@pytest.fixture
def tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls become the operators, and none anything else."""

    def refuse(*_: Any) -> Any:
        raise NotImplementedError

    monkeypatch.setattr(flex_attention_module, "is_tiled", lambda *_: True)
    monkeypatch.setattr(flex_attention_module, "is_lowered", lambda: True)
    monkeypatch.setattr(flex_attention_module, "plain_attention", refuse)


# -- functions of scores and masks -----------------------------------------------------------------


def _alibi(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score + (key - query) * torch.exp2(-(head + 1) * 8.0 / HEADS)


def _capped(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return 5 * torch.tanh(score / 5)


BIASES = torch.linspace(-2, 2, HEADS * LENGTH).reshape(HEADS, LENGTH).sin()
LENGTHS = torch.tensor([LENGTH, 75])


def _biased(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score + BIASES[head, (query - key).abs()]


def _causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def _near_by(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Farther in later heads, and no padding."""
    return ((query - key).abs() <= 20 * (head + 1)) & (key < LENGTHS[batch])


def _none_for_some(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """Nothing is seen by the first row of blocks, and by rows of others."""
    return (query >= 70) & (query % 5 != 2) & (key > batch)


@dataclasses.dataclass(frozen=True)
class Case:
    """A call: its functions, the batches and heads that block lists are of, sizes of blocks."""

    score: Any = None
    mask: Any = None
    lists: tuple[int | None, int | None] = (None, None)
    sizes: int | tuple[int, int] = BLOCK
    groups: int = HEADS
    queries: int = LENGTH
    tolerance: float = 2e-5

    def block_mask(self) -> BlockMask | None:
        if self.mask is None:
            return None
        return create_block_mask(
            self.mask, *self.lists, self.queries, LENGTH, device="cpu", BLOCK_SIZE=self.sizes
        )

    def attention(self, **options: Any) -> Attention:
        block_mask = self.block_mask()
        options = {"score_mod": self.score, "enable_gqa": True, **options}

        def attention(query: Tensor, key: Tensor, value: Tensor) -> Any:
            return flex_attention(query, key, value, block_mask=block_mask, **options)

        return attention

    def inputs(self, dtype: torch.dtype = torch.float32) -> list[Tensor]:
        torch.manual_seed(0)
        of_keys = (BATCH, self.groups, LENGTH, WIDTH)
        shapes = ((BATCH, HEADS, self.queries, WIDTH), of_keys, of_keys)
        return [torch.randn(shape).to(dtype) for shape in shapes]


CASES = {
    "no functions": Case(),
    "causal": Case(mask=_causal),
    "oblong blocks": Case(mask=_causal, sizes=(64, 128)),
    "by batch and head": Case(mask=_near_by, lists=(BATCH, HEADS)),
    "rows that see nothing": Case(mask=_none_for_some, lists=(BATCH, None)),
    "alibi": Case(score=_alibi, tolerance=1e-4),
    "soft cap": Case(score=_capped, mask=_causal),
    "table of biases": Case(score=_biased, mask=_causal),
    "grouped heads": Case(mask=_causal, groups=2),
    "more keys than queries": Case(score=_biased, mask=_causal, queries=72),
}


# -- results and gradients -------------------------------------------------------------------------


def _weighed(result: Tensor) -> Tensor:
    weight = torch.linspace(-1, 1, result.numel()).view(result.shape)
    return (torch.where(result.isinf(), 0, result) * weight).sum()


def _with_gradients(function: Attention, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The results, and the gradients of all inputs."""
    leaves = [x.detach().requires_grad_() for x in inputs]
    results = tree_leaves(function(*leaves))
    total = torch.stack([_weighed(x) for x in results if x.requires_grad]).sum()
    return [*(x.detach() for x in results), *torch.autograd.grad(total, leaves)]


def _check(function: Attention, inputs: Sequence[Tensor], tolerance: float) -> None:
    run = torch.compile(function, backend="tensord", fullgraph=True)
    ours, eager = (_with_gradients(one, inputs) for one in (run, function))
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)
        assert a.stride() == b.stride()
    stats = tensord.stats()
    assert (stats["flex_attentions"], stats["graphs"]) == (1, 2)
    assert stats["fallbacks"] == 0 and stats["calls_in_eager"] == 0
    assert stats["call_backs"] == 0, stats["call_back_reasons"]


@pytest.mark.parametrize("name", CASES)
def test_results_and_gradients(tensord_daemon: Any, tiled: None, name: str) -> None:
    """Of the values and the sums of exponentials."""
    case = CASES[name]
    _check(case.attention(return_lse=True), case.inputs(), case.tolerance)


def test_gradients_of_values_alone(tensord_daemon: Any, tiled: None) -> None:
    case = CASES["soft cap"]
    _check(case.attention(), case.inputs(), case.tolerance)


def test_gradients_of_sums_alone(tensord_daemon: Any, tiled: None) -> None:
    case = CASES["rows that see nothing"]
    attention = case.attention(return_lse=True)

    def sums(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attention(query, key, value)[1] + 0 * value.sum()

    _check(sums, case.inputs(), case.tolerance)


def test_largest_scores(tensord_daemon: Any, tiled: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """For which torch asks for a GPU as well."""
    request = getattr(torchs, "AuxRequest", None)
    if request is None:
        pytest.skip("torch has no AuxRequest")
    monkeypatch.setattr(torchs, "_apply_kernel_options", lambda *_: {"BACKEND": "AUTO"})
    case = CASES["rows that see nothing"]
    attention = case.attention(return_aux=request(lse=True, max_scores=True))

    def function(query: Tensor, key: Tensor, value: Tensor) -> Any:
        out, more = attention(query, key, value)
        return out, more.lse, more.max_scores

    _check(function, case.inputs(), case.tolerance)


def test_queries_of_other_strides(tensord_daemon: Any, tiled: None) -> None:
    """The result is laid out as they are."""
    case = CASES["grouped heads"]
    inputs = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in case.inputs()]
    _check(case.attention(return_lse=True), inputs, case.tolerance)


def test_keys_of_one_batch(tensord_daemon: Any, tiled: None) -> None:
    case = CASES["by batch and head"]
    query, key, value = case.inputs()
    _check(case.attention(return_lse=True), (query, key[:1], value[:1]), case.tolerance)


def test_keys_that_are_the_values(tensord_daemon: Any, tiled: None) -> None:
    attention = CASES["causal"].attention()

    def function(query: Tensor, key: Tensor) -> Any:
        return attention(query, key, key)

    _check(function, CASES["causal"].inputs()[:2], CASES["causal"].tolerance)


def test_a_function_that_does_not_look_at_scores(tensord_daemon: Any, tiled: None) -> None:
    attention = Case(score=lambda s, b, h, query, key: (query - key) * 0.01).attention()
    inputs = Case().inputs()
    compiled = torch.compile(attention, backend="tensord", fullgraph=True)
    torch.testing.assert_close(compiled(*inputs), attention(*inputs), rtol=2e-5, atol=2e-5)


def test_lists_of_other_heads_go_the_plain_way(nothing_compiled: None, tiled: None) -> None:
    """torch does not look how many heads have lists."""
    case = Case(mask=_causal, lists=(None, 2))
    graphs = _graphs(case.attention(), case.inputs())
    assert not _operators(graphs.forward)


def test_16_bits(tensord_daemon: Any, tiled: None) -> None:
    case = CASES["table of biases"]
    _check(case.attention(), case.inputs(torch.bfloat16), 3e-2)


# -- graphs ----------------------------------------------------------------------------------------


def _graphs(function: Attention, inputs: Sequence[Tensor]) -> Graphs:
    """Forward and backward, behind the passes."""
    graphs = Graphs()

    def backend(module: fx.GraphModule, inputs: Any) -> Any:
        passes.run("captured", module)
        return graphs(module, inputs)

    leaves = [x.clone().requires_grad_() for x in inputs]
    run = torch.compile(function, backend=backend, fullgraph=True)
    tree_leaves(run(*leaves))[0].sum().backward()
    return graphs


def _operators(module: fx.GraphModule) -> Counter[str]:
    targets = (str(node.target) for node in module.graph.nodes)
    return Counter(name.split(".")[1] for name in targets if name.startswith("tensord."))


@pytest.mark.parametrize("name", ["no functions", "soft cap", "table of biases", "grouped heads"])
def test_operators_of_graphs(nothing_compiled: None, tiled: None, name: str) -> None:
    """Backward computes products again: of queries and keys, and of the gradient and values."""
    case = CASES[name]
    graphs = _graphs(case.attention(return_lse=True), case.inputs())
    assert _operators(graphs.forward) == {"attention": 1, "attention_products": 1}
    assert _operators(graphs.backward) == {
        "attention_products": 2,
        "attention_query_gradient": 1,
        "attention_key_gradients": 1,
    }


@pytest.mark.parametrize("name", CASES)
def test_nothing_as_large_as_scores_is_saved(
    nothing_compiled: None, tiled: None, name: str
) -> None:
    case = CASES[name]
    graphs = _graphs(case.attention(return_lse=True), case.inputs())
    placeholders = graphs.backward.graph.find_nodes(op="placeholder")
    sizes = [node.meta["val"].numel() for node in placeholders]
    assert len(sizes) >= 6  # queries, keys, values, the result, sums, the result's gradient
    assert max(sizes) < BATCH * HEADS * case.queries * LENGTH


# -- what becomes the operators --------------------------------------------------------------------


def _stand_in(width: Any = 64, rows: Any = LENGTH, is_cuda: bool = True) -> Any:
    shape = (BATCH, HEADS, rows, width)
    device = torch.device("cuda" if is_cuda else "cpu")
    return types.SimpleNamespace(shape=shape, is_cuda=is_cuda, device=device)


def _arguments(**changed: Any) -> dict[str, Any]:
    """What is_tiled gets of a call that it takes, but for what is changed."""
    of_tensors = {name: _stand_in() for name in ("query", "key", "value")}
    captured = [torch.zeros(3), 7]
    half = [torch.float16] * 3
    return {**of_tensors, "types": half, "sizes": (128, 64), "captured": captured, **changed}


SYMBOL = ShapeEnv().create_unbacked_symint()
TAKEN: dict[str, dict[str, Any]] = {
    "float16": {},
    "bfloat16": {"types": [torch.bfloat16] * 3},
    "other width of values": {"value": _stand_in(128)},
    "narrowest": {"query": _stand_in(8), "key": _stand_in(8)},
    "queries of one tile": {"query": _stand_in(rows=64)},
    "symbolic queries": {"query": _stand_in(rows=SYMBOL)},
    "captured nothing": {"captured": []},
}
NOT_TAKEN: dict[str, dict[str, Any]] = {
    "cpu": {"query": _stand_in(is_cuda=False)},
    "float32": {"types": [torch.float32] * 3},
    "float64": {"types": [torch.float64] * 3},
    "mixed types": {"types": [torch.float16, torch.float16, torch.bfloat16]},
    "narrow": {"query": _stand_in(4), "key": _stand_in(4)},
    "wide": {"query": _stand_in(136), "key": _stand_in(136)},
    "width of no whole copies": {"query": _stand_in(12), "key": _stand_in(12)},
    "symbolic width": {"query": _stand_in(SYMBOL), "key": _stand_in(SYMBOL)},
    "few queries": {"query": _stand_in(rows=63)},
    "wide values": {"value": _stand_in(136)},
    "small blocks of queries": {"sizes": (32, 64)},
    "small blocks of keys": {"sizes": (64, 32)},
    "blocks of one tile and a half": {"sizes": (64, 96)},
    "symbolic blocks": {"sizes": (64, SYMBOL)},
    "gradient of what is captured": {"captured": [torch.zeros(3, requires_grad=True)]},
}


def _capability(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device=None: capability)


@pytest.mark.parametrize("name", TAKEN)
def test_what_is_taken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _capability(monkeypatch, CAPABILITY)
    assert is_tiled(**_arguments(**TAKEN[name]))


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_is_not_taken(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    _capability(monkeypatch, CAPABILITY)
    assert not is_tiled(**_arguments(**NOT_TAKEN[name]))


@pytest.mark.parametrize("capability", [(7, 5), (8, 0), (8, 9), (10, 0), (12, 0)])
def test_other_gpus_take_nothing(
    monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int]
) -> None:
    _capability(monkeypatch, capability)
    assert not is_tiled(**_arguments())


@pytest.fixture
def tiled_as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls become the operators as they would on a GPU, in 16 bits."""

    def pretended(
        query: Tensor, key: Tensor, value: Tensor, types: Any, sizes: Any, captured: Any
    ) -> bool:
        return is_tiled(**_arguments(sizes=sizes, captured=captured))

    _capability(monkeypatch, CAPABILITY)
    monkeypatch.setattr(flex_attention_module, "is_tiled", pretended)
    monkeypatch.setattr(flex_attention_module, "is_lowered", lambda: True)


def _with_table(
    block_mask: BlockMask | None,
) -> Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]:
    def function(query: Tensor, key: Tensor, value: Tensor, table: Tensor) -> Tensor:
        def biased(score: Tensor, batch: Any, head: Tensor, row: Tensor, column: Tensor) -> Tensor:
            return score + table[head, (row - column).abs()]

        return flex_attention(query, key, value, score_mod=biased, block_mask=block_mask)

    return function


def test_a_table_that_has_a_gradient_goes_the_plain_way(
    tensord_daemon: Any, tiled_as_on_a_gpu: None
) -> None:
    case = CASES["causal"]
    function = _with_table(case.block_mask())
    inputs = [*case.inputs(), BIASES]
    _check(function, inputs, case.tolerance)
    torch._dynamo.reset()
    graphs = _graphs(function, inputs)
    assert not _operators(graphs.forward) and not _operators(graphs.backward)


def test_one_that_has_none_does_not(nothing_compiled: None, tiled_as_on_a_gpu: None) -> None:
    case = CASES["causal"]
    function = _with_table(case.block_mask())
    graphs = _graphs(lambda query, key, value: function(query, key, value, BIASES), case.inputs())
    assert _operators(graphs.forward) == {"attention": 1, "attention_products": 1}


def test_blocks_of_half_a_tile_go_the_plain_way(
    nothing_compiled: None, tiled_as_on_a_gpu: None
) -> None:
    case = Case(mask=_causal, sizes=32)
    graphs = _graphs(case.attention(), case.inputs())
    assert not _operators(graphs.forward) and not _operators(graphs.backward)


# -- operators alone -------------------------------------------------------------------------------

ORDERS = ([0, 1, 2, 3], [0, 2, 1, 3], [2, 1, 0, 3])
OPERATORS = ("products", "attention", "query_gradient", "key_gradients")


def _operator_arguments(name: str, order: list[int], masked: bool) -> tuple[Any, ...]:
    case = CASES["grouped heads" if masked else "no functions"]
    query, key, value = case.inputs(torch.bfloat16)
    value = torch.cat((value, value), 3)
    grad = torch.cat((query, query), 3)
    scores = [torch.randn(BATCH, HEADS, LENGTH, LENGTH) for _ in range(4)]
    lists = case.block_mask()
    of_keys, of_queries = _block_lists(lists) if lists is not None else ((), ())
    sizes = [BLOCK, BLOCK]
    return {
        "products": (query, key, 0),
        "attention": (*scores[:2], value, of_keys, sizes, order),
        "query_gradient": (*scores[:2], key, of_keys, sizes, order),
        "key_gradients": (
            *(*scores, query, grad, key, value),
            *(of_queries, sizes, [*order, *reversed(order[:3]), 3]),
        ),
    }[name]


def _block_lists(lists: BlockMask) -> tuple[list[Tensor], list[Tensor]]:
    parts: list[Any] = list(lists.as_tuple())[2:10]
    return parts[:4], parts[4:]


def _layout(results: Any) -> list[Any]:
    return [(x.shape, x.stride(), x.dtype, x.device) for x in tree_leaves(results)]


@pytest.mark.parametrize("masked", [False, True], ids=["seen alike", "masked"])
@pytest.mark.parametrize("order", ORDERS, ids=str)
@pytest.mark.parametrize("name", OPERATORS)
def test_fake_results_are_laid_out_as_real(name: str, order: list[int], masked: bool) -> None:
    operator = getattr(operators, name)
    arguments = _operator_arguments(name, order, masked)
    mode = FakeTensorMode()
    with mode:
        fake = operator(*tree_map_only(Tensor, mode.from_tensor, arguments))
    assert _layout(fake) == _layout(operator(*arguments))


@pytest.mark.parametrize("name", OPERATORS)
def test_results_share_no_memory_with_arguments(name: str) -> None:
    arguments = _operator_arguments(name, ORDERS[1], masked=True)
    torch.library.opcheck(getattr(operators, name), arguments, test_utils="test_schema")
