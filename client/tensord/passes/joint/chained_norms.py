# SPDX-License-Identifier: Apache-2.0
"""A layer norm that reads another one's result: backward computes that again.

Networks of images norm their patches and begin the first block with a norm. The second one's
backward wants what it read, the first one's result, and the first one's wants what that read: two
images of one size, and for half of them in 32 bits what a convolution gave in 16. From the first
norm's input and statistics, which are saved anyway, (x - mean) * rstd * weight + bias is had again
in the registers of the second one's kernel.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ... import torch_compat
from ..insertion import (
    HANDED_ON,
    argument,
    arguments,
    fake_mode_of,
    gradient_nodes,
    have_one_layout,
    inherited_meta,
    insert_call,
)

aten = torch.ops.aten

_NORM = aten.native_layer_norm.default
_BACKWARD = aten.native_layer_norm_backward.default
OPERATORS = frozenset({_BACKWARD})

_RESULT, _MEAN, _RSTD = range(3)
# What hands on all elements as they are, however they lie then.
_SAME = HANDED_ON | {aten.clone.default, aten.view.default, aten._unsafe_view.default}


def chained_norms(joint: fx.GraphModule) -> int:
    """Changes a joint graph in place; the number of norms' results that backward no longer reads.

    Not where backward, or who called, reads that result for another reason: then it is there. Nor
    of checkpoints, which say themselves what is computed again.
    """
    steps = joint.graph.find_nodes(op="call_function", target=_BACKWARD)
    paths = {step: path for step in steps if (path := _path_from_norm(argument(step, "input")))}
    if not paths or (mode := fake_mode_of(joint.graph)) is None:
        return 0
    backward = gradient_nodes(joint.graph)
    return sum(
        _rewrite_one(joint.graph, step, path, backward, mode) for step, path in paths.items()
    )


def _rewrite_one(
    graph: fx.Graph, step: fx.Node, path: list[fx.Node], backward: set[fx.Node], mode: Any
) -> bool:
    result, *handed_on = path
    read = path[-1]
    norm = arguments(result)[0]
    if "recompute" in norm.meta or not _is_for_norms_alone(path, backward):
        return False
    added: list[fx.Node] = []

    def call(op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        added.append(insert_call(graph, mode, inherited_meta(step), op, *args, **kwargs))
        return added[-1]

    with graph.inserting_before(step):
        again = _again_of(call, norm, result)
        if not have_one_layout(again.meta["val"], result.meta["val"]):  # a norm's is row-major
            again = call(aten.clone.default, again, memory_format=torch.contiguous_format)
        for node in handed_on:
            again = call(node.target, again, *arguments(node)[1:], **node.kwargs)
    if not have_one_layout(again.meta["val"], read.meta["val"]):
        for node in reversed(added):
            graph.erase_node(node)
        return False
    step.replace_input_with(read, again)
    backward.update(added)  # what the first norm read is itself no result for norms alone now
    return True


def _path_from_norm(read: fx.Node) -> list[fx.Node] | None:
    """From a norm's result to what is read of it. None where it is no norm's, or one whose input
    and exact statistics backward does not have."""
    path = [read]
    while path[0].target in _SAME:
        path.insert(0, arguments(path[0])[0])
    result = path[0]
    if result.target is not operator.getitem or arguments(result)[1] != _RESULT:
        return None
    norm: fx.Node = arguments(result)[0]
    if norm.target is not _NORM:
        return None
    means = [user for user in norm.users if arguments(user)[1] == _MEAN]
    if not any(reader.target is _BACKWARD for mean in means for reader in mean.users):
        return None
    # Statistics that were rounded before they were saved give other values.
    values = norm.meta["val"]
    exact = torch.promote_types(argument(norm, "input").meta["val"].dtype, torch.float32)
    return path if all(values[i].dtype == exact for i in (_MEAN, _RSTD)) else None


def _is_for_norms_alone(path: list[fx.Node], backward: set[fx.Node]) -> bool:
    """Whether backward reads the result, or what hands it on, in norms only."""
    same = set(path)
    stack = list(path)
    while stack:
        node = stack.pop()
        for user in node.users:
            if user in same or (user in backward and _computes_again(user, node)):
                continue
            if user.op == "output" or user in backward:
                return False
            if user.target in _SAME or _is_view(user):
                same.add(user)
                stack.append(user)
    return True


def _computes_again(step: fx.Node, read: fx.Node) -> bool:
    """Whether a step is a norm's backward that reads this as its input alone, and that way."""
    if step.target is not _BACKWARD or argument(step, "input") is not read:
        return False
    times = sum(x is read for x in torch.utils._pytree.tree_leaves(step.args))
    return times == 1 and _path_from_norm(read) is not None


def _is_view(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and torch_compat.gives_views(node.target)


def _again_of(call: Any, norm: fx.Node, result: fx.Node) -> fx.Node:
    """The result once more, in the steps of its kernel (compiler/decompose/operators/norm.cc)."""
    x, weight, bias = (argument(norm, name) for name in ("input", "weight", "bias"))
    mean, rstd = (call(operator.getitem, norm, i) for i in (_MEAN, _RSTD))
    y = call(aten.mul.Tensor, call(aten.sub.Tensor, x, mean), rstd)
    if weight is not None:
        y = call(aten.mul.Tensor, y, weight)
    if bias is not None:
        y = call(aten.add.Tensor, y, bias)
    dtype = result.meta["val"].dtype
    return y if y.meta["val"].dtype == dtype else call(aten._to_copy.default, y, dtype=dtype)
