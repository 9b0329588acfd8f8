# SPDX-License-Identifier: Apache-2.0
"""Some nodes of a graph as a graph of their own."""

from __future__ import annotations

import cmath
from collections.abc import Iterable
from typing import Any

from torch import fx


def _name_odd_numbers(graph: fx.Graph, node: fx.Node) -> None:
    """Complex infinities and NaN become calls of complex(): what FX would write is no Python."""

    def named(argument: Any) -> Any:
        if not isinstance(argument, complex) or cmath.isfinite(argument):
            return argument
        with graph.inserting_before(node):
            return graph.call_function(complex, (argument.real, argument.imag))

    node.args = fx.node.map_aggregate(node.args, named)
    node.kwargs = fx.node.map_aggregate(node.kwargs, named)


def subgraph(
    owner: fx.GraphModule,
    nodes: Iterable[fx.Node],
    takes: Iterable[fx.Node],
    gives: Iterable[fx.Node],
) -> fx.GraphModule:
    """A module of `nodes`, which are in order: it takes the values of `takes`, gives those of
    `gives` in a list, and has `owner`'s attributes that the nodes read. Nodes keep their `meta`."""
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in takes:
        copies[node] = graph.placeholder(node.name)
        copies[node].meta = dict(node.meta)
    nodes = list(nodes)
    attributes = {n for node in nodes for n in node.all_input_nodes if n.op == "get_attr"}
    for node in [*sorted(attributes, key=str), *nodes]:
        copies[node] = copy = graph.node_copy(node, copies.__getitem__)
        _name_odd_numbers(graph, copy)
    graph.output([copies[node] for node in gives])
    return fx.GraphModule(owner, graph)
