# SPDX-License-Identifier: Apache-2.0
"""Hand-written attention becomes torch.nn.functional.scaled_dot_product_attention.

    softmax(q @ k^T * scale + mask) @ v

in every spelling that people use: matmul, bmm, baddbmm or einsum; three or four dimensions; the
scale before or after, multiplied or divided; masks added, filled in or chosen by where; the softmax
in the inputs' dtype or a wider one; dropout; views that part batches from heads and join them again
on the way. Only where the weights are used by nothing else, and
where torch has a fused kernel: half precision (also by autocast) and a width that it takes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from ..insertion import arguments
from . import dynamo, einsums, stride_invariance
from .constants import Constants

# Instead of a score: what is no more than this gives a weight of zero beside any other.
_EXCLUDED = -1e9
_MAX_WIDTH = 256
# What may be done to scores on their way to the softmax.
_OF_SCORES = {*dynamo.CASTS, "mul", "truediv", "add", "masked_fill", "where", "reshape"}


@dataclass
class Product:
    """q (..., i, d) and k (..., j, d); transposed: k is (..., d, j) as yet."""

    q: fx.Node
    k: fx.Node
    q_order: list[int] | None = None
    k_order: list[int] | None = None
    transposed: bool = True


@dataclass
class Mask:
    """kind: "bias" is added to the scores; "drop" excludes where true, "keep" where false.

    rank: of the scores that it masks.
    """

    kind: str
    node: fx.Node
    rank: int


@dataclass
class Match:
    """One attention, from its result back to its inputs."""

    out: fx.Node
    v: fx.Node
    v_order: list[int] | None = None
    out_order: list[int] | None = None
    product: Product | None = None
    scale: float = 1.0
    dropout: float = 0.0
    masks: list[Mask] = field(default_factory=list)
    # [batches, heads] where views part them; None where none does.
    parted: list[Any] | None = None
    # What the call replaces, from the result on.
    nodes: list[fx.Node] = field(default_factory=list)

    @property
    def qk(self) -> Product:
        """The product, once it is found."""
        assert self.product is not None
        return self.product


def attention(module: fx.GraphModule, eligible: Callable[[Match, Any], bool] | None = None) -> int:
    """Rewrites every attention for which `eligible(match, autocast's dtype)` holds."""
    eligible = eligible or fused_kernel_exists
    values = map(dynamo.tensor_of, module.graph.nodes)
    device = next(
        (v.device.type for v in values if v is not None and v.device.type != "cpu"), "cpu"
    )
    autocast = dynamo.autocast_dtypes(module.graph, device)
    constants = Constants(module.graph)
    count = 0
    for node in list(module.graph.nodes):
        match = _match(node, constants)
        if match is None or _something_is_written_between(match):
            continue
        if eligible(match, autocast[node]):
            _replace(module.graph, match, autocast[node])
            count += 1
    return count


def _something_is_written_between(match: Match) -> bool:
    """True when q, k or a mask may have changed where the result is computed, or gradients begin or
    end on the way."""
    first, node = match.nodes[-1], match.out.prev
    while node is not first:
        if dynamo.written_by(node) is not None and node not in match.nodes:
            return True
        if node.target is torch._C._set_grad_enabled:
            return True
        node = node.prev
    return False


def fused_kernel_exists(match: Match, autocast: torch.dtype | None) -> bool:
    """True on a GPU in half precision, for widths that all of torch's fused kernels take."""
    tensors = [dynamo.value_of(n) for n in (match.qk.q, match.qk.k, match.v)]
    out = dynamo.value_of(match.out)
    if out.device.type != "cuda":
        return False
    dtypes = {autocast or t.dtype for t in tensors} | {out.dtype}
    width = out.shape[-1 if match.out_order is None else match.out_order[-1]]
    return (
        len(dtypes) == 1
        and dtypes <= {torch.float16, torch.bfloat16}
        and isinstance(width, int)
        and width % 8 == 0
        and width <= _MAX_WIDTH
    )


# -- from the result backwards ---------------------------------------------------------------------


def _match(out: fx.Node, constants: Constants) -> Match | None:
    name = dynamo.name_of(out)
    if dynamo.tensor_of(out) is None or len(out.args) < 2:
        return None
    if name == "matmul":
        weights, values = arguments(out)[:2]
        match = Match(out, values)
    elif name == "einsum":
        found = einsums.weighted_sum(out)
        if found is None:
            return None
        weights, v, v_order, out_order = found
        match = Match(out, v, v_order, out_order)
    else:
        return None
    match.nodes.append(out)
    scores = _softmax(weights, match)
    if scores is None or not _scores(scores, match, constants):
        return None
    return match if _shapes_fit(match) else None


def _softmax(node: Any, match: Match) -> fx.Node | None:
    """Behind casts and dropout of the weights, the softmax's argument."""
    while isinstance(node, fx.Node) and dynamo.used_once(node):
        name = dynamo.name_of(node)
        match.nodes.append(node)
        if name == "softmax":
            like = dynamo.tensor_of(node)
            dim = dynamo.argument(node, "dim")
            last = like is not None and dim in (-1, like.dim() - 1)
            return dynamo.argument(node, "input") if last else None
        if name == "dropout":
            if match.dropout or not _take_dropout(node, match):
                return None
        elif name == "reshape":
            if not _parts_or_joins(node, match):
                return None
        elif name not in dynamo.CASTS or not _keeps_floats(node):
            return None
        node = node.args[0]
    return None


def _take_dropout(node: fx.Node, match: Match) -> bool:
    p, training = dynamo.argument(node, "p", 0.5), dynamo.argument(node, "training", True)
    if not dynamo.is_number(p) or not isinstance(training, bool) or not 0 <= p < 1:
        return False
    match.dropout = float(p) if training else 0.0
    return True


def _parts_or_joins(view: fx.Node, match: Match) -> bool:
    """Whether a view makes of batches times heads both, or the other way round."""
    sizes = _sizes_around(view)
    if sizes is None:
        return False
    joined, (batches, heads, *rest) = sorted(sizes, key=len)
    if not isinstance(heads, int):
        return False
    pairs = zip(joined, [batches * heads, *rest], strict=True)
    if not all(statically_known_true(one == other) for one, other in pairs):
        return False
    match.parted = match.parted or [batches, heads]
    return match.parted == [batches, heads]


def _sizes_around(view: fx.Node) -> tuple[list[Any], list[Any]] | None:
    """Those of a view's argument and result, where one has three dimensions, the other four."""
    before = dynamo.sizes_of(view.args[0]) if view.args else None
    after = dynamo.sizes_of(view)
    if before is None or after is None or {len(before), len(after)} != {3, 4}:
        return None
    return before, after


def _keeps_floats(node: fx.Node) -> bool:
    after, before = dynamo.tensor_of(node), dynamo.tensor_of(node.args[0])
    if after is None or before is None or after.device != before.device:
        return False
    return after.is_floating_point() and before.is_floating_point()


def _scores(node: Any, match: Match, constants: Constants) -> bool:
    """Reads scale and masks from the softmax's argument back to the product of q and k."""
    scaled = False
    while isinstance(node, fx.Node) and dynamo.used_once(node):
        name = dynamo.name_of(node)
        match.nodes.append(node)
        if name in ("matmul", "einsum", "baddbmm"):
            return _take_product(node, match)
        if name in dynamo.CASTS and _keeps_floats(node):
            node = node.args[0]
            continue
        if name == "reshape" and _parts_or_joins(node, match):
            node = node.args[0]
            continue
        if name in ("mul", "truediv") and (factor := _factor(node)) is not None:
            match.scale *= factor[1]
            scaled, node = True, factor[0]
            continue
        if scaled:  # a mask that is scaled as well
            return False
        source = _take_mask(node, name, match, constants)
        if source is None:
            return False
        node = source
    return False


def _factor(node: fx.Node) -> tuple[fx.Node, float] | None:
    x, y = (dynamo.argument(node, name) for name in ("input", "other"))
    if "rounding_mode" in node.kwargs:
        return None
    if isinstance(x, fx.Node) and dynamo.is_number(y) and y:
        return x, float(y) if dynamo.name_of(node) == "mul" else 1.0 / y
    if dynamo.name_of(node) == "mul" and isinstance(y, fx.Node) and dynamo.is_number(x):
        return y, float(x)
    return None


def _take_mask(node: fx.Node, name: str, match: Match, constants: Constants) -> fx.Node | None:
    """The masked scores' source; the mask goes into `match`."""
    rank = dynamo.value_of(node).dim()
    if name == "add" and len(node.args) == 2 and not node.kwargs:
        for x, mask in (arguments(node), arguments(node)[::-1]):
            if isinstance(mask, fx.Node) and _leads_to_product(x):
                match.masks.append(Mask("bias", mask, rank))
                return x
    elif name == "masked_fill":
        x, mask = (dynamo.argument(node, name) for name in ("input", "mask"))
        if _excludes(dynamo.argument(node, "value"), mask, constants, True):
            match.masks.append(Mask("drop", mask, rank))
            return x
    elif name == "where" and len(node.args) == 3:
        mask, x, value = arguments(node)
        if node.op != "call_function":  # x.where(mask, value)
            mask, x = x, mask
        if _leads_to_product(x) and _excludes(value, mask, constants, False):
            match.masks.append(Mask("keep", mask, rank))
            return x
    return None


def _excludes(value: Any, mask: Any, constants: Constants, true_drops: bool) -> bool:
    """True when `value` in place of a score is the same as a weight of zero.

    A row of which nothing is left is the exception: -inf makes it NaN, a number makes it uniform.
    So a number must come with a mask that is known.
    """
    if isinstance(value, fx.Node):
        known = constants.value(value)
        value = known.item() if known is not None and known.numel() == 1 else None
    if not isinstance(mask, fx.Node) or not dynamo.is_number(value):
        return False
    if value == float("-inf"):
        return True
    known = constants.value(mask)
    if value > _EXCLUDED or known is None or known.dtype is not torch.bool or not known.dim():
        return False
    left = ~known if true_drops else known
    return bool(left.any(-1).all())


def _leads_to_product(node: Any) -> bool:
    """True when the node is scores: through what may be done to them, a product."""
    while isinstance(node, fx.Node) and dynamo.used_once(node):
        name = dynamo.name_of(node)
        if name in ("matmul", "einsum", "baddbmm"):
            return True
        if name == "reshape" and _sizes_around(node) is None:
            return False
        if name not in _OF_SCORES:
            return False
        nodes = [a for a in node.args if isinstance(a, fx.Node)]
        if name == "where" and node.op == "call_function":
            nodes = nodes[1:2]
        elif name == "add":
            return any(map(_leads_to_product, nodes))
        node = nodes[0] if nodes else None
    return False


def _take_product(node: fx.Node, match: Match) -> bool:
    name = dynamo.name_of(node)
    if name == "matmul":
        match.product = Product(*arguments(node)[:2])
    elif name == "einsum":
        found = einsums.scores(node)
        if found is None:
            return False
        match.product = Product(*found, transposed=False)
    else:
        base, q, k = (dynamo.argument(node, name) for name in ("input", "batch1", "batch2"))
        beta: Any = node.kwargs.get("beta", 1)
        alpha: Any = node.kwargs.get("alpha", 1)
        # A scale that came after the product would have to scale the base as well.
        if len(node.args) > 3 or not dynamo.is_number(alpha) or match.scale != 1.0:
            return False
        if beta == 1:
            match.masks.append(Mask("bias", base, dynamo.value_of(node).dim()))
        elif beta != 0:
            return False
        match.scale, match.product = float(alpha), Product(q, k)
    nodes = (match.qk.q, match.qk.k, match.v)
    return all(dynamo.tensor_of(n) is not None for n in nodes)


def _shapes_fit(match: Match) -> bool:
    """Three or four dimensions, batches alike, and masks that broadcast to the scores."""
    product = match.qk
    if match.parted and any((product.q_order, product.k_order, match.v_order, match.out_order)):
        return False
    q = einsums.reorder(list(dynamo.value_of(product.q).shape), product.q_order)
    k = einsums.reorder(list(dynamo.value_of(product.k).shape), product.k_order)
    v = einsums.reorder(list(dynamo.value_of(match.v).shape), match.v_order)
    if min(len(q), len(k), len(v)) < 2:
        return False
    if product.transposed:
        k = [*k[:-2], k[-1], k[-2]]
    q, k, v = (_apart(sizes, match) for sizes in (q, k, v))
    if len(q) not in ((4,) if match.parted else (3, 4)) or not len(q) == len(k) == len(v):
        return False
    if not (q[:-2] == k[:-2] == v[:-2] and k[-2] == v[-2] and q[-1] == k[-1] == v[-1]):
        return False
    scores = [*q[:-1], k[-2]]
    for mask in match.masks:
        like = dynamo.tensor_of(mask.node)
        if like is None or like.dim() > len(q) or like.dim() < 1:
            return False
        if mask.kind == "bias" and not like.is_floating_point():
            return False
        if mask.kind != "bias" and like.dtype is not torch.bool:
            return False
        sizes = list(like.shape)
        sizes = _apart(sizes, match) if _is_joined(mask, match) else sizes
        for ours, theirs in zip(reversed(sizes), reversed(scores), strict=False):
            if not (statically_known_true(ours == 1) or statically_known_true(ours == theirs)):
                return False
    return True


def _apart(sizes: list[Any], match: Match) -> list[Any]:
    """With batches and heads apart, where views part them and here they are one."""
    if match.parted is None or len(sizes) != 3 or sizes[0] != match.parted[0] * match.parted[1]:
        return sizes
    return [*match.parted, *sizes[1:]]


def _is_joined(mask: Mask, match: Match) -> bool:
    """Whether a mask has a part for each batch and head in one dimension."""
    like = dynamo.value_of(mask.node)
    return match.parted is not None and mask.rank == 3 == like.dim() and like.shape[0] != 1


# -- the call ------------------------------------------------------------------------------------


def _replace(graph: fx.Graph, match: Match, autocast: torch.dtype | None) -> None:
    product, out = match.qk, match.out
    rank = 4 if match.parted else dynamo.value_of(product.q).dim()
    with graph.inserting_before(out):
        q = _permuted(graph, product.q, product.q_order)
        k = _permuted(graph, product.k, product.k_order)
        if product.transposed:
            k = (
                arguments(k)[0]
                if dynamo.is_last_transpose(k)
                else dynamo.method(graph, "transpose", k, -2, -1)
            )
        v = _permuted(graph, match.v, match.v_order)
        if match.parted:
            q, k, v = (_parted(graph, x, match) for x in (q, k, v))
        mask = _mask(graph, match, autocast or dynamo.value_of(q).dtype)
        if mask is not None and dynamo.value_of(mask).dim() == 1:
            mask = dynamo.method(graph, "unsqueeze", mask, 0)
        if rank == 3:  # the fused kernels want heads
            q, k, v = (dynamo.method(graph, "unsqueeze", x, 1) for x in (q, k, v))
            if mask is not None and dynamo.value_of(mask).dim() == 3:
                mask = dynamo.method(graph, "unsqueeze", mask, 1)
        named: dict[str, Any] = {"attn_mask": mask, "dropout_p": match.dropout, "is_causal": False}
        named["scale"] = match.scale
        call = result = graph.call_function(F.scaled_dot_product_attention, (q, k, v), named)
        dynamo.copy_meta(call, out)
        with torch.no_grad():
            call.meta["example_value"] = _unpermuted(dynamo.value_of(out), match, rank)
        if match.parted and dynamo.value_of(out).dim() == 3:
            result = dynamo.method(graph, "flatten", result, 0, 1)
        elif rank == 3:
            result = dynamo.method(graph, "squeeze", result, 1)
        result = _permuted(graph, result, match.out_order)
        dynamo.copy_meta(result, out)
    out.replace_all_uses_with(result)
    stride_invariance.keep_rows_of_heads(graph, call)
    unused = {node: None for n in match.nodes for node in n.all_input_nodes}
    for node in match.nodes:
        unused.pop(node, None)
        graph.erase_node(node)
    for node in unused:
        if not node.users and dynamo.is_last_transpose(node):
            graph.erase_node(node)


def _unpermuted(value: torch.Tensor, match: Match, rank: int) -> torch.Tensor:
    """The call's own result, from the whole match's."""
    if match.out_order is not None:
        value = value.permute([match.out_order.index(i) for i in range(rank)])
    if match.parted and value.dim() == 3:
        return value.unflatten(0, (-1, match.parted[1]))
    return value.unsqueeze(1) if rank == 3 else value


def _parted(graph: fx.Graph, node: fx.Node, match: Match) -> fx.Node:
    """With batches and heads in dimensions of their own."""
    assert match.parted is not None
    if dynamo.value_of(node).dim() != 3:
        return node
    return dynamo.method(graph, "unflatten", node, 0, (-1, match.parted[1]))


def _permuted(graph: fx.Graph, node: fx.Node, order: list[int] | None) -> fx.Node:
    if order is None or order == sorted(order):
        return node
    return dynamo.method(graph, "permute", node, order)


def _mask(graph: fx.Graph, match: Match, dtype: torch.dtype) -> fx.Node | None:
    """One mask of all: boolean, or in `dtype` to be added."""
    biases, keeps = [], []
    for mask in match.masks:
        node = _parted(graph, mask.node, match) if _is_joined(mask, match) else mask.node
        if mask.kind == "bias":
            biases.append(node)
        else:
            drops = mask.kind == "drop"
            keeps.append(dynamo.function(graph, torch.logical_not, node) if drops else node)
    both = functools.partial(dynamo.function, graph, torch.logical_and)
    keep = functools.reduce(both, keeps) if keeps else None
    if not biases:
        return keep
    bias = functools.reduce(functools.partial(dynamo.function, graph, torch.add), biases)
    if dynamo.value_of(bias).dtype != dtype:
        # The lowest number of a wider dtype would become -inf, and a row of it NaN.
        bias = dynamo.method(graph, "clamp", bias, min=torch.finfo(dtype).min)
        bias = dynamo.method(graph, "to", bias, dtype)
    if keep is None:
        return bias
    drop = dynamo.function(graph, torch.logical_not, keep)
    return dynamo.method(graph, "masked_fill", bias, drop, float("-inf"))
