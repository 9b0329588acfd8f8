# SPDX-License-Identifier: Apache-2.0
"""Views by strides and offset (`as_strided`) of what the graph itself computes.

They count from the start of their argument's memory, wherever in it the argument begins: of a slice
they may show what lies before it. A compiled program has no memory for what fuses, or one of the
slice alone. So they become views of the value that the slice is a part of, which begins where its
memory does; and so is it with writes to such a view (`as_strided_scatter`).
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ... import torch_compat
from ..insertion import (
    argument,
    arguments,
    fake_mode_of,
    inherited_meta,
    insert_call,
    memory_of,
)

_aten = torch.ops.aten
_VIEWS = (_aten.as_strided.default, _aten.as_strided_copy.default)
_SCATTER = _aten.as_strided_scatter.default
OPERATORS = (*_VIEWS, _SCATTER)


def strided_bases(module: fx.GraphModule) -> int:
    """Gives such views and writes the whole of their argument's memory instead, in place; how many
    of them."""
    graph, count = module.graph, 0
    mode = fake_mode_of(graph)
    for node in list(graph.nodes):
        base = _base_of(node)
        if base is None or mode is None:
            continue
        with graph.inserting_before(node):
            replaced = (_view if node.target in _VIEWS else _write)(graph, mode, node, base)
        node.replace_all_uses_with(replaced)
        graph.erase_node(node)
        count += 1
    return count


def _view(graph: fx.Graph, mode: Any, node: fx.Node, base: fx.Node) -> fx.Node:
    layout = (argument(node, "size"), argument(node, "stride"), _offset(node))
    inherited = inherited_meta(node)
    view = insert_call(graph, mode, inherited, node.target, base, *layout)
    whole, part = base.meta["val"], arguments(node)[0].meta["val"]
    if whole.is_conj() != part.is_conj():
        view = insert_call(graph, mode, inherited, _aten._conj.default, view)
    if whole.is_neg() != part.is_neg():
        view = insert_call(graph, mode, inherited, _aten._neg_view.default, view)
    return view


def _write(graph: fx.Graph, mode: Any, node: fx.Node, base: fx.Node) -> fx.Node:
    """Into a copy of all of the memory, of which the result is what the argument is of the base."""
    part = arguments(node)[0].meta["val"]
    inherited = inherited_meta(node)
    rest = (argument(node, name) for name in ("src", "size", "stride"))
    whole = insert_call(graph, mode, inherited, _SCATTER, base, *rest, _offset(node))
    layout = (list(part.shape), list(part.stride()), part.storage_offset())
    return insert_call(graph, mode, inherited, _VIEWS[0], whole, *layout)


def _base_of(node: fx.Node) -> fx.Node | None:
    """What the graph computes and the node's argument is a part of; None where it is no part, or
    where that is an argument of the graph, whose memory a call knows."""
    if node.target not in OPERATORS:
        return None
    part: fx.Node = arguments(node)[0]
    base = part
    while (source := _viewed(base)) is not None:
        base = source
    if base is part or base.op != "call_function":
        return None
    whole, value = base.meta["val"], part.meta["val"]
    if whole.dtype != value.dtype or not _is_zero(whole.storage_offset()):
        return None
    if node.target is _SCATTER:
        if torch_compat.share_memory(value.shape, value.stride()):
            return None  # eager writes into a copy in which they do not
        if (whole.is_conj(), whole.is_neg()) != (value.is_conj(), value.is_neg()):
            return None  # other numbers lie in memory
    if node.target in _VIEWS and argument(node, "storage_offset") is not None:
        return base
    # What this pass writes down itself: numbers, for symbols are nodes.
    layout = (_offset(node), *value.shape, *value.stride(), value.storage_offset())
    return base if all(isinstance(number, (int, fx.Node)) for number in layout) else None


def _viewed(node: fx.Node) -> fx.Node | None:
    """The tensor that a node shows as a view."""
    maker = node
    while maker.target is operator.getitem:  # one of several results
        maker = arguments(maker)[0]
    source = arguments(maker)[0] if arguments(maker) else None
    if maker.op != "call_function" or not isinstance(source, fx.Node):
        return None
    if not isinstance(source.meta.get("val"), torch.Tensor):
        return None
    memory = memory_of(source)
    return source if memory and memory == memory_of(node) else None


def _offset(node: fx.Node) -> Any:
    """Where the view begins: where it does not say, where the argument does."""
    given = argument(node, "storage_offset")
    return arguments(node)[0].meta["val"].storage_offset() if given is None else given


def _is_zero(offset: Any) -> bool:
    return isinstance(offset, int) and offset == 0
