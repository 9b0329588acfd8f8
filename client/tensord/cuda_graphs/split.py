# SPDX-License-Identifier: Apache-2.0
"""Cuts a graph at what no CUDA graph can hold, so that the stretches between can be captured.

A tensor on the CPU, or an operator that waits for the GPU, would otherwise keep the whole graph
from being captured. Each part is a program of its own; they run in order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..subgraph import subgraph
from ..wire.exporter import acts
from .plan import live, obstacle

# A stretch with fewer operators is not worth a graph.
_LEAST_OPERATORS = 4
_MOST_PARTS = 16


@dataclass
class Part:
    """One of the graphs that a graph was cut into.

    takes, gives: its arguments and results, as numbers of values: the whole graph's arguments come
    first. last: those that no later part takes. static: arguments that keep their address.
    obstacle: why it is not captured; "" for one that can be.
    """

    module: fx.GraphModule
    takes: list[int]
    gives: list[int]
    static: set[int]
    obstacle: str
    last: set[int] = field(default_factory=set)


@dataclass
class Cut:
    """All parts in order, and the whole graph's results: numbers of values, or what they are."""

    parts: list[Part]
    results: list[tuple[int | None, Any]]

    def callable(self, runs: Sequence[Callable[[list[Any]], Any]]) -> Callable[[list[Any]], Any]:
        """Takes a boxed list of arguments, calls one of `runs` for each part, returns results."""

        @torch_compat.takes_list
        def call(arguments: list[Any]) -> list[Any]:
            values: dict[int, Any] = dict(enumerate(arguments))
            arguments.clear()
            for part, run in zip(self.parts, runs, strict=True):
                given = [values[i] for i in part.takes]
                for i in part.last:
                    del values[i]
                values.update(zip(part.gives, run(given), strict=True))
            return [value if i is None else values[i] for i, value in self.results]

        return call


@dataclass
class _Stretch:
    nodes: list[fx.Node]
    obstacle: str


def cut(module: fx.GraphModule, static: Iterable[int]) -> Cut | None:
    """The parts of an AOTAutograd graph; None when no stretch of it is worth a CUDA graph."""
    results = module.graph.output_node().args[0]
    if not isinstance(results, (list, tuple)) or any(_is_constant(r) for r in results):
        return None
    stretches = _merged(_stretches(module.graph))
    if all(s.obstacle for s in stretches) or not 2 <= len(stretches) <= _MOST_PARTS:
        return None
    return _Cutter(module, frozenset(static)).run(stretches, results)


def _is_constant(result: Any) -> bool:
    return isinstance(result, fx.Node) and result.op == "get_attr"


def _stretches(graph: fx.Graph) -> list[_Stretch]:
    """All nodes that compute, in an order that their dependences allow and that changes as rarely
    as can be between those that can be captured and those that cannot."""
    waiting = [n for n in live(graph) if n.op not in ("placeholder", "get_attr", "output")]
    needs = _dependences(waiting)
    why = _obstacles(waiting)
    done: set[fx.Node] = set()
    stretches: list[_Stretch] = []
    capturable = False
    while waiting:
        taken = []
        for node in waiting:
            if (not why[node]) == capturable and needs[node] <= done:
                taken.append(node)
                done.add(node)
        if taken:
            stretches.append(_Stretch(taken, next(filter(None, map(why.get, taken)), "")))
            waiting = [node for node in waiting if node not in done]
        capturable = not capturable
    return stretches


def _obstacles(nodes: Sequence[fx.Node]) -> dict[fx.Node, str]:
    """Why each node cannot be captured. The results of one operator stay with it."""
    why: dict[fx.Node, str] = {}
    for node in nodes:
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        first = why.get(source, "") if source is not None and _picks(node) else ""
        why[node] = first or obstacle(node)
    for node in reversed(nodes):
        if _picks(node) and why[node]:
            why[node.all_input_nodes[0]] = why[node.all_input_nodes[0]] or why[node]
    for node in nodes:
        if _picks(node):
            why[node] = why[node.all_input_nodes[0]]
    return why


def _picks(node: fx.Node) -> bool:
    """True for what takes one result of several."""
    return getattr(node.target, "__name__", "") == "getitem"


def _dependences(nodes: Sequence[fx.Node]) -> dict[fx.Node, set[fx.Node]]:
    """The nodes that must run before each: what it reads; what was before an operator that changes
    an argument, and that operator for what comes after; random operators in their order."""
    known = set(nodes)
    needs: dict[fx.Node, set[fx.Node]] = {}
    before: set[fx.Node] = set()
    changed: fx.Node | None = None
    drawn: fx.Node | None = None
    for node in nodes:
        needs[node] = known.intersection(node.all_input_nodes)
        if changed is not None:
            needs[node].add(changed)
        if acts(node):
            needs[node] |= before
            changed = node
        if torch_compat.is_random(node):
            if drawn is not None:
                needs[node].add(drawn)
            drawn = node
        before.add(node)
    return needs


def _merged(stretches: list[_Stretch]) -> list[_Stretch]:
    """Stretches that are too short for a graph of their own go to their neighbours."""
    merged: list[_Stretch] = []
    for stretch in stretches:
        operators = [n for n in stretch.nodes if not _is_free(n)]
        why = stretch.obstacle
        if not why and len(operators) < _LEAST_OPERATORS:
            why = "too little work for a graph"
        if merged and bool(merged[-1].obstacle) == bool(why):
            merged[-1].nodes.extend(stretch.nodes)
        else:
            merged.append(_Stretch(list(stretch.nodes), why))
    return merged


def _is_free(node: fx.Node) -> bool:
    """True for views, numbers and the like: nothing runs for them."""
    value = node.meta.get("val")
    if not isinstance(node.target, torch._ops.OpOverload) or isinstance(value, (int, torch.SymInt)):
        return True
    returns = node.target._schema.returns
    return bool(returns) and all(r.alias_info and not r.alias_info.is_write for r in returns)


class _Cutter:
    def __init__(self, module: fx.GraphModule, static: frozenset[int]) -> None:
        self.module = module
        self.arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.static = {node for i, node in enumerate(self.arguments) if i in static}
        self.numbers = {node: i for i, node in enumerate(self.arguments)}

    def run(self, stretches: list[_Stretch], results: Sequence[Any]) -> Cut:
        wanted = {r for r in results if isinstance(r, fx.Node)}
        outside: list[set[fx.Node]] = [wanted]  # what is needed after each stretch
        for stretch in reversed(stretches[1:]):
            outside.append(outside[-1].union(*(n.all_input_nodes for n in stretch.nodes)))
        outside.reverse()
        parts = [self.part(s, needed) for s, needed in zip(stretches, outside, strict=True)]
        keep = {self.numbers[node] for node in wanted}
        for part in reversed(parts):
            part.last = set(part.takes) - keep
            keep.update(part.takes)
        return Cut(parts, [(self.numbers.get(r), None) if isinstance(r, fx.Node) else (None, r)
                           for r in results])  # fmt: skip

    def part(self, stretch: _Stretch, needed: set[fx.Node]) -> Part:
        inside = set(stretch.nodes)
        sources = {n for node in stretch.nodes for n in node.all_input_nodes if n not in inside}
        taken = sorted((n for n in sources if n.op != "get_attr"), key=self.numbers.__getitem__)
        # A program finds its symbols in its arguments, so it gets them all.
        symbols = torch_compat.symbols_of(n.meta.get("val") for n in (*taken, *stretch.nodes))
        for node in self.arguments:
            if node not in taken and torch_compat.is_symbol(node.meta.get("val"), symbols):
                taken.append(node)
        given = [node for node in stretch.nodes if node in needed]
        for node in given:
            self.numbers[node] = len(self.numbers)
        return Part(
            subgraph(self.module, stretch.nodes, taken, given),
            [self.numbers[node] for node in taken],
            [self.numbers[node] for node in given],
            {i for i, node in enumerate(taken) if node in self.static},
            stretch.obstacle,
        )
