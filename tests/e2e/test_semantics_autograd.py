# SPDX-License-Identifier: Apache-2.0
"""Autograd as users steer it: checkpoints, functions of their own, hooks, modes; as in eager."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import pytest
import tensord.capture.autograd
import torch
import torch.nn.functional as F
from both_ways import both_ways, compiled
from torch import Tensor, fx, nn
from torch.utils.checkpoint import (
    CheckpointPolicy,
    checkpoint,
    create_selective_checkpoint_contexts,
)

pytestmark = pytest.mark.usefixtures("tensord_daemon")


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, fx.GraphModule]]:
    """The graphs that were compiled, by label; the last of each."""
    found: dict[str, fx.GraphModule] = {}
    send = tensord.capture.autograd.compile_graph

    def noting(module: fx.GraphModule, *, label: str, **rest: Any) -> Any:
        found[label] = module
        return send(module, label=label, **rest)

    monkeypatch.setattr(tensord.capture.autograd, "compile_graph", noting)
    yield found


def calls(graph: fx.GraphModule, operator: str) -> int:
    """How often a graph calls an operator, of any overload."""
    return sum(str(node.target).startswith(f"aten.{operator}.") for node in graph.graph.nodes)


# -- checkpoints ----------------------------------------------------------------------------------


class Block(nn.Module):
    """Two products, of which a policy may save one."""

    def __init__(self, checkpointed: Any) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 16), nn.Linear(16, 8)
        self.checkpointed = checkpointed

    def inner(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).tanh()).sin()

    def forward(self, x: Tensor) -> Tensor:
        return self.checkpointed(self.inner, x) * x.cos()


def _save_none(_context: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    return CheckpointPolicy.MUST_RECOMPUTE


def _save_products(_context: Any, op: Any, *_: Any, **__: Any) -> CheckpointPolicy:
    if op in (torch.ops.aten.mm.default, torch.ops.aten.addmm.default):
        return CheckpointPolicy.MUST_SAVE
    return CheckpointPolicy.PREFER_RECOMPUTE


def selective(policy: Any) -> Any:
    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    return functools.partial(checkpoint, use_reentrant=False, context_fn=contexts)


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint(reentrant: bool) -> None:
    torch.manual_seed(0)
    block = Block(functools.partial(checkpoint, use_reentrant=reentrant))
    x = torch.randn(5, 8, requires_grad=True)
    both_ways(block, x, calls=2, fullgraph=not reentrant)


def test_a_checkpoint_outside_of_what_is_compiled() -> None:
    torch.manual_seed(0)

    class Outside(nn.Module):
        def __init__(self, reentrant: bool) -> None:
            super().__init__()
            self.inner, self.reentrant = nn.Sequential(nn.Linear(8, 8), nn.GELU()), reentrant
            self.run = self.inner

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.run, x, use_reentrant=self.reentrant) * 2

    for reentrant in (False, True):
        x = torch.randn(5, 8, requires_grad=True)
        gradients = []
        model = Outside(reentrant)
        for run in (compiled(model.inner, fullgraph=True), model.inner):
            model.run = run
            x.grad = None
            model.zero_grad()
            model(x).square().sum().backward()
            gradients.append([x.grad, *(p.grad.clone() for p in model.inner.parameters())])
        for mine, eager in zip(*gradients, strict=True):
            torch.testing.assert_close(mine, eager)


def test_policies_decide_what_is_saved(graphs: dict[str, fx.GraphModule]) -> None:
    torch.manual_seed(0)
    x = torch.randn(5, 8, requires_grad=True)
    products = {}
    for policy in (_save_none, _save_products):
        torch._dynamo.reset()
        both_ways(Block(selective(policy)), x)
        backward = graphs["backward"]
        products[policy] = calls(backward, "mm") + calls(backward, "addmm")
    assert products[_save_products] == 4  # gradients alone
    assert products[_save_none] > products[_save_products]


def test_a_checkpoint_repeats_its_dropout() -> None:
    run = compiled(
        lambda x: checkpoint(lambda t: F.dropout(t * 1.0, 0.5), x, use_reentrant=False),
        fullgraph=True,
    )
    x = torch.ones(40, 50, requires_grad=True)
    y = run(x)
    y.sum().backward()
    assert torch.equal(x.grad, y.detach())
    assert 0.4 < (y == 0).double().mean() < 0.6


# -- functions with a backward of their own -------------------------------------------------------


class StraightThrough(torch.autograd.Function):
    """Rounds; its gradient is another function's."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.scale = scale
        return (x * scale).round() / scale

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        return gradient * (x.abs() < 1) * ctx.scale, None


class Split(torch.autograd.Function):
    """Several results, one of which has no gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        product, order = x * w, x.argsort()
        ctx.save_for_backward(x, w)
        ctx.mark_non_differentiable(order)
        return product, order, w.exp()

    @staticmethod
    def backward(ctx: Any, a: Tensor, _: Any, b: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, w = ctx.saved_tensors
        first = a * w * 3 if ctx.needs_input_grad[0] else None
        second = a * x + b if ctx.needs_input_grad[1] else None
        return first, second


class WithContext(torch.autograd.Function):
    """The newer form: the context apart from forward."""

    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x.sin()

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 10 * ctx.saved_tensors[0]


def test_gradients_of_ones_own() -> None:
    def function(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        product, order, other = Split.apply(StraightThrough.apply(x, 4.0), w)
        return product.tanh(), order, other * WithContext.apply(x)

    x, w = torch.randn(6) * 2, torch.randn(6)
    both_ways(function, x.clone().requires_grad_(), w.clone().requires_grad_())
    both_ways(function, x, w.clone().requires_grad_())
    both_ways(function, x, w)


# -- hooks ----------------------------------------------------------------------------------------


def test_hooks_of_tensors_inside() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sin()
        y.register_hook(lambda g: g * 3)
        z = y * y
        z.register_hook(lambda g: g.clamp(-1, 1))
        return z.exp()

    both_ways(function, torch.randn(4, 4, requires_grad=True))


def test_hooks_of_inputs_and_results() -> None:
    run = compiled(lambda x: x.sin() * 2, fullgraph=True)
    for forward in (run, lambda x: x.sin() * 2):
        order: list[str] = []
        x = torch.ones(3, requires_grad=True)
        x.register_hook(lambda g, order=order: order.append("input") or g * 2)
        x.register_post_accumulate_grad_hook(lambda t, order=order: order.append("accumulated"))
        y = forward(x)
        y.register_hook(lambda g, order=order: order.append("result") or g * 5)
        y.sum().backward()
        assert order == ["result", "input", "accumulated"]
        torch.testing.assert_close(x.grad, torch.full((3,), 20.0) * torch.ones(3).cos())


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(4, 6), nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.second(self.first(x).relu())


@pytest.mark.parametrize("name", ["forward_pre", "forward", "full_backward_pre", "full_backward"])
def test_hooks_of_modules(name: str) -> None:
    hooks = {
        "forward_pre": lambda module, args: (args[0] * 2,),
        "forward": lambda module, args, result: result.tanh() + args[0].sum(),
        "full_backward_pre": lambda module, gradients: (gradients[0] * 3,),
        "full_backward": lambda module, ins, outs: (ins[0] + outs[0].sum(),),
    }
    torch.manual_seed(0)
    model = Hooked()
    getattr(model.first, f"register_{name}_hook")(hooks[name])
    both_ways(model, torch.randn(5, 4, requires_grad=True), fullgraph=False)


@torch._dynamo.config.patch(skip_nnmodule_hook_guards=False)  # hooks are not guarded by default
def test_a_hook_that_comes_and_goes() -> None:
    torch.manual_seed(0)
    model = Hooked()
    run, x = compiled(model), torch.randn(5, 4)
    plain = run(x)
    handle = model.first.register_forward_hook(lambda module, args, result: result * 0)
    torch.testing.assert_close(run(x), model.second.bias.expand(5, 3))
    handle.remove()
    assert torch.equal(run(x), plain)


def test_hooks_of_saved_tensors() -> None:
    packed: list[torch.Size] = []

    def pack(x: Tensor) -> Tensor:
        packed.append(x.shape)
        return x * 1

    x = torch.randn(6, 6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
        y = compiled(lambda x: (x.sin() @ x).exp(), fullgraph=True)(x)
    y.sum().backward()
    mine, x.grad = x.grad, None
    (x.sin() @ x).exp().sum().backward()
    torch.testing.assert_close(mine, x.grad)
    assert packed


# -- modes ----------------------------------------------------------------------------------------


def modes_inside(x: Tensor, w: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        a = (x * w).sin()
        with torch.enable_grad():
            b = (a + w).cos()
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    c = w * 2
    torch.set_grad_enabled(before)
    with torch.set_grad_enabled(not before):
        d = w * 3
    return a, b, c, d, w * x


def test_gradients_on_and_off_inside() -> None:
    both_ways(modes_inside, torch.randn(4), torch.randn(4, requires_grad=True))


@torch.no_grad()
def decorated(x: Tensor, w: Tensor) -> Tensor:
    return (x * w).exp()


def inference_inside(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    with torch.inference_mode():
        y = (x * w).exp()
    return y, w * 2


@pytest.mark.parametrize("function", [decorated, inference_inside], ids=lambda f: f.__name__)
def test_no_gradients_inside(function: Any) -> None:
    both_ways(function, torch.randn(4), torch.randn(4, requires_grad=True), fullgraph=False)


def test_modes_outside_that_change_from_call_to_call() -> None:
    torch.manual_seed(0)
    model = Hooked()
    run = compiled(model)
    x = torch.randn(5, 4)
    modes = [torch.enable_grad, torch.no_grad, torch.inference_mode, torch.enable_grad]
    for mode in modes * 2:
        with mode():
            mine, eager = run(x), model(x)
        torch.testing.assert_close(mine, eager)
        assert mine.requires_grad == eager.requires_grad
        assert mine.is_inference() == eager.is_inference()
        if mine.requires_grad:
            gradients = [
                torch.autograd.grad(y.square().sum(), model.parameters()) for y in (mine, eager)
            ]
            torch.testing.assert_close(*gradients)


def test_a_gradient_of_a_gradient_is_refused_not_wrong() -> None:
    x = torch.randn(4, requires_grad=True)
    y = compiled(lambda x: x.sin().square(), fullgraph=True)(x)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        gradient.sum().backward()


def test_gradients_inside_of_what_is_compiled() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x.detach().requires_grad_()
        (gradient,) = torch.autograd.grad((y.sin() * y).sum(), y)
        return gradient, x * 2

    both_ways(function, torch.randn(4), fullgraph=False)


def test_a_training_step_as_one_function() -> None:
    torch.manual_seed(0)

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = Hooked()

        def forward(self, x: Tensor) -> float:
            self.model.zero_grad()
            loss = self.model(x).square().mean()
            loss.backward()
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter -= 0.1 * parameter.grad
            return loss.detach()

    both_ways(Step(), torch.randn(5, 4), calls=3, fullgraph=False)
