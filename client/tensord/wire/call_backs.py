# SPDX-License-Identifier: Apache-2.0
"""Nodes of a graph that have no form on the wire, as steps that call back into the job.

A value has a form when the wire can say what it is: a plain strided tensor, a size. Others are
*opaque*: sparse, nested and conjugated tensors, tensors whose sizes depend on data, Python objects.
A node has a form when its operator and all its values have one. `separate` moves the rest, in
stretches of neighbours, into submodules of the graph; what is left is compiled as one program,
whose plan calls each submodule where it stands. Opaque values go from one such call to the next in
Python and never reach the daemon.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import torch
from torch import fx

# How the names of the submodules begin.
PREFIX = "tensord_call_back_"
# meta of such a call: why each node of the submodule has no form, by its name.
REASONS = "tensord_reasons"


@dataclass
class CallBack:
    """One step of the plan that runs nodes of the graph in the job.

    takes: where each argument of `module` comes from: ("tensor", its number among the step's),
    ("size", number) or ("slot", number of an opaque value).
    gives: the slot of each result of `module`; None for one that the plan takes, if it is wanted.
    drops: slots that nothing reads after this step. copies: tensors of the step, by number, that
    results may hold on to while the plan uses their memory again.
    reasons: why each node has no form, by its name.
    """

    module: fx.GraphModule
    takes: list[tuple[str, int]]
    gives: list[int | None]
    drops: list[int]
    copies: frozenset[int]
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
        self.stretch: list[fx.Node] = []
        self.parts: dict[str, fx.GraphModule] = {}

    def run(self) -> fx.GraphModule:
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                self.copy(node)
            elif node not in self.live:
                continue
            elif node.op == "output":
                self.close()
                self.copy(node)
            elif self.belongs(node):
                self.stretch.append(node)
            elif node.op == "get_attr" or _is_number(node):
                self.copy_if_wanted(node)  # before the stretch, of which it reads nothing
            else:
                self.close()
                self.copy(node)
        result = fx.GraphModule(self.module, self.graph)
        for name, part in self.parts.items():
            result.add_submodule(name, part)
        return result

    def belongs(self, node: fx.Node) -> bool:
        """True for what has no form, and for what only picks from it or measures it."""
        if node in self.formless:
            return True
        reads_stretch = any(source in self.stretch for source in node.all_input_nodes)
        return reads_stretch and (node.target is operator.getitem or _is_number(node))

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
        self.parts[name] = self.submodule(list(outside), given)
        call = self.graph.call_module(name, tuple(self.copies[n] for n in outside))
        call.meta["val"] = [n.meta.get("val") for n in given]
        call.meta[REASONS] = {n.name: self.formless[n] for n in self.stretch if n in self.formless}
        for position, node in enumerate(given):
            item = self.graph.call_function(operator.getitem, (call, position))
            item.meta = dict(node.meta)
            self.copies[node] = item
        self.stretch.clear()

    def submodule(self, takes: list[fx.Node], gives: list[fx.Node]) -> fx.GraphModule:
        graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        for node in takes:
            copies[node] = graph.placeholder(node.name)
            copies[node].meta = dict(node.meta)
        for node in self.stretch:
            for source in node.all_input_nodes:
                if source.op == "get_attr" and source not in copies:
                    copies[source] = graph.node_copy(source)
            copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output([copies[node] for node in gives])
        return fx.GraphModule(self.module, graph)


def _is_number(node: fx.Node) -> bool:
    return isinstance(node.meta.get("val"), (int, torch.SymInt))
