# SPDX-License-Identifier: Apache-2.0
"""Backward without the gradients that do not come: what is compiled, and that any call is right."""

from __future__ import annotations

import concurrent.futures
import contextlib
import threading
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F
from tensord.fallback import TensordWarning
from tensord.passes.partitioned import absent_gradients
from torch import Tensor

ROWS, WIDTH, CLASSES = 6, 8, 11


def _classify(x: Tensor, weight: Tensor, labels: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    hidden = torch.tanh(x)
    logits = hidden @ weight
    return F.cross_entropy(logits.float(), labels), logits, hidden


def _arguments() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    x, weight = torch.randn(ROWS, WIDTH), torch.randn(WIDTH, CLASSES)
    return x.requires_grad_(), weight.requires_grad_(), torch.randint(0, CLASSES, (ROWS,))


Use = Callable[..., Tensor]
LOSS: Use = lambda loss, logits, hidden: loss  # noqa: E731
USES: dict[str, Use] = {
    "loss": LOSS,
    "loss and logits": lambda loss, logits, hidden: loss + logits.square().sum(),
    "logits": lambda loss, logits, hidden: logits.square().sum(),
    "hidden": lambda loss, logits, hidden: hidden.square().sum(),
    "all": lambda loss, logits, hidden: loss + logits.sum() + hidden.square().sum(),
}


def _gradients(function: Callable[..., Any], use: Use) -> list[Tensor]:
    x, weight, labels = _arguments()
    use(*function(x, weight, labels)).backward()
    # Eager leaves what is not reached without a gradient, AOTAutograd gives it zeros.
    return [torch.zeros_like(t) if t.grad is None else t.grad for t in (x, weight)]


def _compiled(**options: Any) -> Callable[..., Any]:
    return torch.compile(_classify, backend="tensord", dynamic=False, options=options)


def _expect(function: Callable[..., Any], use: Use) -> None:
    torch.testing.assert_close(_gradients(function, use), _gradients(_classify, use))


def test_backward_takes_the_gradient_of_the_loss_alone(daemon):
    _expect(_compiled(), LOSS)
    (backward,) = (r for r in daemon.requests if r.label == "backward")
    inputs = [i.name for i in backward.graph.inputs]
    assert [name for name in inputs if name.startswith("tangents")] == ["tangents_1"]
    assert not [node for node in backward.graph.nodes if node.op in ("aten::full", "aten::zeros")]
    assert tensord.stats()["gradients_absent"] == 2


@pytest.mark.parametrize("first", USES)
def test_any_gradient_may_come(tensord_daemon, first):
    function = _compiled()
    _expect(function, USES[first])
    for use in USES.values():
        _expect(function, use)
    assert tensord.stats()["graphs"] == 3  # forward, and both forms of backward


def test_another_program_is_compiled_only_for_gradients_that_come(tensord_daemon):
    function = _compiled()
    for _ in range(2):
        _expect(function, LOSS)
    assert tensord.stats()["graphs"] == 2
    _expect(function, USES["loss and logits"])
    assert tensord.stats()["graphs"] == 3


def test_autograd_makes_no_zeros(tensord_daemon):
    function = _compiled()
    made: list[tuple[int, ...]] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, op, types, args=(), kwargs=None):
            if "zeros" in str(op):
                made.append(tuple(args[0]))
            return op(*args, **(kwargs or {}))

    for wanted in ([], [(ROWS, WIDTH), (ROWS, CLASSES)]):
        loss, *_ = function(*_arguments())
        loss.backward()
        made.clear()
        loss, *_ = function(*_arguments())
        with Watch():
            loss.backward()
        assert sorted(made) == wanted
        torch._dynamo.reset()
        function = _compiled(absent_gradients=False)


@pytest.mark.parametrize("off", ["option", "variable"])
def test_switched_off(daemon, monkeypatch, off):
    if off == "variable":
        monkeypatch.setenv("TENSORD_ABSENT_GRADIENTS", "0")
    function = _compiled(**({"absent_gradients": False} if off == "option" else {}))
    _expect(function, LOSS)
    _expect(function, USES["all"])
    stats = tensord.stats()
    assert (stats["gradients_absent"], stats["graphs"]) == (0, 2)


def test_without_a_scalar_all_are_expected(daemon):
    function = torch.compile(lambda x: (x.sin(), x.cos()), backend="tensord", dynamic=False)
    x = torch.randn(4, requires_grad=True)
    function(x)[1].sum().backward()
    torch.testing.assert_close(x.grad, -x.detach().sin())
    assert tensord.stats()["gradients_absent"] == 0


def test_sizes_that_are_symbols_are_left_to_autograd(tensord_daemon):
    function = torch.compile(lambda x: (x.exp().sum(), x.sin()), backend="tensord", dynamic=True)
    for size in (5, 7):
        x = torch.randn(size, requires_grad=True)
        function(x)[0].backward()
        torch.testing.assert_close(x.grad, x.detach().exp())
    assert tensord.stats()["gradients_absent"] == 0


def test_a_result_of_another_graph_that_is_handed_through(tensord_daemon):
    """Its node is not of the graph that hands it out, and still gets its zeros."""
    producer = torch.compile(lambda x: (x.sin(), x.cos()), backend="tensord", dynamic=False)
    consumer = torch.compile(
        lambda a, b: (b, a.exp().sum(), a * b), backend="tensord", dynamic=False
    )
    for _ in range(2):
        x = torch.randn(4, requires_grad=True)
        a, b = producer(x)
        handed, loss, _ = consumer(a, b)
        assert handed.grad_fn is b.grad_fn
        loss.backward()
        torch.testing.assert_close(x.grad, x.detach().sin().exp() * x.detach().cos())


def test_backward_twice(tensord_daemon):
    function = _compiled()
    x, weight, labels = _arguments()
    loss, *_ = function(x, weight, labels)
    loss.backward(retain_graph=True)
    once = x.grad.clone()
    loss.backward()
    torch.testing.assert_close(x.grad, 2 * once)


@pytest.mark.parametrize("forward_too", [False, True])
def test_under_compiled_autograd(tensord_daemon, forward_too):
    function = _compiled()

    def enabled() -> Any:
        return torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager"))

    for name in ("loss", "all", "loss"):
        x, weight, labels = _arguments()
        with enabled() if forward_too else contextlib.nullcontext():
            results = USES[name](*function(x, weight, labels))
        with enabled():
            results.backward()
        torch.testing.assert_close([x.grad, weight.grad], _gradients(_classify, USES[name]))
        _expect(function, USES[name])  # and without


def test_subclasses_of_tensors_are_left_alone(daemon, monkeypatch):
    from torch.testing._internal.two_tensor import TwoTensor

    monkeypatch.setenv("TENSORD_STRICT", "0")
    function = torch.compile(lambda x: (x.exp().sum(), x.sin()), backend="tensord", dynamic=False)
    x = TwoTensor(torch.randn(3), torch.randn(3)).requires_grad_()
    with pytest.raises(RuntimeError, match="subclass"):  # of torch's, with any backend
        function(x)[0].backward()
    assert tensord.stats()["gradients_absent"] == 0


def test_threads_share_the_program_for_all_gradients(tensord_daemon):
    function = _compiled()
    _expect(function, LOSS)
    all_arguments = [_arguments() for _ in range(4)]
    begin = threading.Barrier(4)

    def run(arguments: tuple[Tensor, ...]) -> list[Tensor]:
        loss = USES["all"](*function(*arguments))
        begin.wait()
        loss.backward()
        return [arguments[0].grad, arguments[1].grad]

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        results = list(pool.map(run, all_arguments))
    for gradients in results:
        torch.testing.assert_close(gradients, _gradients(_classify, USES["all"]))
    assert tensord.stats()["graphs"] == 3


def test_a_pass_that_fails_leaves_the_whole_graph(daemon, monkeypatch):
    def fails(graph: Any, absent: Any) -> None:
        raise ValueError("no")

    monkeypatch.setattr(absent_gradients, "make_zeros", fails)
    monkeypatch.setenv("TENSORD_STRICT", "0")
    function = _compiled()
    with pytest.warns(TensordWarning, match="pass absent_gradients over the backward graph"):
        _expect(function, LOSS)
    _expect(function, USES["all"])
    stats = tensord.stats()
    assert (stats["gradients_absent"], stats["graphs"], stats["fallbacks"]) == (0, 2, 1)


def test_sums_of_zeros_go():
    def function(loss: Tensor, logits: Tensor, weight: Tensor) -> Tensor:
        return (loss * weight + logits.reshape(-1, CLASSES).to(weight.dtype)) @ weight.T

    from torch.fx.experimental.proxy_tensor import make_fx

    inputs = torch.randn(()), torch.randn(2, 3, CLASSES), torch.randn(6, CLASSES)
    module = make_fx(function, tracing_mode="fake")(*inputs)
    absent_gradients.make_zeros(module.graph, [1])
    module.graph.eliminate_dead_code()
    module.recompile()
    targets = {node.target for node in module.graph.nodes if node.op == "call_function"}
    assert targets.isdisjoint({torch.ops.aten.add.Tensor, torch.ops.aten.full.default})
    loss, _, weight = inputs
    torch.testing.assert_close(module(loss, None, weight), loss * weight @ weight.T)
