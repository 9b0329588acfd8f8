# SPDX-License-Identifier: Apache-2.0
"""Cuts a graph at what no CUDA graph can hold, so that the stretches between can be captured.

A tensor on the CPU, or an operator that waits for the GPU, would otherwise keep the whole graph
from being captured. Each part is a program of its own; they run in order.
"""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

from ..cut import Cut, cut_at, merged, results_of, stretches
from ..wire.exporter import live_nodes
from .plan import obstacle

# A stretch with fewer operators is not worth a graph.
_LEAST_OPERATORS = 4
_MOST_PARTS = 16


def cut(module: fx.GraphModule, static: Iterable[int]) -> Cut | None:
    """The parts of an AOTAutograd graph; None when no stretch of it is worth a CUDA graph."""
    results = results_of(module)
    if results is None:
        return None
    live = live_nodes(module.graph.nodes)
    nodes = [
        n
        for n in module.graph.nodes
        if n in live and n.op not in ("placeholder", "get_attr", "output")
    ]
    found = stretches(nodes, {node: obstacle(node) for node in nodes})
    found = merged(found, _LEAST_OPERATORS, "too little work for a graph")
    if all(s.obstacle for s in found) or not 2 <= len(found) <= _MOST_PARTS:
        return None
    return cut_at(module, found, results, frozenset(static))
