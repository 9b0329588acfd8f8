# SPDX-License-Identifier: Apache-2.0
"""A graph cut into parts, each a program or a function of its own, that run in order.

Two things ask for it: what no CUDA graph can hold (cuda_graphs/split.py), and sizes that data
decides (capture/data_sizes.py).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from . import torch_compat
from .subgraph import subgraph
from .wire.exporter import acts


@dataclass
class Part:
    """One of the graphs that a graph was cut into.

    takes, gives: its arguments and results, as numbers of values: the whole graph's arguments come
    first. last: those that no later part takes. static: arguments that keep their address.
    obstacle: why it is set apart from its neighbours; "" for those between. reasons: why each of
    its nodes is, by its name.
    """

    module: fx.GraphModule
    takes: list[int]
    gives: list[int]
    static: set[int]
    obstacle: str
    reasons: dict[str, str]
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
class Stretch:
    """Nodes of one part. obstacle, reasons: of the part."""

    nodes: list[fx.Node]
    obstacle: str
    reasons: dict[str, str] = field(default_factory=dict)


def results_of(module: fx.GraphModule) -> Sequence[Any] | None:
    """What the graph returns; None where it is no list, or holds the graph's own constants."""
    results = module.graph.output_node().args[0]
    if not isinstance(results, (list, tuple)):
        return None
    if any(isinstance(r, fx.Node) and r.op == "get_attr" for r in results):
        return None
    return results


def stretches(nodes: Sequence[fx.Node], obstacles: Mapping[fx.Node, str]) -> list[Stretch]:
    """All nodes, in an order that their dependences allow and that changes as rarely as can be
    between those with an obstacle and those without."""
    waiting = list(nodes)
    needs = _dependences(waiting)
    why = _with_results(waiting, obstacles)
    done: set[fx.Node] = set()
    found: list[Stretch] = []
    plain = False
    while waiting:
        taken = []
        for node in waiting:
            fits = (not why[node]) == plain or _is_of_data_sizes(node)
            if fits and needs[node] <= done:
                taken.append(node)
                done.add(node)
        if taken:
            reasons = {n.name: why[n] for n in taken if why[n] and not is_free(n)}
            found.append(Stretch(taken, next(filter(None, map(why.get, taken)), ""), reasons))
            waiting = [node for node in waiting if node not in done]
        plain = not plain
    return found


def _is_of_data_sizes(node: fx.Node) -> bool:
    """True for numbers that are computed of sizes that data decides: they go wherever they can be
    first, for assertions read them."""
    return _is_number(node) and bool(torch_compat.data_symbols_of(node.meta["val"]))


def merged(found: Sequence[Stretch], least: int, reason: str) -> list[Stretch]:
    """Stretches of fewer operators than `least` go to their neighbours with an obstacle; where
    there are none, theirs is `reason`."""
    result: list[Stretch] = []
    for stretch in found:
        why = stretch.obstacle
        if not why and sum(not is_free(n) for n in stretch.nodes) < least:
            why = reason
        if result and bool(result[-1].obstacle) == bool(why):
            result[-1].nodes.extend(stretch.nodes)
            result[-1].reasons.update(stretch.reasons)
        else:
            result.append(Stretch(list(stretch.nodes), why, dict(stretch.reasons)))
    return result


def is_free(node: fx.Node) -> bool:
    """True for views, numbers and the like: nothing runs for them."""
    return not isinstance(node.target, torch._ops.OpOverload) or _is_number(node) or _is_view(node)


def cut_at(
    module: fx.GraphModule,
    found: Sequence[Stretch],
    results: Sequence[Any],
    static: Collection[int],
) -> Cut:
    """The parts of an AOTAutograd graph.

    found: its stretches, in order. results: what it returns. static: arguments that keep their
    address from call to call.
    """
    return _Cutter(module, static).run(found, results)


def _with_results(nodes: Sequence[fx.Node], obstacles: Mapping[fx.Node, str]) -> dict[fx.Node, str]:
    """Each node's obstacle. The results of one operator stay with it."""
    why: dict[fx.Node, str] = {}
    for node in nodes:
        source = node.all_input_nodes[0] if node.all_input_nodes else None
        first = why.get(source, "") if source is not None and picks(node) else ""
        why[node] = first or obstacles.get(node, "")
    for node in reversed(nodes):
        if picks(node) and why[node]:
            why[node.all_input_nodes[0]] = why[node.all_input_nodes[0]] or why[node]
    for node in nodes:
        if picks(node):
            why[node] = why[node.all_input_nodes[0]]
    return why


def picks(node: fx.Node) -> bool:
    """True for what takes one result of several."""
    return getattr(node.target, "__name__", "") == "getitem"


def _dependences(nodes: Sequence[fx.Node]) -> dict[fx.Node, set[fx.Node]]:
    """The nodes that must run before each: what it reads; what was before an operator that changes
    an argument, and that operator for what comes after; assertions about its sizes; assertions and
    random operators in their order."""
    known = set(nodes)
    needs: dict[fx.Node, set[fx.Node]] = {}
    before: set[fx.Node] = set()
    barrier: fx.Node | None = None
    drawn: fx.Node | None = None
    asserted: fx.Node | None = None
    facts: dict[Any, set[fx.Node]] = {}  # assertions about a symbol
    for node in nodes:
        needs[node] = known.intersection(node.all_input_nodes)
        if barrier is not None:
            needs[node].add(barrier)
        if not _only_asserts(node):
            for symbol in torch_compat.data_symbols_of(node.meta.get("val")):
                needs[node] |= facts.get(symbol, set())
            if acts(node):
                needs[node] |= before
                barrier = node
        else:
            for symbol in torch_compat.data_symbols_of([n.meta.get("val") for n in needs[node]]):
                facts.setdefault(symbol, set()).add(node)
            if asserted is not None:
                needs[node].add(asserted)
            asserted = node
        if torch_compat.is_random(node):
            if drawn is not None:
                needs[node].add(drawn)
            drawn = node
        before.add(node)
    return needs


def _only_asserts(node: fx.Node) -> bool:
    """True for what may raise and does nothing else."""
    op = node.target
    return (
        isinstance(op, torch._ops.OpOverload)
        and not op._schema.is_mutable
        and not op._schema.returns
        and op._schema.name.startswith("aten::_assert")
    )


def _is_view(node: fx.Node) -> bool:
    """True for operators whose results are views of their first argument, and such results."""
    if picks(node):
        return _is_view(node.all_input_nodes[0])
    return isinstance(node.target, torch._ops.OpOverload) and torch_compat.gives_views(node.target)


def _is_number(node: fx.Node) -> bool:
    """True for what is computed of sizes; not for what reads an element of a tensor."""
    if not isinstance(node.meta.get("val"), (int, torch.SymInt)):
        return False
    reads = any(isinstance(n.meta.get("val"), torch.Tensor) for n in node.all_input_nodes)
    return not reads or torch_compat.target_name(node).startswith("aten::sym_")


class _Cutter:
    def __init__(self, module: fx.GraphModule, static: Collection[int]) -> None:
        self.module = module
        self.arguments = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.static = {node for i, node in enumerate(self.arguments) if i in static}
        self.numbers = {node: i for i, node in enumerate(self.arguments)}
        self.order = {node: i for i, node in enumerate(module.graph.nodes)}

    def run(self, found: Sequence[Stretch], results: Sequence[Any]) -> Cut:
        wanted = {r for r in results if isinstance(r, fx.Node)}
        inside = [self.with_views(s.nodes) for s in found]
        takes = self.takes(inside)
        outside = [wanted]  # what is needed behind each stretch
        for taken in reversed(takes[1:]):
            outside.append(outside[-1].union(taken))
        outside.reverse()
        parts = [
            self.part(stretch, nodes, taken, needed)
            for stretch, nodes, taken, needed in zip(found, inside, takes, outside, strict=True)
        ]
        keep = {self.numbers[node] for node in wanted}
        for part in reversed(parts):
            part.last = set(part.takes) - keep
            keep.update(part.takes)
        return Cut(parts, [(self.numbers.get(r), None) if isinstance(r, fx.Node) else (None, r)
                           for r in results])  # fmt: skip

    def with_views(self, nodes: Sequence[fx.Node]) -> list[fx.Node]:
        """The nodes of a stretch, and the views of other stretches' values that they read: a
        program that were given both a value and a view of it could not tell that they share
        memory."""
        inside = set(nodes)
        pending = list(nodes)
        views: set[fx.Node] = set()
        while pending:
            for source in pending.pop().all_input_nodes:
                if source not in inside and _is_view(source):
                    inside.add(source)
                    views.add(source)
                    pending.append(source)
        return [*sorted(views, key=self.order.__getitem__), *nodes]

    def takes(self, inside: Sequence[Sequence[fx.Node]]) -> list[list[fx.Node]]:
        """The values that each stretch takes, in the order of their numbers."""
        known = dict.fromkeys(self.arguments)
        taken: list[list[fx.Node]] = []
        for nodes in inside:
            own = set(nodes)
            needed = {
                n for node in nodes for n in node.all_input_nodes if n not in own
            } | self.symbols(known, nodes)
            taken.append([n for n in needed if n.op != "get_attr"])
            known.update(dict.fromkeys(nodes))
        return taken

    def symbols(self, known: Collection[fx.Node], nodes: Sequence[fx.Node]) -> set[fx.Node]:
        """Values that are symbols of sizes in `nodes` and of what they read: a program finds its
        symbols in its arguments."""
        values = {n for node in nodes for n in (node, *node.all_input_nodes)}
        symbols = torch_compat.symbols_of(n.meta.get("val") for n in values)
        if not symbols:
            return set()
        found: dict[Any, fx.Node] = {}
        for node in known:
            value = node.meta.get("val")
            if torch_compat.is_symbol(value, symbols):
                found.setdefault(value.node.expr, node)
        return set(found.values()) - set(nodes)

    def part(
        self,
        stretch: Stretch,
        nodes: Sequence[fx.Node],
        takes: Sequence[fx.Node],
        needed: Collection[fx.Node],
    ) -> Part:
        taken = sorted(takes, key=self.numbers.__getitem__)
        given = [node for node in stretch.nodes if node in needed]
        for node in given:
            self.numbers[node] = len(self.numbers)
        return Part(
            subgraph(self.module, nodes, taken, given),
            [self.numbers[node] for node in taken],
            [self.numbers[node] for node in given],
            {i for i, node in enumerate(taken) if node in self.static},
            stretch.obstacle,
            stretch.reasons,
        )
