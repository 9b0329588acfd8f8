# SPDX-License-Identifier: Apache-2.0
"""Operators that change their arguments, and get copies of these in a functional graph.

AOTAutograd calls an operator that changes tensors through `auto_functionalized_v2`, which clones
them, hands the clones to the operator, and gives them back as results; where a tensor is an
argument of the graph, the result is copied into it in the end. Nothing of that is needed where
nobody reads what the tensor was before: the operator works in place.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from ... import torch_compat
from ...wire.call_backs import leaves
from ..insertion import arguments, memory_of

_aten = torch.ops.aten
OPERATORS = torch_compat.functionalized_operators()
# Their results are new, and hold nothing that has to be computed.
_CREATING = (
    _aten.empty.memory_format,
    _aten.empty_like.default,
    _aten.empty_permuted.default,
    _aten.empty_strided.default,
    _aten.full.default,
    _aten.new_empty.default,
    _aten.new_empty_strided.default,
    _aten.zeros.default,
)


@dataclass(frozen=True)
class _Change:
    """What a functionalized operator makes of one tensor. before, after: its values; number: among
    those that the operator changes."""

    call: fx.Node
    number: int
    before: fx.Node
    after: fx.Node


def in_place_operators(module: fx.GraphModule) -> int:
    """Lets operators work in place, on arguments of the graph, which then hold the results for
    those who read them later, and on tensors that were made for them. Gives the number of clones
    and copies that are left out."""
    return _change_arguments(module.graph) + _change_new_tensors(module.graph)


def _change_arguments(graph: fx.Graph) -> int:
    readers = _Readers(graph)
    count = 0
    for copy in graph.find_nodes(op="call_function", target=_aten.copy_.default):
        target, source = arguments(copy)[:2]
        changes = _changes_of(target, source) if target.op == "placeholder" else []
        if not changes or not all(readers.may_be_in_place(c, copy) for c in changes):
            continue
        for change in changes:
            torch_compat.change_in_place(change.call, change.number)
            change.after.replace_all_uses_with(target)
            graph.erase_node(change.after)
        graph.erase_node(copy)
        count += len(changes) + 1
        readers = _Readers(graph)
    return count


def _changes_of(target: fx.Node, last: object) -> list[_Change]:
    """Those that lead from one value to another, in order; none where something else does."""
    changes: list[_Change] = []
    while last is not target:
        change = _change_to(last)
        if change is None:
            return []
        changes.insert(0, change)
        last = change.before
    return changes


def _change_to(value: object) -> _Change | None:
    """The change whose result this is."""
    if not isinstance(value, fx.Node) or len(value.all_input_nodes) != 1:
        return None
    (call,) = value.all_input_nodes
    for number, (before, after) in enumerate(_changed(call)):
        if after is value and before is not None:
            return _Change(call, number, before, value)
    return None


def _changed(call: fx.Node) -> list[tuple[fx.Node | None, fx.Node | None]]:
    """The tensors that a functionalized operator changes: what is given, and the result, if it is
    read."""
    if call.target not in OPERATORS:
        return []
    given, first = torch_compat.changed_tensors(call)
    results = {user.args[1]: user for user in call.users}
    return [(tensor, results.get(first + number)) for number, tensor in enumerate(given)]


def _change_new_tensors(graph: fx.Graph) -> int:
    """A tensor that is made for an operator is made beside it."""
    count = 0
    for call in [node for node in graph.nodes if node.target in OPERATORS]:
        for number, (before, _) in enumerate(_changed(call)):
            if before is None or before.target not in _CREATING or set(before.users) != {call}:
                continue
            known = {*call.all_input_nodes, *graph.find_nodes(op="placeholder")}
            if _times_given(call, before) == 1 and known.issuperset(before.all_input_nodes):
                torch_compat.change_in_place(call, number)
                call.prepend(before)
                count += 1
    return count


def _times_given(call: fx.Node, value: fx.Node) -> int:
    return leaves((*call.args, *(leaves(given) for given in call.kwargs.values()))).count(value)


class _Readers:
    """Who reads the memory of a graph's values, and when."""

    def __init__(self, graph: fx.Graph) -> None:
        nodes: Sequence[fx.Node] = list(graph.nodes)
        self.place: Mapping[fx.Node, int] = {node: number for number, node in enumerate(nodes)}
        self.output = graph.output_node()
        self.of_memory: dict[int, list[fx.Node]] = {}
        for node in nodes:
            for memory in {m for source in node.all_input_nodes for m in memory_of(source)}:
                self.of_memory.setdefault(memory, []).append(node)

    def may_be_in_place(self, change: _Change, copy: fx.Node) -> bool:
        """Whether nobody but the operator, and only by one argument, and the copy of the result
        sees what was there before, and the graph does not return the result."""
        before, after = memory_of(change.before), memory_of(change.after)
        if len(before) != 1 or len(after) != 1 or _times_given(change.call, change.before) != 1:
            return False
        begin = self.place[change.call]
        for node in self.of_memory[before.pop()]:
            if node is not copy and node is not change.call and self.place[node] >= begin:
                return False
        shared = [s for s in change.call.all_input_nodes if s is not change.before]
        if any(memory_of(s) & memory_of(change.before) for s in shared):
            return False
        return self.output not in self.of_memory[after.pop()]
