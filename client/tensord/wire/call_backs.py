# SPDX-License-Identifier: Apache-2.0
"""Nodes of a graph that have no form on the wire, as steps that call back into the job.

A value has a form when the wire can say what it is: a plain strided tensor, a size. Others are
*opaque*: sparse, nested, quantised and conjugated tensors, tensors whose sizes depend on data,
Python objects. A node has a form when its operator and all its values have one. `separate` moves
the rest, in stretches of neighbours, into submodules of the graph; what is left is compiled as one
program, whose plan calls each submodule where it stands. Opaque values go from one such call to the
next in Python and never reach the daemon.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import fx

from .. import torch_compat
from ..errors import ExportError
from ..subgraph import subgraph
from ..v1 import graph_pb2
from .memory import (
    counts_from_the_start,
    counts_in_bodies,
    is_all_of_its_memory,
    place_of,
    viewed_input,
)

if TYPE_CHECKING:
    from .exporter import Exporter

_Argument = graph_pb2.Argument

_FUNCTIONALIZED = torch_compat.functionalized_operators()

# The operator of their nodes on the wire.
OPERATOR = "tensord::call_back"
# How the names of the submodules begin.
PREFIX = "tensord_call_back_"
# meta of a node without a form, once its graph was exported: why.
FORMLESS = "tensord_formless"
# meta of a node whose value is opaque, though its fake value looks like a plain tensor: why.
DISGUISED = "tensord_disguised"
# meta of a submodule's call: why each node of the submodule has no form, by its name.
REASONS = "tensord_reasons"
# meta of a call-back's result that is a number: the node that computes it there.
COMPUTED_BY = "tensord_computed_by"


@dataclass
class CallBack:
    """One step of the plan that runs nodes of the graph in the job.

    takes: where each argument of `module` comes from: ("tensor", its number among the step's),
    ("size", number) or ("slot", number of an opaque value).
    gives: the slot of each result of `module`; None for one that the plan takes, if it is wanted.
    drops: slots that nothing reads after this step. copies: tensors of the step, by number, that
    results may hold on to while the plan uses their memory again. places: of tensors of the plan's
    own, by number: where among the sizes the storage offset is that they have in eager, and behind
    it how many elements their storage has there; None where they are to be all of it. written: how
    many tensors, the first ones, it writes.
    reasons: why each node has no form, by its name.
    """

    module: fx.GraphModule
    takes: list[tuple[str, int]]
    gives: list[int | None]
    drops: list[int]
    copies: frozenset[int]
    places: dict[int, int | None]
    written: int
    reasons: dict[str, str]


def is_call_back(node: fx.Node) -> bool:
    """True for the call of a submodule that `separate` made."""
    return node.op == "call_module" and str(node.target).startswith(PREFIX)


def module_of(owner: torch.nn.Module, node: fx.Node) -> fx.GraphModule:
    """The submodule of such a call."""
    found = getattr(owner, str(node.target))
    assert isinstance(found, fx.GraphModule)
    return found


def separate(
    module: fx.GraphModule, live: Iterable[fx.Node], formless: Mapping[fx.Node, str]
) -> fx.GraphModule:
    """A copy of an AOTAutograd graph in which the `formless` of its `live` nodes are submodules.

    formless: why each has no form. The copy's nodes have meta["val"] as before; a submodule's call
    has the list of its results there.
    """
    return _Separator(module, set(live), formless).run()


class _Separator:
    def __init__(
        self, module: fx.GraphModule, live: set[fx.Node], formless: Mapping[fx.Node, str]
    ) -> None:
        self.module = module
        self.live = live
        self.formless = formless
        self.graph = fx.Graph()
        self.copies: dict[fx.Node, fx.Node] = {}
        self.stretch: list[fx.Node] = []  # of neighbours without a form, not yet in a submodule
        self.taken: set[fx.Node] = set()  # all that are or were in a stretch
        self.parts: dict[str, fx.GraphModule] = {}

    def run(self) -> fx.GraphModule:
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.copy(node)
            elif node not in self.live or node in self.taken:
                continue
            elif node.op == "output":
                self.close()
                self.copy(node)
            elif self.belongs(node):
                self.take(node)
            elif node.op == "get_attr" or _is_number(node):
                self.copy_if_wanted(node)  # before the stretch, of which it reads nothing
            else:
                self.close()
                self.copy(node)
        # By name, so that the graph finds its submodules as well as the attributes that it had.
        owned: dict[str, Any] = dict(self.parts)
        for node in self.graph.nodes:
            if node.op == "get_attr":
                owned[node.target] = torch_compat.attribute_of(self.module, node.target)
        return fx.GraphModule(owned, self.graph)

    def belongs(self, node: fx.Node) -> bool:
        """True for what has no form, and for numbers that are read from what is in the stretch."""
        if node in self.formless:
            return True
        return _is_number(node) and any(s in self.stretch for s in node.all_input_nodes)

    def take(self, node: fx.Node) -> None:
        """Into the stretch, with its results one by one."""
        self.stretch.append(node)
        self.taken.add(node)
        for user in node.users:
            if user.target is operator.getitem and user in self.live and user not in self.taken:
                self.take(user)

    def copy_if_wanted(self, node: fx.Node) -> None:
        """Copies all but attributes that only submodules read."""
        if node.op == "get_attr" and all(user in self.formless for user in node.users):
            return
        self.copy(node)

    def copy(self, node: fx.Node) -> None:
        self.copies[node] = self.graph.node_copy(node, self.copies.__getitem__)

    def close(self) -> None:
        """Makes the stretch a submodule, and its call a node."""
        if not self.stretch:
            return
        inside = set(self.stretch)
        outside = dict.fromkeys(
            source
            for node in self.stretch
            for source in node.all_input_nodes
            if source not in inside and source.op != "get_attr"
        )
        given = [
            n for n in self.stretch if any(u not in inside and u in self.live for u in n.users)
        ]
        name = f"{PREFIX}{len(self.parts)}"
        self.parts[name] = subgraph(self.module, self.stretch, outside, given)
        call = self.graph.call_module(name, tuple(self.copies[n] for n in outside))
        call.meta["val"] = [n.meta.get("val") for n in given]
        call.meta[REASONS] = {
            n.name: f"{torch_compat.target_name(n)}: {self.formless[n]}"
            for n in self.stretch
            if n in self.formless
        }
        for position, node in enumerate(given):
            item = self.graph.call_function(operator.getitem, (call, position))
            item.meta = {**node.meta, COMPUTED_BY: node}
            self.copies[node] = item
        self.stretch.clear()


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (int, torch.SymInt))


class CallBackExporter:
    """The call-backs of one graph: nodes on the wire, and the steps that the job runs."""

    def __init__(self, exporter: Exporter) -> None:
        self._exporter = exporter
        self._steps: list[CallBack] = []
        self._last_reader: dict[int, int] = {}  # slot -> step
        self.slots: dict[fx.Node, int] = {}  # of opaque values

    def slot_of(self, node: fx.Node) -> int:
        """The slot of an opaque value, which is given one."""
        return self.slots.setdefault(node, len(self.slots))

    def export(self, node: fx.Node) -> graph_pb2.Node:
        """The node of a submodule's call."""
        module = module_of(self._exporter.module, node)
        inner = [n for n in module.graph.nodes if n.op == "placeholder"]
        changed = {value for n in module.graph.nodes for value in changed_by(n)}
        given: list[fx.Node] = [n for n in node.args if isinstance(n, fx.Node)]
        tensors = [
            (outside, within in changed)
            for outside, within in zip(given, inner, strict=True)
            if outside not in self.slots and isinstance(outside.meta.get("val"), torch.Tensor)
        ]
        tensors.sort(key=lambda item: not item[1])  # those that it writes come first
        numbers = {outside: number for number, (outside, _) in enumerate(tensors)}
        sizes: list[graph_pb2.SymExpr] = []
        takes: list[tuple[str, int]] = []
        for outside in given:
            if outside in self.slots:
                takes.append(("slot", self.slots[outside]))
                self._last_reader[self.slots[outside]] = len(self._steps)
            elif outside in numbers:
                takes.append(("tensor", numbers[outside]))
            else:
                takes.append(("size", len(sizes)))
                sizes.append(self._exporter.symbols.convert(outside.meta["val"]))
        gives, outputs, keeps = self._results(node)
        passing = [number for value, number in numbers.items() if self._may_change(value)]
        places: dict[int, int | None] = {}
        in_bodies = counts_in_bodies(module)
        counts = in_bodies or any(map(counts_from_the_start, module.graph.nodes))
        for value, number in numbers.items():
            if viewed_input(value) is not None:
                continue
            places[number] = None
            if counts and not is_all_of_its_memory(value.meta["val"]):
                if in_bodies:
                    raise ExportError(
                        "as_strided in its body may read around what the program computes"
                    )
                places[number] = len(sizes)
                sizes.extend(map(self._exporter.symbols.convert, place_of(value.meta["val"])))
        self._steps.append(
            CallBack(
                module,
                takes,
                gives,
                [],
                frozenset(passing if keeps else ()),
                places,
                sum(is_written for _, is_written in tensors),
                node.meta.get(REASONS, {}),
            )
        )
        arguments = [
            _Argument(integer=graph_pb2.SymExpr(constant=len(self._steps) - 1)),
            self._values([value for value, is_written in tensors if is_written]),
            self._values([value for value, is_written in tensors if not is_written]),
            _list(_Argument(integer=size) for size in sizes),
        ]
        return graph_pb2.Node(op=OPERATOR, args=arguments, outputs=outputs, name=node.name)

    def _may_change(self, node: fx.Node) -> bool:
        """True for what the plan computes, and for an input that it may overwrite: the memory may
        be used again within the call."""
        producer = producer_of(node)
        if producer.op == "placeholder":
            return producer in self._exporter.donated
        return producer.op != "get_attr"

    def finished(self, returns: Iterable[int | None]) -> list[CallBack]:
        """All steps; each drops the slots that it is the last to read, but for what the graph
        returns."""
        wanted = set(returns)
        for slot, step in self._last_reader.items():
            if slot not in wanted:
                self._steps[step].drops.append(slot)
        return self._steps

    def _values(self, nodes: Iterable[fx.Node]) -> graph_pb2.Argument:
        return _list(_Argument(value=self._exporter.reference(node)) for node in nodes)

    def _results(self, node: fx.Node) -> tuple[list[int | None], list[graph_pb2.TensorMeta], bool]:
        """Of a call: CallBack.gives, the types of all leaves, and whether a result that the plan
        does not take may hold on to memory."""
        items = {user.args[1]: user for user in node.users if user.target is operator.getitem}
        gives: list[int | None] = []
        outputs: list[graph_pb2.TensorMeta] = []
        keeps = False
        for position, value in enumerate(node.meta["val"]):
            item = items.get(position)
            disguised = item is not None and DISGUISED in item.meta
            types, has_form = self._types(None if disguised else value)
            has_form = has_form and not disguised
            outputs.extend(types)
            gives.append(None if has_form or item is None else self.slot_of(item))
            keeps = keeps or not (has_form or _is_plain_number(value))
        return gives, outputs, keeps

    def _types(self, value: Any) -> tuple[list[graph_pb2.TensorMeta], bool]:
        """A result's leaves as the wire has them (absent: no dtype), and whether that says all."""
        try:
            if isinstance(value, torch.Tensor):
                return [self._exporter.new_meta(value)], True
            if isinstance(value, (int, torch.SymInt)) and not isinstance(value, bool):
                self._exporter.symbols.convert(value)
                return [graph_pb2.TensorMeta()], True
        except ExportError:
            pass
        return [graph_pb2.TensorMeta() for _ in leaves(value)], value is None


def changed_by(node: fx.Node) -> Iterator[fx.Node]:
    """The arguments whose elements an operator changes, by the node that made them."""
    op = node.target
    if op in _FUNCTIONALIZED:
        yield from map(producer_of, torch_compat.changed_in_place(node))
    if not isinstance(op, torch._ops.OpOverload) or not op._schema.is_mutable:
        return
    for position, parameter in enumerate(op._schema.arguments):
        if parameter.alias_info is None or not parameter.alias_info.is_write:
            continue
        in_place = position < len(node.args)
        given: Any = node.args[position] if in_place else node.kwargs.get(parameter.name)
        yield from (producer_of(value) for value in leaves(given) if isinstance(value, fx.Node))


def producer_of(node: fx.Node) -> fx.Node:
    """The node of which this is a result, or a result of a result; itself for others."""
    while node.target is operator.getitem and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def leaves(value: Any) -> list[Any]:
    """What nested tuples and lists hold, in order."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def _list(items: Iterable[graph_pb2.Argument]) -> graph_pb2.Argument:
    return _Argument(list=graph_pb2.ArgumentList(items=items))


def _is_plain_number(value: Any) -> bool:
    return isinstance(value, (int, float, torch.SymInt, torch.SymFloat, torch.SymBool))
