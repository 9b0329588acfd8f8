# SPDX-License-Identifier: Apache-2.0
"""Waits for collectives stand where their results are used."""

from __future__ import annotations

import pytest
import torch
from tensord.passes.partitioned.late_waits import late_waits
from torch import fx

if not torch.distributed.is_available():
    pytest.skip("torch without collectives", allow_module_level=True)

_collectives = torch.ops._c10d_functional
_aten = torch.ops.aten


def order(graph: fx.Graph) -> list[str]:
    """The operators that are called."""
    return [node.target._opname for node in graph.nodes if node.op == "call_function"]


MORE = {
    "all_reduce": ("sum", "0"),
    "all_gather_into_tensor": (2, "0"),
    "reduce_scatter_tensor": ("sum", 2, "0"),
    "all_to_all_single": ([1, 1], [1, 1], "0"),
}


def graph_of(collective: str, *, writes: bool = False) -> fx.GraphModule:
    """A collective, its wait, two nodes beside them, and one that uses the result. writes: the
    second changes the collective's argument."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    op = getattr(_collectives, collective).default
    begun = graph.call_function(op, (x, *MORE[collective]))
    waited = graph.call_function(_collectives.wait_tensor.default, (begun,))
    beside = graph.call_function(_aten.sin.default, (x,))
    if writes:
        again = graph.call_function(_aten.copy_.default, (x, beside))
    else:
        again = graph.call_function(_aten.cos.default, (beside,))
    used = graph.call_function(_aten.neg.default, (waited,))
    graph.output((again, used))
    return fx.GraphModule({}, graph)


@pytest.mark.parametrize("collective", MORE)
def test_a_wait_stands_before_what_uses_it(collective: str) -> None:
    module = graph_of(collective)
    assert late_waits(module) == 1
    module.graph.lint()
    assert order(module.graph) == [collective, "sin", "cos", "wait_tensor", "neg"]
    assert late_waits(module) == 0


@pytest.mark.parametrize("collective", MORE)
def test_nothing_changes_what_a_collective_reads(collective: str) -> None:
    module = graph_of(collective, writes=True)
    assert late_waits(module) == 1
    module.graph.lint()
    copies = collective == "all_reduce"
    between = ["sin", "copy_", "wait_tensor"] if copies else ["sin", "wait_tensor", "copy_"]
    assert order(module.graph) == [collective, *between, "neg"]


def test_a_collective_that_nobody_knows_is_waited_for() -> None:
    graph = fx.Graph()
    begun = graph.call_function(_aten.sin.default, (graph.placeholder("x"),))
    waited = graph.call_function(_collectives.wait_tensor.default, (begun,))
    beside = graph.call_function(_aten.cos.default, (begun,))
    graph.output((beside, waited))
    assert late_waits(fx.GraphModule({}, graph)) == 0


def test_all_begin_before_any_is_waited_for() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    waits = []
    for _ in range(3):
        begun = graph.call_function(_collectives.all_reduce.default, (x, "sum", "0"))
        waits.append(graph.call_function(_collectives.wait_tensor.default, (begun,)))
    graph.output((graph.call_function(_aten.cat.default, (waits,)),))
    module = fx.GraphModule({}, graph)
    assert late_waits(module) == 2
    module.graph.lint()
    assert order(module.graph) == ["all_reduce"] * 3 + ["wait_tensor"] * 3 + ["cat"]
    assert late_waits(module) == 0
