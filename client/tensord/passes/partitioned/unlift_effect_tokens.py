# SPDX-License-Identifier: Apache-2.0
"""Operators with effects, which AOTAutograd threads on tokens (empty tensors) to keep their order.

The wire format has no tokens: an operator that returns nothing is run for what it does, and the
operators of a graph keep their order by what they read.
"""

from __future__ import annotations

import operator

import torch
from torch import fx

from ... import torch_compat
from ..insertion import arguments

OPERATORS = torch_compat.effect_operators()


def unlift_effect_tokens(module: fx.GraphModule) -> int:
    """Replaces with_effects(token, op, ...) by op(...); AOTAutograd passes None for the tokens of a
    call and ignores those that come back, so they become None too. Gives the number of calls."""
    graph = module.graph
    tokens: set[fx.Node] = set()
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or node.target not in OPERATORS:
            continue
        token, op, *rest = arguments(node)
        if not isinstance(op, torch._ops.OpOverload):
            continue  # an object's method: export names it
        with graph.inserting_before(node):
            call = graph.call_function(op, tuple(rest), dict(node.kwargs))
        call.meta = {**node.meta, "val": _results(node.meta["val"])}
        for user in list(node.users):
            if user.target is operator.getitem and user.args[0] is node:
                _replace_result(graph, user, token, call)
        graph.erase_node(node)
        tokens.add(token)
        count += 1
    if not count:
        return 0
    output = graph.output_node()
    output.args = fx.map_arg(output.args, lambda node: None if node in tokens else node)
    for token in tokens:
        if token.op == "placeholder" and not token.users:
            token.meta["val"] = None  # export leaves it out
    return count


def _results(value: tuple[object, ...]) -> object:
    """What the operator itself returns: with_effects puts the token before it."""
    results = value[1:]
    return results[0] if len(results) == 1 else results


def _replace_result(graph: fx.Graph, item: fx.Node, token: fx.Node, call: fx.Node) -> None:
    index = arguments(item)[1]
    if index == 0:
        item.replace_all_uses_with(token)
    elif isinstance(call.meta["val"], tuple):
        with graph.inserting_before(item):
            result = graph.call_function(operator.getitem, (call, index - 1))
        result.meta = dict(item.meta)
        item.replace_all_uses_with(result)
    else:
        item.replace_all_uses_with(call)
    graph.erase_node(item)
