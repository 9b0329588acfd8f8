# SPDX-License-Identifier: Apache-2.0
"""Cuts a graph where data decides a size, so that the program behind takes it as a symbol.

Nonzero, masks, unique, item(): how large a result is, or what an integer is, is known once the
operator has run. Such operators run in eager between the parts, all that can at once; a part behind
finds the sizes in its arguments, as any program finds its symbols.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..cut import Cut, cut_at, merged, picks, results_of, stretches
from ..wire.call_backs import leaves
from ..wire.exporter import live_nodes

# Beyond, a chain of sizes that each depend on the one before costs more than it gains.
_MOST_PARTS = 64


def cut(module: fx.GraphModule, static: Iterable[int]) -> Cut | None:
    """The parts of an AOTAutograd graph; None when data decides nothing within it.

    Adds nodes to `module` that name the new sizes, and changes nothing of what it computes.
    """
    results = results_of(module)
    if results is None or not any(_is_symbolic(n.meta.get("val")) for n in module.graph.nodes):
        return None
    live = live_nodes(module.graph.nodes)
    obstacles = _obstacles(module, live)
    if not obstacles:
        return None
    nodes = [
        n
        for n in module.graph.nodes
        if (n in live or n in obstacles) and n.op not in ("placeholder", "get_attr", "output")
    ]
    found = merged(stretches(nodes, obstacles), 1, "nothing to compute")
    if all(s.obstacle for s in found) or not 2 <= len(found) <= _MOST_PARTS:
        return None
    return cut_at(module, found, results, frozenset(static))


def _obstacles(module: fx.GraphModule, live: set[fx.Node]) -> dict[fx.Node, str]:
    """Why nodes run between the parts: they bring a size that data decides, or check one. Empty
    where nothing brings one."""
    known: set[Any] = set()
    found: dict[fx.Node, str] = {}
    for node in list(module.graph.nodes):
        if node.op != "placeholder" and node not in live:
            continue
        new = torch_compat.data_symbols_of(_sized(node.meta.get("val"))) - known
        if node.op != "placeholder" and new:
            found[node] = f"{torch_compat.target_name(node)}: data decides {_what(node)}"
            found.update(dict.fromkeys(_name_sizes(module, node, new), "a size"))
        known |= new
    if found:
        for node in live:
            if node.op == "call_function" and _is_of_numbers(node):
                found.setdefault(node, f"{torch_compat.target_name(node)}: a fact about numbers")
    return found


def _is_symbolic(value: Any) -> bool:
    """True for what is or has a symbolic size: most graphs have none, and this is all they pay."""
    if isinstance(value, torch.Tensor):
        return any(type(size) is not int for size in value.shape)
    if isinstance(value, (tuple, list)):
        return any(map(_is_symbolic, value))
    return isinstance(value, torch.SymInt)


def _sized(value: Any) -> list[Any]:
    """What of a value programs take as it is: tensors and integers."""
    return [leaf for leaf in leaves(value) if isinstance(leaf, (torch.Tensor, torch.SymInt))]


def _what(node: fx.Node) -> str:
    has_size = any(isinstance(leaf, torch.Tensor) for leaf in leaves(node.meta["val"]))
    return "the size of its result" if has_size else "the integer"


def _name_sizes(module: fx.GraphModule, node: fx.Node, new: set[Any]) -> list[fx.Node]:
    """Makes nodes whose values are the new symbols, from the sizes of the node's results."""
    added: list[fx.Node] = []
    value = node.meta["val"]
    for source, tensor in _results(node, value):
        for dim, size in enumerate(tensor.shape):
            if torch_compat.is_symbol(size, new):
                new = new - {size.node.expr}
                with module.graph.inserting_after(added[-1] if added else source):
                    name = module.graph.call_function(torch.ops.aten.sym_size.int, (source, dim))
                name.meta["val"] = size
                added.append(name)
    return added


def _results(node: fx.Node, value: Any) -> list[tuple[fx.Node, torch.Tensor]]:
    """The tensors among a node's results, and the node that is each."""
    if isinstance(value, torch.Tensor):
        return [(node, value)]
    picked = [user for user in node.users if isinstance(user.meta.get("val"), torch.Tensor)]
    return [(user, user.meta["val"]) for user in picked if picks(user)]


def _is_of_numbers(node: fx.Node) -> bool:
    """True for comparisons of sizes and assertions about them, which torch alone can say."""
    value = node.meta.get("val")
    of: Sequence[Any] = [source.meta.get("val") for source in node.all_input_nodes]
    if any(isinstance(leaf, torch.Tensor) for item in (*of, value) for leaf in leaves(item)):
        return False
    return value is None or isinstance(value, (bool, torch.SymBool))
