# SPDX-License-Identifier: Apache-2.0
"""Keys and values repeated for groups of queries' heads go into attention unrepeated.

The fused kernels take grouped heads as they are (enable_gqa), which saves writing and reading each
key and value several times.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from . import dynamo


def grouped_query_attention(module: fx.GraphModule) -> int:
    """Rewrites scaled_dot_product_attention(q, repeat(k), repeat(v)) without a mask.

    With one, torch's kernels that take grouped heads may refuse, and its own expansion is slower.
    """
    count = 0
    for node in ungrouped_attentions(module.graph):
        if dynamo.argument(node, "attn_mask") is not None:
            continue
        repeated = {name: dynamo.argument(node, name) for name in ("key", "value")}
        key, value = map(_unrepeated, repeated.values())
        if key is None or value is None or key[1] != value[1] or key[1] <= 1:
            continue
        dynamo.set_argument(node, "key", key[0])
        dynamo.set_argument(node, "value", value[0])
        node.update_kwarg("enable_gqa", True)
        for old in repeated.values():
            _erase(module.graph, old)
        count += 1
    return count


def ungrouped_attentions(graph: fx.Graph) -> list[fx.Node]:
    """Calls of scaled_dot_product_attention that say nothing of groups of heads."""
    return [
        node
        for node in graph.nodes
        if dynamo.name_of(node) == "scaled_dot_product_attention"
        and len(node.args) <= 6
        and node.kwargs.get("enable_gqa", False) is False
    ]


def _erase(graph: fx.Graph, node: Any) -> None:
    """Erases the repetition where nothing else uses it."""
    known = ("reshape", "expand", "getitem", "unsqueeze", "repeat_interleave", "contiguous")
    while isinstance(node, fx.Node) and not node.users and dynamo.name_of(node) in known:
        source = node.args[0]
        graph.erase_node(node)
        node = source


def _unrepeated(node: Any) -> tuple[fx.Node, int] | None:
    """The (batch, heads, time, width) tensor behind a repetition of its heads, and how often."""
    sizes = dynamo.sizes_of(node)
    if sizes is None or len(sizes) != 4:
        return None
    if dynamo.name_of(node) == "contiguous":
        return _unrepeated(node.args[0])
    if dynamo.name_of(node) == "repeat_interleave":
        base: Any = node.args[0]
        times, dim = (dynamo.argument(node, name) for name in ("repeats", "dim"))
        if not isinstance(times, int) or dim not in (1, -3) or dynamo.sizes_of(base) is None:
            return None
        return base, times
    if dynamo.name_of(node) != "reshape":
        return None
    wide: Any = node.args[0]
    inner: Any = wide.args[0] if dynamo.name_of(wide) == "expand" else None
    base = inner.args[0] if dynamo.name_of(inner) in ("getitem", "unsqueeze") else None
    wide_sizes, inner_sizes, base_sizes = map(dynamo.sizes_of, (wide, inner, base))
    if wide_sizes is None or inner_sizes is None or base_sizes is None:
        return None
    batch, heads, *rest = base_sizes
    if len(base_sizes) != 4 or len(wide_sizes) != 5 or not _inserts_third(inner):
        return None
    times = wide_sizes[2]
    if not isinstance(times, int) or not isinstance(heads, int):
        return None
    if inner_sizes != [batch, heads, 1, *rest] or wide_sizes != [batch, heads, times, *rest]:
        return None
    return (base, times) if sizes == [batch, heads * times, *rest] else None


def _inserts_third(node: fx.Node) -> bool:
    """x[:, :, None] or x.unsqueeze(2)."""
    if dynamo.name_of(node) == "unsqueeze":
        return dynamo.argument(node, "dim") in (2, -3)
    index = node.args[1]
    if not isinstance(index, tuple) or len(index) < 3 or index[2] is not None:
        return False
    everything = slice(None, None, None)
    return all(i == 2 or item in (everything, Ellipsis) for i, item in enumerate(index)) and (
        index[0] == everything and index[1] == everything
    )
