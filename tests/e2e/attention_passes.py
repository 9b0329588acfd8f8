# SPDX-License-Identifier: Apache-2.0
"""The passes over attention, told to take all that they recognise, before eager runs the graph."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from tensord.passes.captured import (
    attention,
    attention_masks,
    dynamo,
    grouped_query_attention,
    mask_layouts,
    shared_heads,
)
from torch import Tensor, fx

B, H, T, D = 2, 4, 8, 16


class Passes:
    """A backend of Dynamo that runs the passes and then the graph in eager.

    methods: with operators as calls of methods (x.__eq__(y)), as torch 2.11 has some of them.
    """

    def __init__(self, methods: bool = False) -> None:
        self.counts: Counter[str] = Counter()
        self.graphs: list[fx.GraphModule] = []
        self.methods = methods

    def __call__(self, module: fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        if self.methods:
            self.counts["methods"] += _operators_as_methods(module.graph)
        self.counts["attention"] += attention.attention(module, lambda match, autocast: True)
        self.counts["masks"] += attention_masks.attention_masks(module)
        self.counts["layouts"] += mask_layouts.mask_layouts(module)
        self.counts["heads"] += grouped_query_attention.grouped_query_attention(module)
        self.counts["shared"] += shared_heads.shared_heads(module)
        module.graph.lint()
        module.recompile()
        self.graphs.append(module)
        return module.forward

    def calls(self) -> list[fx.Node]:
        """All calls of scaled_dot_product_attention."""
        nodes = [node for graph in self.graphs for node in graph.graph.nodes]
        return [n for n in nodes if dynamo.name_of(n) == "scaled_dot_product_attention"]


def _operators_as_methods(graph: fx.Graph) -> int:
    count = 0
    for node in graph.nodes:
        name = getattr(node.target, "__name__", "")
        of_operator = getattr(operator, name, None) is node.target
        if node.op == "call_function" and of_operator and node.args[0] in node.all_input_nodes:
            node.op, node.target = "call_method", f"__{name.strip('_')}__"
            count += 1
    return count


def random_inputs(dtype: torch.dtype, shape: tuple[int, ...] = (B, H, T, D)) -> list[Tensor]:
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for _ in range(3)]


def results_of(function: Any, inputs: list[Tensor]) -> list[Tensor]:
    leaves = [x.detach().clone().requires_grad_(x.requires_grad) for x in inputs]
    out = function(*leaves)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    (out * weight).sum().backward()
    return [out.detach(), *(x.grad for x in leaves if x.requires_grad)]


def run(function: Any, inputs: list[Tensor], methods: bool = False) -> Passes:
    """Compares results and gradients with eager."""
    torch._dynamo.reset()
    passes = Passes(methods)
    compiled = torch.compile(function, backend=passes, fullgraph=True, dynamic=False)
    tolerance = 1e-4 if inputs[0].dtype == torch.float32 else 1e-10
    for ours, eager in zip(results_of(compiled, inputs), results_of(function, inputs), strict=True):
        torch.testing.assert_close(ours, eager, rtol=tolerance, atol=tolerance)
    return passes
