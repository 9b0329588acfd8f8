# SPDX-License-Identifier: Apache-2.0
"""Whether what reads a tensor gives the same when the tensor lies otherwise in memory.

Only what is known not to see strides is taken. Dynamo bakes strides into the graph as numbers, and
a user's kernel or custom operator may depend on them in ways that no graph shows.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ... import torch_compat
from . import dynamo

# What may give a view of its first argument, or several.
VIEWS = frozenset(
    """
reshape transpose permute movedim unsqueeze squeeze getitem flatten unflatten split chunk unbind
narrow select expand view_as alias detach
""".split()
)
# These may too: a cast returns its argument where that has the type already.
_TRIED = VIEWS | dynamo.CASTS | {"clone"}
_ATTRIBUTES = frozenset({"T", "mT"})
# These read elements wherever they lie, and give memory of their own; in the order of their
# arguments' strides at most, which stays.
_BLIND = frozenset(
    """
add sub mul truediv floordiv mod neg pos abs sign log exp sqrt rsqrt pow square reciprocal
sin cos tanh sigmoid erf relu relu6 silu gelu mish elu selu leaky_relu softplus logsigmoid
hardtanh hardswish hardsigmoid glu log1p expm1 exp2
lt le gt ge eq ne and_ or_ xor invert logical_and logical_or logical_not logical_xor
min max minimum maximum clamp where masked_fill tril triu isnan isinf
matmul mm addmm baddbmm linear einsum scaled_dot_product_attention
softmax log_softmax layer_norm rms_norm normalize dropout
sum mean var std amax amin logsumexp norm any all cumsum
cat stack tile repeat_interleave
zeros_like ones_like full_like
size dim numel
""".split()
)


def readers_ignore_strides(node: fx.Node, value: Any) -> bool:
    """True when all readers of `node` do with `value`, which differs in nothing but strides. What
    leaves the graph keeps the strides that eager has."""
    return all(_takes(user, node, value) for user in node.users)


def keep_rows_of_heads(graph: fx.Graph, attention: fx.Node) -> None:
    """Copies the result of scaled_dot_product_attention where a reader may see how it lies: fused
    kernels have heads within positions, what they stand for here is row by row."""
    value = dynamo.value_of(attention)
    if value.dim() != 4 or not torch_compat.is_known_contiguous(value):
        return
    batches, heads, positions, width = value.shape
    with torch.no_grad():
        fused = value.new_empty((batches, positions, heads, width)).transpose(1, 2)
    if readers_ignore_strides(attention, fused):
        return
    with graph.inserting_after(attention):
        copy = dynamo.method(graph, "contiguous", attention)
    attention.replace_all_uses_with(copy, delete_user_cb=lambda user: user is not copy)


def _takes(user: fx.Node, node: fx.Node, value: Any) -> bool:
    name = dynamo.name_of(user)
    if name in _TRIED or dynamo.attribute_read(user) in _ATTRIBUTES:
        if any("example_value" not in operand.meta for operand in user.all_input_nodes):
            return False  # it cannot be tried
        try:
            result = _run(user, node, value)
        except dynamo.REFUSALS:  # a view that these strides do not have, say
            return False
        return _as_in_eager(user, result, value) or readers_ignore_strides(user, result)
    if name == "matmul" and user.args[0] is not node:
        # A wider second operand is turned around where its strides let it, and then the result is.
        first = dynamo.tensor_of(user.args[0])
        return first is not None and first.dim() >= value.dim()
    return name in _BLIND


def _run(user: fx.Node, node: fx.Node, value: Any) -> Any:
    """What `user` gives of its argument `node` with the value `value`."""

    def value_of(argument: fx.Node) -> Any:
        return value if argument is node else argument.meta["example_value"]

    args, kwargs = fx.node.map_arg((user.args, user.kwargs), value_of)
    with torch.no_grad():
        target: Any = user.target
        if user.op == "call_method":
            return getattr(args[0], target)(*args[1:], **kwargs)
        return target(*args, **kwargs)


def _as_in_eager(user: fx.Node, result: Any, value: Any) -> bool:
    """True for a copy that lies as in eager: nothing behind it sees a difference."""
    eager = dynamo.tensor_of(user)
    if eager is None or not isinstance(result, torch.Tensor) or user.target is operator.getitem:
        return False
    own = result.untyped_storage()._cdata != value.untyped_storage()._cdata
    return own and str(result.stride()) == str(eager.stride())
