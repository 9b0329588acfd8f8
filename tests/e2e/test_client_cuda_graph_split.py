# SPDX-License-Identifier: Apache-2.0
"""Graphs cut at what no CUDA graph can hold (cuda_graphs/split.py); needs no GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from tensord import options
from tensord.bridge.compiled_graph import eager
from tensord.capture import compile_graph
from tensord.cuda_graphs import graphed_program, split
from tensord.cuda_graphs.plan import plan_of
from tensord.cut import Cut
from tensord.wire import export
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


def traced(
    function: Callable[..., Any], *shapes: tuple[str, tuple[int, ...]]
) -> torch.fx.GraphModule:
    """A graph of fake tensors, each given by its device and sizes."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty(sizes, device=device) for device, sizes in shapes]
        return make_fx(function)(*inputs)


def _long(x: Tensor) -> Tensor:
    return (x.sin() * 2 + 1).exp().tanh()


def _check(module: torch.fx.GraphModule, parts: list[bool], *inputs: Tensor) -> Cut:
    """parts: which ones can be captured. Runs them on the CPU, against the whole module."""
    cut = split.cut(module, {0})
    assert cut is not None
    assert [not part.obstacle for part in cut.parts] == parts
    for part in cut.parts:
        if not part.obstacle:
            assert not plan_of(part.module, part.static).obstacle
    run = cut.callable([eager(part.module) for part in cut.parts])
    mine, theirs = ([x.clone() for x in inputs] for _ in range(2))
    arguments = list(mine)
    results = run(arguments)
    assert arguments == []
    expected = module(*theirs)
    torch.testing.assert_close(tuple(results), tuple(expected))
    torch.testing.assert_close(mine, theirs)  # what it writes into
    return cut


def test_a_result_on_the_cpu() -> None:
    module = traced(lambda x: (_long(x), x.sum().cpu()), ("cuda", (4,)))
    cut = _check(module, [True, False], torch.randn(4))
    assert cut.parts[0].static == {0}


def test_a_number_on_the_cpu_in_the_middle() -> None:
    def function(x: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
        y = _long(x)
        return _long(y * rate), y

    module = traced(function, ("cuda", (4,)), ("cpu", ()))
    cut = _check(module, [True, False, True], torch.randn(4), torch.tensor(0.5))
    # What no later part takes is dropped early, but for results.
    assert cut.parts[1].last == {1}


def test_few_parts_however_they_are_mixed() -> None:
    """Everything that can runs before the first obstacle."""

    def function(x: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        a = x * rate
        b = _long(x)
        c = a * rate
        return c, b.cos()

    module = traced(function, ("cuda", (4,)), ("cpu", ()))
    _check(module, [False, True], torch.randn(4), torch.tensor(0.5))


def test_writes_come_after_reads() -> None:
    def function(x: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        y = _long(x)
        z = x * rate  # reads x before it is written to
        torch.ops.aten.copy_.default(x, y + z)
        return y, None, 7

    module = traced(function, ("cuda", (4,)), ("cpu", ()))
    cut = split.cut(module, {0})
    assert cut is not None
    _check(module, [False, True], torch.randn(4), torch.tensor(0.5))


def test_several_results_of_one_operator_stay_together() -> None:
    def function(x: Tensor, rate: Tensor) -> tuple[Tensor, ...]:
        values, indices = torch.ops.aten.topk.default(_long(x), 2)
        return values * rate, indices

    module = traced(function, ("cuda", (4,)), ("cpu", ()))
    _check(module, [True, False], torch.randn(4), torch.tensor(0.5))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, rate: (x * rate,),  # nothing left to capture
        lambda x, rate: ((x + 1) * rate + 1,),  # too little
        lambda x, rate: (_long(x),),  # nothing in the way
    ],
)
def test_graphs_that_stay_whole(function: Callable[..., Any]) -> None:
    module = traced(function, ("cuda", (4,)), ("cpu", ()))
    assert split.cut(module, ()) is None


def test_the_backend_asks_for_each_part(monkeypatch: pytest.MonkeyPatch) -> None:
    tensord.reset_stats()
    graphed_program._said.clear()
    sent = []

    def send(module: Any, exported: Any, chosen: Any, label: str, plan: Any) -> Any:
        sent.append((label, plan))
        return eager(module)

    monkeypatch.setattr(compile_graph, "_send", send)
    module = traced(lambda x: (_long(x), x.sum().cpu()), ("cuda", (4,)))
    chosen = options.Options(mode="reduce-overhead")
    run = compile_graph.compile_graph(module, fixed=set(), chosen=chosen, label="inference")
    assert [label for label, _ in sent] == ["inference, part 1", "inference, part 2"]
    assert sent[0][1] is not None and sent[1][1] is None
    x = torch.randn(4)
    torch.testing.assert_close(tuple(run([x])), (_long(x), x.sum()))
    stats = tensord.stats()
    assert stats["cuda_graph_cuts"] == 1
    assert any("CPU" in reason for reason in stats["cuda_graph_reasons"])
    # In the default mode the graph stays whole.
    compile_graph.compile_graph(module, fixed=set(), chosen=options.Options(), label="inference")
    assert sent[-1] == ("inference", None) and len(sent) == 3


def test_symbols_reach_every_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part whose tensors have sizes like 2 n takes n too, which the graph has as an argument."""
    name = "relu"
    monkeypatch.setattr(
        split, "obstacle", lambda node: "told" if node.name.startswith(name) else ""
    )

    def function(n: int, x: Tensor) -> tuple[Tensor, ...]:
        y = torch.cat([_long(x), x[: n // 2]]).relu()
        return _long(y) + n, y

    module = make_fx(function, tracing_mode="symbolic")(6, torch.randn(6))
    cut = split.cut(module, ())
    assert cut is not None and [not part.obstacle for part in cut.parts] == [True, False, True]
    for part in cut.parts:
        exported = export.export(part.module)
        assert exported.graph.nodes
    run = cut.callable([eager(part.module) for part in cut.parts])
    for n in (6, 10):
        x = torch.randn(n)
        torch.testing.assert_close(tuple(run([n, x])), function(n, x))
