# SPDX-License-Identifier: Apache-2.0
"""Views by strides and offset (`as_strided`) of what the graph itself computes.

They count from the start of their argument's memory, wherever in it the argument begins: of a slice
they may show what lies before it. A compiled program has no memory for what fuses, or one of the
slice alone. So they become views of the value that the slice is a part of, which begins where its
memory does; and so is it with writes to such a view (`as_strided_scatter`).

A copy into which a part is written (`select_scatter`) has in eager the memory of what is copied: it
begins where that does, at 0 to torch, so that what counts from there is moved; and it has what lies
in gaps between elements, which nobody else has, so that eager computes what may show them.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ... import torch_compat
from ...wire.call_backs import DISGUISED
from ...wire.operators import STRIDED_VIEWS
from ..insertion import (
    argument,
    arguments,
    fake_mode_of,
    inherited_meta,
    insert_call,
    memory_of,
)

_aten = torch.ops.aten
_SCATTER = _aten.as_strided_scatter.default
OPERATORS = (*STRIDED_VIEWS, _SCATTER)
_UNSAID = object()
_COPIES = (
    _SCATTER,
    _aten.slice_scatter.default,
    _aten.select_scatter.default,
    _aten.diagonal_scatter.default,
)


def strided_bases(module: fx.GraphModule) -> int:
    """Gives such views and writes the whole of their argument's memory instead, in place; how many
    of them."""
    graph, count = module.graph, 0
    mode = fake_mode_of(graph)
    for node in list(graph.nodes):
        if node.target not in OPERATORS or mode is None:
            continue
        part: fx.Node = arguments(node)[0]
        copies = _copies_of(part)
        base, offset = _whole_of(node, part) or part, _offset(node, part, copies)
        if offset is None:
            for one in (*copies, node):
                one.meta[DISGUISED] = "shows memory of an argument as eager's copies have it"
            continue
        if base is part and offset in (_UNSAID, argument(node, "storage_offset")):
            continue
        if offset is _UNSAID:
            offset = part.meta["val"].storage_offset()
            if not isinstance(offset, int):
                continue
        with graph.inserting_before(node):
            rewrite = _view if node.target in STRIDED_VIEWS else _write
            replaced = rewrite(graph, mode, node, base, offset)
        node.replace_all_uses_with(replaced)
        graph.erase_node(node)
        count += 1
    return count


def _view(graph: fx.Graph, mode: Any, node: fx.Node, base: fx.Node, offset: Any) -> fx.Node:
    layout = (argument(node, "size"), argument(node, "stride"), offset)
    inherited = inherited_meta(node)
    view = insert_call(graph, mode, inherited, node.target, base, *layout)
    whole, part = base.meta["val"], arguments(node)[0].meta["val"]
    if whole.is_conj() != part.is_conj():
        view = insert_call(graph, mode, inherited, _aten._conj.default, view)
    if whole.is_neg() != part.is_neg():
        view = insert_call(graph, mode, inherited, _aten._neg_view.default, view)
    return view


def _write(graph: fx.Graph, mode: Any, node: fx.Node, base: fx.Node, offset: Any) -> fx.Node:
    """Into a copy of all of the memory, of which the result is what the argument is of the base."""
    argument_node = arguments(node)[0]
    inherited = inherited_meta(node)
    rest = (argument(node, name) for name in ("src", "size", "stride"))
    whole = insert_call(graph, mode, inherited, _SCATTER, base, *rest, offset)
    if base is argument_node:
        return whole
    part = argument_node.meta["val"]
    layout = (list(part.shape), list(part.stride()), part.storage_offset())
    return insert_call(graph, mode, inherited, _aten.as_strided.default, whole, *layout)


def _whole_of(node: fx.Node, part: fx.Node) -> fx.Node | None:
    """What the graph computes and the node's argument is a part of; None where it is no part, or
    where that is an argument of the graph, whose memory a call knows."""
    base = _root_of(part)
    if base is part or base.op != "call_function":
        return None
    whole, value = base.meta["val"], part.meta["val"]
    begins = whole.storage_offset()
    if whole.dtype != value.dtype or not isinstance(begins, int) or begins != 0:
        return None
    if node.target in STRIDED_VIEWS:
        return base
    if torch_compat.share_memory(value.shape, value.stride()):
        return None  # eager writes into a copy in which they do not
    if (whole.is_conj(), whole.is_neg()) != (value.is_conj(), value.is_neg()):
        return None  # other numbers lie in memory
    # What this pass writes down itself: numbers, for symbols are nodes.
    layout = (*value.shape, *value.stride(), value.storage_offset())
    return base if all(isinstance(number, int) for number in layout) else None


def _root_of(node: fx.Node) -> fx.Node:
    """What a chain of views begins with."""
    while (source := _viewed(node)) is not None:
        node = source
    return node


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


def _copies_of(node: fx.Node) -> list[fx.Node]:
    """The copies of an argument, into which parts are written, that a tensor is a view of."""
    copies: list[fx.Node] = []
    while (root := _root_of(node)).target in _COPIES:
        copies.append(root)
        node = arguments(root)[0]
    return copies


def _offset(node: fx.Node, part: fx.Node, copies: list[fx.Node]) -> Any:
    """Where the view begins by torch's account of the argument's memory; _UNSAID for where the
    argument does. None where that is not known, or it may show what lies in gaps of what was
    copied."""
    given = argument(node, "storage_offset")
    if not copies:
        return _UNSAID if given is None else given
    if not torch_compat.is_known_dense(_root_of(arguments(copies[-1])[0]).meta["val"]):
        return None
    if given is None:
        return _UNSAID
    further = 0
    for copy in copies:
        begins = arguments(copy)[0].meta["val"].storage_offset()
        says = copy.meta["val"].storage_offset()
        if not isinstance(begins, int) or not isinstance(says, int):
            return None
        further += begins - says
    if further == 0:
        return given
    return given - further if isinstance(given, int) and given >= further else None
