# SPDX-License-Identifier: Apache-2.0
"""What is known of a program before it is captured as a CUDA graph (graphed_program.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..wire.call_backs import FORMLESS
from ..wire.exporter import CONSTANT_DEVICE, live_nodes

# Operators whose results depend on data, which the host must wait for.
_WAITING = ("aten::_local_scalar_dense", "aten::item", "aten::nonzero", "aten::masked_select",
            "aten::_unique2", "aten::unique_dim", "aten::equal", "aten::is_nonzero")  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What is known of a program before it runs.

    static: arguments that keep their address. written: arguments that the program writes into.
    keyed: arguments whose sizes or value may differ from call to call. unread: arguments that are
    handed through, if anything. obstacle: why it cannot be captured; "" when nothing is known
    against it. index: the device. reads_last: it is the last to read most of what other programs
    return, as backward is.
    """

    static: frozenset[int]
    written: frozenset[int]
    keyed: tuple[int, ...] = ()
    obstacle: str = ""
    index: int = 0
    unread: frozenset[int] = frozenset()
    reads_last: bool = False


def plan_of(
    module: fx.GraphModule, static: Iterable[int], index: int = 0, reads_last: bool = False
) -> Plan:
    """Reads an AOTAutograd graph whose nodes carry fake values in meta["val"]."""
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    number = {node: i for i, node in enumerate(placeholders)}
    needed = live_nodes(module.graph.nodes)
    nodes = [node for node in module.graph.nodes if node in needed]
    written = {
        number[node.args[0]]
        for node in nodes
        if node.target is torch.ops.aten.copy_.default and node.args[0] in number
    }
    unread = {
        i
        for node, i in number.items()
        if not any(user in needed and user.op != "output" for user in node.users)
    }
    returned = {source for node in nodes if node.op == "output" for source in node.all_input_nodes}
    return Plan(
        frozenset(static),
        frozenset(written),
        tuple(
            i
            for node, i in number.items()
            if _may_differ(node.meta.get("val")) and (i not in unread or node in returned)
        ),
        next(filter(None, map(obstacle, nodes)), ""),
        index,
        frozenset(unread),
        reads_last,
    )


def obstacle(node: fx.Node) -> str:
    """Why a node cannot be part of a CUDA graph; "" for one that can, as far as can be known."""
    if node.op in ("get_attr", "output"):
        return ""
    if FORMLESS in node.meta:
        return f"{node.name} runs in Python: {node.meta[FORMLESS]}"
    value = node.meta.get("val")
    if _on_cpu(value):
        return f"{node.name} is on the CPU"
    for source in node.all_input_nodes if node.op != "placeholder" else ():
        constant = source.op == "get_attr"
        # A number on the CPU that never changes is part of the program.
        if (
            _on_cpu(source.meta.get("val"), 1 if constant else 0)
            and CONSTANT_DEVICE not in source.meta
        ):
            return f"{source.name} is on the CPU"
    if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.name in _WAITING:
        return f"{torch_compat.operator_name(node.target)} waits for the GPU"
    if torch_compat.depends_on_data(value):
        return f"the size of {node.name} depends on data"
    return ""


def _on_cpu(value: Any, elements: int = 0) -> bool:
    """True for a value with a CPU tensor of more elements than `elements`, where that is not 0."""
    return any(
        leaf.device.type == "cpu" and (not elements or leaf.numel() > elements)
        for leaf in torch.utils._pytree.tree_leaves(value)
        if isinstance(leaf, torch.Tensor)
    )


def _may_differ(value: Any) -> bool:
    """True for arguments whose sizes, or that themselves, are not part of the graph."""
    if not isinstance(value, torch.Tensor):
        return True
    return any(isinstance(n, torch.SymInt) for n in (*value.shape, *value.stride()))
