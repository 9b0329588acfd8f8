# SPDX-License-Identifier: Apache-2.0
"""Graphs of torch.fx: what they read, copies of them, and how AOTAutograd calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

# What AOTAutograd calls: it takes the arguments in a list, which it empties, and gives results.
Boxed = Callable[[list[Any]], Any]


def attribute_of(module: torch.nn.Module, path: str) -> Any:
    """What a get_attr node of a graph reads; None where there is nothing."""
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part, None)
    return value


def recorded(graph: fx.Graph) -> Callable[[], fx.Graph]:
    """What makes the graph anew as it is now, with its nodes' `meta`, and what Dynamo keeps on
    inputs beside that (2.11 to 2.13). What nodes name is shared. The record itself costs little:
    nodes' arguments are immutable, so it only refers to them.
    """
    nodes = [
        (n, (n.op, n.target), n.args, n.kwargs, (n.name, n.type), dict(n.meta)) for n in graph.nodes
    ]
    tracer, codegen = graph._tracer_cls, graph._codegen

    def make() -> fx.Graph:
        new = fx.Graph(tracer_cls=tracer)
        copies: dict[fx.Node, fx.Node] = {}
        for old, call, args, kwargs, name, meta in nodes:
            args, kwargs = fx.node.map_arg((args, kwargs), copies.__getitem__)
            copies[old] = copy = new.create_node(*call, args, kwargs, *name)
            copy.meta = dict(meta)
            if hasattr(old, "_dynamo_source"):
                copy._dynamo_source = old._dynamo_source
        new.set_codegen(codegen)
        return new

    return make


def boxed(module: fx.GraphModule) -> Callable[[list[Any]], Any]:
    """The module as a function of a list that it empties, so that inputs are freed on the way."""
    codegen = getattr(fx.graph, "_BoxedCodeGen", None)  # 2.9 and later
    if codegen is not None:
        module.graph.set_codegen(codegen())
        module.recompile()
        return module.forward

    def call(arguments: list[Any]) -> Any:
        values = tuple(arguments)
        arguments.clear()
        return module(*values)

    return call


def takes_list(call: Callable[[list[Any]], Any]) -> Callable[[list[Any]], Any]:
    """Marks a function as one that AOTAutograd calls with a list of arguments, which it may empty.
    On a function: wrappers of Dynamo lose the attributes of any other callable."""
    call._boxed_call = True  # type: ignore[attr-defined]
    return call
