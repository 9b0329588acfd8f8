# SPDX-License-Identifier: Apache-2.0
"""Which nodes and arguments of a graph have a form on the wire."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..errors import ExportError
from ..v1 import graph_pb2
from .call_backs import DISGUISED, changed_by, leaves, producer_of
from .exporter import Exporter, acts, has_tensor, live_nodes
from .operators import RANK_OF_DATA, operator_of, rank_depends_on_data

# Quantised tensors are plain ones to torch's fake tensors. What makes them names one of these types
# or takes a quantised tensor, but for what makes plain tensors of those.
_QUANTISED = (torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4)
_UNQUANTISED = ("aten::dequantize", "aten::int_repr", "aten::q_per_channel_scales",
                "aten::q_per_channel_zero_points")  # fmt: skip


@dataclass(frozen=True)
class Forms:
    """live: nodes that an output or an effect needs. formless: why those of them that have no form
    on the wire have none. opaque_inputs: numbers of arguments without one."""

    live: set[fx.Node]
    formless: dict[fx.Node, str]
    opaque_inputs: frozenset[int]


def forms_of(module: fx.GraphModule) -> Forms:
    """Looks at every node of an AOTAutograd graph whose nodes carry fake values in meta["val"]."""
    return _Analysis(module).forms()


class _Analysis(Exporter):
    """An export that leaves everything out and keeps the reasons why it could not be said."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.changed: dict[fx.Node, str] = {}  # opaque, for a node without a form changes them
        self.formless: dict[fx.Node, str] = {}

    def forms(self) -> Forms:
        live = live_nodes(self.nodes)
        placeholders = [node for node in self.nodes if node.op == "placeholder"]
        kept = self.inputs_with_form(placeholders)
        self.number_symbols([node.meta.get("val") for node in kept])
        self.numbers.update(dict.fromkeys(kept, 0))
        for node in self.nodes:
            if node.op == "get_attr" and node in live and self.has_form(node):
                self.numbers[node] = 0
        self.changed = {
            value: f"{node.name} changes it"
            for node in live
            for value in changed_by(node)
            if value.op != "placeholder"
        }
        for node in self.nodes:
            if node in live and node.op not in ("placeholder", "get_attr", "output"):
                self.node = node
                if disguise := _disguise(node):
                    node.meta[DISGUISED] = disguise
                reason = self.changed.get(node) or self.obstacle(node)
                if reason:
                    self.formless[node] = reason
        opaque = frozenset(i for i, node in enumerate(placeholders) if node not in self.numbers)
        return Forms(live, self.formless, opaque)

    # -- inputs -------------------------------------------------------------------------------

    def inputs_with_form(self, placeholders: list[fx.Node]) -> list[fx.Node]:
        """Those that are plain, and whose sizes are made of symbols that are a plain one's size."""
        plain = [n for n in placeholders if self.is_plain(n.meta.get("val")) and self.is_said(n)]
        kept = [node for node in plain if DISGUISED not in node.meta]
        while True:
            bound = {
                size.node.expr
                for node in kept
                for size in _sizes(node.meta["val"])
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol
            }
            good = [n for n in kept if torch_compat.symbols_of([n.meta["val"]]) <= bound]
            if len(good) == len(kept):
                return good
            kept = good

    def is_plain(self, value: Any) -> bool:
        """True for a strided tensor or an integer, whatever its sizes."""
        if isinstance(value, bool) or not isinstance(value, (torch.Tensor, torch.SymInt, int)):
            return False
        try:
            if isinstance(value, torch.Tensor):
                self.check_plain(value, value.device)
        except ExportError:
            return False
        return True

    def is_said(self, node: fx.Node) -> bool:
        """Whether all of its sizes and strides are expressions with a form."""
        value = node.meta["val"]
        numbers = [value]
        if isinstance(value, torch.Tensor):
            numbers = [*value.shape, *value.stride(), value.storage_offset()]
        if all(isinstance(number, int) for number in numbers):
            return True
        trial = self.symbols.anew()
        for number in numbers:
            trial.add(number)
        try:
            for number in numbers:
                trial.convert(number)
        except ExportError:
            return False
        return True

    def has_form(self, attribute: fx.Node) -> bool:
        self.node = attribute
        try:
            self.meta(self.attribute(attribute))
        except ExportError:
            return False
        return True

    # -- nodes --------------------------------------------------------------------------------

    def obstacle(self, node: fx.Node) -> str:
        """Why a node has no form; "" where it has one, or vanishes into what reads it."""
        if node.target is operator.getitem:
            return ""
        value = node.meta.get("val")
        try:
            if not has_tensor(value) and not acts(node):
                for leaf in leaves(value):
                    if not isinstance(leaf, (int, torch.SymInt)) or isinstance(leaf, bool):
                        raise ExportError(f"its value is a {type(leaf).__name__}")
                    self.symbols.convert(leaf)
                return ""
            returns = operator_of(node)._schema.returns
            self.converter.call(node)
            if returns:
                self.results(node)
        except ExportError as error:
            return str(error)
        return ""

    def reference(self, node: fx.Node) -> graph_pb2.ValueRef:
        source = producer_of(node)
        if source in self.changed:
            raise ExportError(f"{source.name!r} has no form on the wire: {self.changed[source]}")
        if DISGUISED in source.meta:
            reason = source.meta[DISGUISED]
            raise ExportError(f"{source.name!r} {reason} and has no form on the wire")
        if source.op in ("placeholder", "get_attr") and source not in self.numbers:
            raise ExportError(f"{source.name!r} has no form on the wire")
        value = node.meta["val"]
        if source in self.formless:
            self.new_meta(value)  # a call-back's result may have a form
        return graph_pb2.ValueRef()


def _disguise(node: fx.Node) -> str:
    """Why a node's value is opaque though its fake value looks plain; "" for others."""
    if DISGUISED in node.meta:
        return str(node.meta[DISGUISED])
    if rank_depends_on_data(node):
        return RANK_OF_DATA
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name in _UNQUANTISED:
        return ""
    given = (*leaves(node.args), *node.kwargs.values())
    if any(argument in _QUANTISED for argument in given if isinstance(argument, torch.dtype)):
        return "is quantised"
    return next((n.meta[DISGUISED] for n in node.all_input_nodes if DISGUISED in n.meta), "")


def _sizes(value: Any) -> Iterator[Any]:
    yield from value.shape if isinstance(value, torch.Tensor) else (value,)
