# SPDX-License-Identifier: Apache-2.0
"""The graphs that Dynamo makes of a call, each with the arguments that it got."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .. import torch_compat
from .case import Case


def capture(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    dynamic: bool | None,
) -> list[Case]:
    """Calls a function once, with its graphs in eager, and records them in the order of their first
    calls. Raises what the function raises, and ValueError for arguments of a graph that are neither
    plain tensors nor numbers."""
    cases: list[Case] = []

    def recorder(module: fx.GraphModule, _: Any) -> Callable[..., Any]:
        kept = fx.GraphModule(module, copy.deepcopy(module.graph))
        recorded = False

        def run(*given: Any) -> Any:
            nonlocal recorded
            if not recorded:
                recorded = True
                cases.append(_case(kept, given, dynamic))
            return module(*given)

        return run

    torch._dynamo.reset()
    try:
        torch.compile(function, backend=recorder, dynamic=dynamic)(*args, **kwargs)
    finally:
        torch._dynamo.reset()
    return cases


def _case(module: fx.GraphModule, given: Sequence[Any], dynamic: bool | None) -> Case:
    copies = snapshot(given)
    graph = fx.Graph()
    values: dict[str, Any] = {}
    names: dict[fx.Node, fx.Node] = {}
    placeholders = module.graph.find_nodes(op="placeholder")
    for number, (node, value) in enumerate(zip(placeholders, copies, strict=True)):
        if not isinstance(value, (Tensor, int, float, bool)) or type(value) not in (
            Tensor, torch.nn.Parameter, int, float, bool
        ):  # fmt: skip
            raise ValueError(
                f"the argument {node.name} of a graph is a {type(value).__name__}: "
                "only plain tensors and numbers can be written as a script"
            )
        names[node] = graph.placeholder(f"a{number}")
        values[f"a{number}"] = value
    count = 0
    for node in module.graph.nodes:
        if node.op == "placeholder":
            continue
        is_attribute = node.op == "get_attr"
        attribute = torch_compat.attribute_of(module, str(node.target)) if is_attribute else None
        if isinstance(attribute, Tensor):  # a constant: an argument too
            with graph.inserting_before(next(iter(graph.nodes))):
                names[node] = graph.placeholder(f"c{count}")
            values[f"c{count}"] = snapshot([attribute])[0]
            count += 1
            continue
        names[node] = graph.node_copy(node, names.__getitem__)
    for number, node in enumerate(graph.nodes):
        node.type = None
        if node.op not in ("placeholder", "output", "get_attr"):
            node._rename(f"v{number}")
    return Case(fx.GraphModule(module, graph), values, dynamic)


def snapshot(values: Sequence[Any]) -> list[Any]:
    """Copies of tensors, which share memory as they did and lie in it as they did."""
    storages: dict[int, torch.UntypedStorage] = {}
    found: list[Any] = []
    for value in values:
        if not isinstance(value, Tensor) or value.layout is not torch.strided:
            found.append(value)
            continue
        old = value.untyped_storage()
        new = storages.setdefault(old._cdata, old.clone())
        empty = torch.empty(0, dtype=value.dtype, device=value.device)
        made = empty.set_(new, value.storage_offset(), value.shape, value.stride())
        found.append(made.requires_grad_(value.requires_grad))
    return found
