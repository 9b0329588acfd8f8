# SPDX-License-Identifier: Apache-2.0
"""FlexAttention becomes plain operators, which its score and mask functions fuse with.

Eager's arithmetic, as torch's own math_attention has it: scores in float32 (float64 for queries of
that), the softmax in what the score function gives, weights in the queries' type. Scores and
weights of batch x heads x queries x keys are stored between the products and the softmax.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from ... import torch_compat
from . import dynamo
from .flex_attention_functions import autocast_to, autocast_type, modified, order_of
from .tiled_attention import TILE, are_lists_of, is_lowered, is_tiled, tiled_attention

OPERATORS = torch_compat.flex_attention_operators()

_SIXTEEN_BITS = (torch.float16, torch.bfloat16)


def flex_attention(module: fx.GraphModule) -> int:
    """Rewrites the higher-order operator wherever plain operators give what it gives."""
    calls = [
        node
        for node in module.graph.nodes
        if any(node.target is operator for operator in OPERATORS)
    ]
    return sum(_rewrite_one(module, node) for node in calls)


def _rewrite_one(module: fx.GraphModule, node: fx.Node) -> int:
    call = torch_compat.flex_attention_call(node)
    like: Any = node.meta.get("example_value")
    if call is None or not isinstance(like, tuple):
        return 0
    functions = [torch_compat.attribute_of(module, str(f.target)) for f in (call.score, call.mask)]
    if not all(isinstance(f, fx.GraphModule) and _only_computes(f.graph) for f in functions):
        return 0
    query = dynamo.tensor_of(call.query)
    if query is None:
        return 0
    autocast = dynamo.autocast_dtypes(module.graph, query.device.type)[node]
    mask = None if _sees_all(functions[1].graph) else call.mask
    args = (
        *(call.query, call.key, call.value, call.score, mask, call.scale),
        *(call.score_arguments, call.mask_arguments, autocast),
    )
    tiled = _tiles(module, call, args, seen_alike=mask is None)
    if tiled is not None and _gives(module, tiled_attention, tiled, like):
        node.target, node.args, node.kwargs = tiled_attention, tiled, {}
        return 1
    if not _gives(module, plain_attention, args, like):
        return 0
    node.target, node.args, node.kwargs = plain_attention, args, {}
    return 1


def _tiles(
    module: fx.GraphModule,
    call: torch_compat.FlexAttentionCall,
    args: tuple[Any, ...],
    seen_alike: bool,
) -> tuple[Any, ...] | None:
    """The arguments of tiled_attention, where it can be. args: plain_attention's; seen_alike: every
    query sees every key."""
    lists: tuple[Any, ...] = ((), ())
    sizes: tuple[Any, ...] = (2 * TILE, 2 * TILE)
    if not seen_alike:
        lists = tuple(map(_lists_of, (call.blocks_of_keys, call.blocks_of_queries)))
        sizes = tuple(call.block_sizes)
    if None in lists:
        return None
    captured = [*call.score_arguments, *call.mask_arguments]
    given: Any = [call.query, call.key, call.value, captured]
    query, key, value, captured = fx.node.map_arg(given, lambda node: _value_of(module, node))
    of_values: Any = fx.node.map_arg(lists, lambda node: _value_of(module, node))
    types = [autocast_type(x, args[-1]) for x in (query, key, value)]
    if not is_lowered() or not all(are_lists_of(query, one) for one in of_values):
        return None
    if not is_tiled(query, key, value, types, sizes, captured):
        return None
    return (*args, *lists, sizes)


def _lists_of(blocks: Sequence[Any]) -> tuple[Any, ...] | None:
    """Counts and numbers of the partial blocks, and of the whole ones where the mask has them; None
    where it does not say what is partial."""
    partial, whole = tuple(blocks[:2]), tuple(blocks[2:])
    if len(partial) != 2 or None in partial:
        return None
    return partial if None in whole else partial + whole


def _value_of(module: fx.GraphModule, node: fx.Node) -> Any:
    if node.op == "get_attr" and "example_value" not in node.meta:
        return torch_compat.attribute_of(module, str(node.target))
    return node.meta["example_value"]


def _only_computes(graph: fx.Graph) -> bool:
    """False where a function may write into a tensor, at which eager raises."""
    return all(dynamo.written_by(node) is None for node in graph.nodes)


def _sees_all(graph: fx.Graph) -> bool:
    """True for torch's noop_mask, which stands where no mask was given."""
    (result,) = graph.output_node().args
    if isinstance(result, (tuple, list)) and len(result) == 1:
        (result,) = result
    return dynamo.name_of(result) == "new_ones"


def _gives(
    module: fx.GraphModule,
    attention: Callable[..., Any],
    args: tuple[Any, ...],
    like: tuple[Any, ...],
) -> bool:
    """Whether it takes the arguments and gives such results. Whatever functions of scores compute,
    torch.vmap or the operators may refuse."""
    values = fx.node.map_arg(args, lambda node: _value_of(module, node))
    try:
        with torch_compat.fake_mode_of(like[0]), torch.no_grad():
            results = attention(*values)
    except dynamo.REFUSALS:
        return False
    if len(results) != len(like) or results[0].dtype != like[0].dtype:
        return False
    # As text: comparing symbols would set guards.
    return all(str(a.shape) == str(b.shape) for a, b in zip(results, like, strict=True))


def plain_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score: Callable[..., Tensor],
    mask: Callable[..., Tensor] | None,
    scale: float,
    score_arguments: Sequence[Any],
    mask_arguments: Sequence[Any],
    autocast: torch.dtype | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """What FlexAttention's operator computes, of plain operators.

    query: (batch, heads, queries, width); key, value: (batch or 1, heads / groups, keys, ...).
    score(score, batch, head, query, key, *score_arguments) and mask(batch, head, query, key,
    *mask_arguments) are functions of scalars; a mask gives whether the query sees the key, None
    sees all. autocast: the type that it computes products in, if any. Results: the weighted values,
    laid out as the queries are, and of each row of scores the logarithm to base 2 of its sum of
    exponentials and the largest score, in the same unit.
    """
    if autocast is not None:
        query, key, value = (autocast_to(x, autocast) for x in (query, key, value))
    with torch.autocast(query.device.type, enabled=False):
        batch, heads, queries, _ = query.shape
        groups, keys = key.shape[1], key.shape[2]
        # Queries of all heads of a group are rows of one product, and nothing is repeated.
        rows = query.reshape(batch * groups, heads // groups * queries, query.shape[3])
        key, value = (x.expand(batch, *x.shape[1:]).flatten(0, 1) for x in (key, value))
        scores = _Scores.apply(rows, key).view(batch, heads, queries, keys) * scale
        scores = modified(scores, score, mask, score_arguments, mask_arguments)

        weights, sums, largest = _Softmax.apply(scores)
        weights = weights.reshape(batch * groups, heads // groups * queries, keys)
        out = _WeightedSum.apply(weights, value.to(query.dtype))
        out = out.view(batch, heads, queries, value.shape[2])
        order = order_of(query)
        out = out.permute(order).contiguous().permute([order.index(dim) for dim in range(4)])
        return out, sums / math.log(2), largest / math.log(2)


class _Scores(torch.autograd.Function):
    """query (batch, rows, width) times key (batch, keys, width), transposed: at least float32.

    The gradient of scores is rounded to the queries' type for its products, as in eager.
    """

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor) -> Tensor:
        ctx.save_for_backward(query, key)
        return _wide_product(query, key.mT)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        query, key = ctx.saved_tensors
        grad = grad.to(query.dtype)
        return torch.bmm(grad, key.to(query.dtype)), torch.bmm(grad.mT, query).to(key.dtype)


class _Softmax(torch.autograd.Function):
    """The weights of rows of scores (zeros of a row that is -inf), and of each row the logarithm of
    its sum of exponentials, and the largest score. Backward needs the weights alone."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        weights = torch.ops.aten._safe_softmax(scores, -1)
        largest = scores.amax(-1)
        ctx.save_for_backward(weights)
        ctx.mark_non_differentiable(largest)
        ctx.set_materialize_grads(False)
        return weights, torch.logsumexp(scores, -1), largest

    @staticmethod
    def backward(
        ctx: Any, grad: Tensor | None, grad_of_sums: Tensor | None, _: None
    ) -> Tensor | None:
        (weights,) = ctx.saved_tensors
        of_scores = None
        if grad is not None:
            of_scores = torch.ops.aten._softmax_backward_data(grad, weights, -1, weights.dtype)
        if grad_of_sums is not None:
            more = weights * grad_of_sums.unsqueeze(-1)
            of_scores = more if of_scores is None else of_scores + more
        return of_scores


class _WeightedSum(torch.autograd.Function):
    """weights (batch, rows, keys) times value (batch, keys, width), in the values' type.

    The gradient of weights is as wide as they are, as in eager.
    """

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor) -> Tensor:
        ctx.save_for_backward(weights, value)
        return torch.bmm(weights.to(value.dtype), value)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, Tensor]:
        weights, value = ctx.saved_tensors
        wide = _wide_product(grad, value.mT).to(weights.dtype)
        return wide, torch.bmm(weights.to(value.dtype).mT, grad)


def _wide_product(a: Tensor, b: Tensor) -> Tensor:
    """The products of batches of matrices, with no rounding to fewer bits than float32 has."""
    if a.is_cuda and a.dtype == b.dtype and a.dtype in _SIXTEEN_BITS:
        return torch.bmm(a, b, out_dtype=torch.float32)
    wide = torch.float64 if a.dtype == torch.float64 else torch.float32
    return torch.bmm(a.to(wide), b.to(wide))
