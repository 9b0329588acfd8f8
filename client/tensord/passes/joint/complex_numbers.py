# SPDX-License-Identifier: Apache-2.0
"""Complex numbers as plain tensors: conjugates without torch's conjugate bit, and Python's numbers
as tensors without dimensions."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..insertion import fake_mode_of, inherited_meta, insert_call

_aten = torch.ops.aten
# The operators that set torch's bits, and what computes the same.
_PHYSICAL = {
    _aten._conj.default: _aten._conj_physical.default,
    _aten._neg_view.default: _aten.neg.default,
}
# Operators of numbers, and those that take a tensor in the number's place.
_OF_TENSORS = {
    _aten.add.Scalar: _aten.add.Tensor,
    _aten.sub.Scalar: _aten.sub.Tensor,
    _aten.rsub.Scalar: _aten.rsub.Tensor,
    _aten.mul.Scalar: _aten.mul.Tensor,
    _aten.div.Scalar: _aten.div.Tensor,
    _aten.eq.Scalar: _aten.eq.Tensor,
    _aten.ne.Scalar: _aten.ne.Tensor,
    _aten.fill.Scalar: _aten.fill.Tensor,
    _aten.masked_fill.Scalar: _aten.masked_fill.Tensor,
    _aten.where.Scalar: _aten.where.self,
    _aten.where.ScalarSelf: _aten.where.self,
    _aten.where.ScalarOther: _aten.where.self,
}  # fmt: skip
_FILLED = (_aten.full.default, _aten.full_like.default, _aten.new_full.default)


def complex_numbers(module: fx.GraphModule) -> int:
    """Computes what is conjugated or negated by a bit, but for results of the graph, and makes
    tensors of complex numbers. Gives how often it did either."""
    graph = module.graph
    fake_mode = fake_mode_of(graph)
    if fake_mode is None:
        return 0
    return _without_bits(graph, fake_mode) + _without_numbers(graph, fake_mode)


# -- bits ---------------------------------------------------------------------------------------


def _has_bit(node: fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())


def _without_bits(graph: fx.Graph, fake_mode: Any) -> int:
    plain: dict[fx.Node, fx.Node] = {}  # the same values, of a node with bits
    count = 0
    for node in list(graph.nodes):
        if node.op == "output":
            continue
        if node.op != "call_function" or not node.all_input_nodes:
            continue
        physical = _PHYSICAL.get(node.target)
        if physical is None and not any(source in plain for source in node.all_input_nodes):
            continue
        if physical is not None and not isinstance(node.args[0], fx.Node):
            continue
        if _has_bit(node) or physical is not None:
            with graph.inserting_before(node):
                arguments, keywords = fx.map_arg(
                    (node.args, node.kwargs), lambda n: plain.get(n, n)
                )
                plain[node] = insert_call(
                    graph, fake_mode, inherited_meta(node), physical or node.target,
                    *arguments, **keywords,
                )  # fmt: skip
            count += physical is not None
            if not _has_bit(node):
                node.replace_all_uses_with(plain[node])
        else:
            for source in node.all_input_nodes:
                if source in plain:
                    node.replace_input_with(source, plain[source])
    for node in reversed(list(plain)):
        if not node.users:
            graph.erase_node(node)
    return count


# -- numbers ------------------------------------------------------------------------------------


def _without_numbers(graph: fx.Graph, fake_mode: Any) -> int:
    count = 0
    for node in list(graph.nodes):
        if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
            continue
        given = [*node.args, *node.kwargs.values()]
        if not any(isinstance(value, complex) for value in given):
            continue
        with graph.inserting_before(node):
            count += _Numbers(graph, fake_mode, node).replace()
    return count


class _Numbers:
    """The complex numbers among the arguments of one node."""

    def __init__(self, graph: fx.Graph, fake_mode: Any, node: fx.Node) -> None:
        self.graph, self.fake_mode, self.node = graph, fake_mode, node

    def call(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return insert_call(
            self.graph, self.fake_mode, inherited_meta(self.node), op, *args, **kwargs
        )

    def tensor(self, number: Any) -> Any:
        """The number as a tensor of the node's type; what is no complex number stays."""
        if not isinstance(number, complex):
            return number
        sources = [self.node, *self.node.all_input_nodes]
        values = [s.meta["val"] for s in sources if isinstance(s.meta.get("val"), torch.Tensor)]
        wide = any(v.dtype in (torch.float64, torch.complex128) for v in values)
        part = torch.float64 if wide else torch.float32
        device = values[0].device
        parts = [
            self.call(_aten.full.default, [], x, dtype=part, device=device)
            for x in (number.real, number.imag)
        ]
        return self.call(_aten.complex.default, *parts)

    def become(self, made: fx.Node) -> bool:
        self.node.replace_all_uses_with(made)
        self.graph.erase_node(self.node)
        return True

    def replace(self) -> bool:
        """False where the node has no form without the number."""
        node = self.node
        op: Any = node.target
        if op in _PHYSICAL and isinstance(node.args[0], complex):
            return self.become(self.tensor(node.args[0].conjugate()))
        if op is _aten.scalar_tensor.default:
            return self.become(self.tensor(node.args[0]))
        if op in _FILLED:
            return self._fill()
        schema = op._schema.arguments
        takes_tensor = [str(parameter.real_type) == "Tensor" for parameter in schema]
        numbers = [i for i, value in enumerate(node.args) if isinstance(value, complex)]
        if any(isinstance(value, complex) for value in node.kwargs.values()):
            return False
        other = _OF_TENSORS.get(op)
        if other is None and not all(takes_tensor[i] for i in numbers):
            return False
        args = list(map(self.tensor, node.args))
        if other is not None:
            by_position = [p for p in other._schema.arguments if not p.kwarg_only]
            if len(args) > len(by_position):
                return False
            args = [self._number_tensor(a, p) for a, p in zip(args, by_position, strict=False)]
        node.args = tuple(args)
        node.target = other or op
        return True

    def _number_tensor(self, value: Any, parameter: Any) -> Any:
        """A real number where a tensor is wanted."""
        if isinstance(value, fx.Node) or str(parameter.real_type) != "Tensor":
            return value
        return self.tensor(complex(value))

    def _fill(self) -> bool:
        node = self.node
        value = node.meta["val"]
        numbers = [v for v in (*node.args, *node.kwargs.values()) if isinstance(v, complex)]
        if not value.is_complex() or len(numbers) != 1:
            return False
        arguments = [0 if isinstance(v, complex) else v for v in node.args]
        keywords = {k: 0 if isinstance(v, complex) else v for k, v in node.kwargs.items()}
        zeros = self.call(node.target, *arguments, **{**keywords, "dtype": value.dtype})
        return self.become(self.call(_aten.fill.Tensor, zeros, self.tensor(numbers[0])))
