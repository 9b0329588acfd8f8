# SPDX-License-Identifier: Apache-2.0
"""Values of nodes that depend on no input: arange, comparisons of it, tril and the like."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from ... import torch_compat
from . import dynamo

# Larger tensors are not made just to look at them.
MAX_BYTES = 1 << 28

_MAKERS = frozenset("arange ones zeros full eye linspace tensor scalar_tensor".split())
_FUNCTIONS = frozenset(
    """
add sub mul truediv floordiv mod neg abs sign log exp sqrt pow
lt le gt ge eq ne and_ or_ xor invert logical_and logical_or logical_not logical_xor
bitwise_and bitwise_or bitwise_not
min max minimum maximum clamp where masked_fill tril triu cumsum diff
ones_like zeros_like full_like new_ones new_zeros new_full
getitem unsqueeze squeeze reshape transpose permute flatten expand expand_as cat stack flip
repeat tile repeat_interleave broadcast_to
to bool long int float half bfloat16 type_as contiguous clone
""".split()
)


class Constants:
    """Evaluates nodes of one graph on the CPU, each once."""

    def __init__(self, graph: fx.Graph) -> None:
        self._written = dynamo.changed_in_place(graph)
        self._values: dict[fx.Node, torch.Tensor | None] = {}

    def value(self, node: Any) -> torch.Tensor | None:
        """The node's value, or None where it depends on an input, changes or is too large."""
        if not isinstance(node, fx.Node):
            return None
        if node not in self._values:
            self._values[node] = None  # also for what fails below
            if self._may_be_known(node):
                self._values[node] = self._computed(node)
        return self._values[node]

    def is_written(self, node: fx.Node) -> bool:
        """True when something may write into the node's memory."""
        return node in self._written

    def _may_be_known(self, node: fx.Node) -> bool:
        like, name = dynamo.tensor_of(node), dynamo.name_of(node)
        if like is None or node in self._written or name not in _MAKERS | _FUNCTIONS:
            return False
        if not all(isinstance(size, int) for size in like.shape):
            return False
        if like.numel() * like.element_size() > MAX_BYTES:
            return False
        inputs = node.all_input_nodes
        return bool(inputs) != (name in _MAKERS) and all(self.value(n) is not None for n in inputs)

    def _computed(self, node: fx.Node) -> torch.Tensor | None:
        args, kwargs = fx.node.map_arg((node.args, node.kwargs), self.value)
        args, kwargs = _on_cpu(args), _on_cpu(kwargs)
        if dynamo.name_of(node) in _MAKERS:
            kwargs = {**kwargs, "device": torch.device("cpu")}
        target: Any = node.target
        try:
            with torch_compat.without_modes(), torch.no_grad():
                if node.op == "call_method":
                    result = getattr(args[0], target)(*args[1:], **kwargs)
                else:
                    result = target(*args, **kwargs)
        except dynamo.REFUSALS:  # whatever it needs, it is no constant then
            return None
        like = dynamo.tensor_of(node)
        if not isinstance(result, torch.Tensor) or like is None:
            return None
        same = result.dtype == like.dtype and tuple(result.shape) == tuple(like.shape)
        return result if same else None


def _on_cpu(value: Any) -> Any:
    """Devices among arguments become the CPU."""
    if isinstance(value, torch.device):
        return torch.device("cpu")
    if isinstance(value, str) and value.split(":")[0] == "cuda":
        return "cpu"
    if isinstance(value, (tuple, list)):
        return type(value)(_on_cpu(item) for item in value)
    if isinstance(value, dict):
        return {name: _on_cpu(item) for name, item in value.items()}
    return value


def erase_unused(graph: fx.Graph, node: Any) -> None:
    """Erases a constant that nothing uses any more, and what only it used."""
    if not isinstance(node, fx.Node) or node.users:
        return
    if dynamo.name_of(node) in _MAKERS | _FUNCTIONS:
        inputs = node.all_input_nodes
        graph.erase_node(node)
        for source in inputs:
            erase_unused(graph, source)
