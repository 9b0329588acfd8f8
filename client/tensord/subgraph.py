# SPDX-License-Identifier: Apache-2.0
"""Some nodes of a graph as a graph of their own."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx


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
        copies[node] = graph.node_copy(node, copies.__getitem__)
    graph.output([copies[node] for node in gives])
    return fx.GraphModule(owner, graph)
