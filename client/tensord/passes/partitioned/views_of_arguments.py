# SPDX-License-Identifier: Apache-2.0
"""Results that are views of arguments which the graph changes, as views of the arguments.

In the graph such a result is a view of the argument's new value, which may lie otherwise than the
argument. AOTAutograd never shows it: it makes the view anew of the argument, with symbolic sizes by
the result's sizes, strides and offset. As a view of the argument it has those of eager, and nothing
is computed for it.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ... import torch_compat
from ..insertion import arguments, fake_mode_of, inherited_meta, insert_call

_aten = torch.ops.aten


def views_of_arguments(module: fx.GraphModule) -> int:
    """Makes such results views of the arguments, in place; how many."""
    graph = module.graph
    known = torch_compat.results_of_forward()
    output = graph.output_node()
    results = arguments(output)[0]
    if not known.views or not isinstance(results, (list, tuple)):
        return 0
    placeholders = graph.find_nodes(op="placeholder")
    new_values = _new_values(graph)
    new_values.update({placeholders[a]: results[number] for number, a in known.values.items()})
    fake_mode = fake_mode_of(graph)
    changed = list(results)
    for number, argument in known.views.items():
        base, result = placeholders[argument], results[number]
        views = _views_between(new_values.get(base), result)
        if views:
            with graph.inserting_before(output):
                changed[number] = _viewed(graph, fake_mode, base, views)
    if changed == list(results):
        return 0
    output.args = (type(results)(changed),)
    return sum(new is not old for new, old in zip(changed, results, strict=True))


def _new_values(graph: fx.Graph) -> dict[fx.Node, fx.Node]:
    """What the graph itself copies into its arguments in the end."""
    copies = graph.find_nodes(op="call_function", target=_aten.copy_.default)
    pairs = [arguments(node)[:2] for node in copies]
    return {to: value for to, value in pairs if to.op == "placeholder"}


def _views_between(base: fx.Node | None, result: Any) -> list[fx.Node]:
    """The views that make the result of the base, in order; none where it is no view of it."""
    views: list[fx.Node] = []
    node = result
    while isinstance(node, fx.Node) and _is_view(node):
        views.insert(0, node)
        node = arguments(node)[0]
        if node is base:
            return views
    return []


def _is_view(node: fx.Node) -> bool:
    """True for views of the first argument, and for one of several."""
    if node.op != "call_function":
        return False
    if node.target is operator.getitem:
        return _is_view(arguments(node)[0])
    return isinstance(node.target, torch._ops.OpOverload) and torch_compat.gives_views(node.target)


def _viewed(graph: fx.Graph, fake_mode: Any, base: fx.Node, views: list[fx.Node]) -> fx.Node:
    """The views, of another base."""
    for view in views:
        rest = arguments(view)[1:]
        inherited = inherited_meta(view)
        base = insert_call(graph, fake_mode, inherited, view.target, base, *rest, **view.kwargs)
    return base
