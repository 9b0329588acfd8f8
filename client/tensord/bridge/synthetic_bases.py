# SPDX-License-Identifier: Apache-2.0
"""Bases that AOTAutograd makes of arguments that overlap.

Where arguments share memory, are changed, and no tensor is known of which they are views, a graph
takes one vector of the whole storage for them, and views it by `as_strided`. When it is traced,
that vector ends where the last view ends; a call's has all elements of the storage.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ..torch_compat import Boxed

_aten = torch.ops.aten
_USERS = (_aten.as_strided.default, _aten.as_strided_scatter.default, _aten.copy_.default)


def synthetic_bases(module: fx.GraphModule) -> dict[int, int]:
    """The numbers of arguments that are only viewed by `as_strided`, and how many elements the
    graph knows of."""
    found: dict[int, int] = {}
    for number, node in enumerate(module.graph.find_nodes(op="placeholder")):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and _is_base(node, value):
            found[number] = value.shape[0]
    return found


def _is_base(node: fx.Node, value: torch.Tensor) -> bool:
    if value.dim() != 1 or not isinstance(value.shape[0], int) or value.stride() != (1,):
        return False
    return bool(node.users) and all(user.target in _USERS for user in node.users)


def shortened(run: Boxed, bases: dict[int, int]) -> Boxed:
    """`run`, which gets so many elements of these arguments; other sizes are guarded by Dynamo."""

    def short(arguments: list[Any]) -> Any:
        for number, count in bases.items():
            if arguments[number].shape[0] > count:
                arguments[number] = arguments[number][:count]
        return run(arguments)

    return short
