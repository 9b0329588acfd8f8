# SPDX-License-Identifier: Apache-2.0
"""Random numbers and training with the real daemon: masks, seeds, optimizers, gradients."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from compare import check
from tensord.bridge import compiled_graph
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tensord", **options)


# -- random numbers -------------------------------------------------------------------------------


def test_dropout_mask_is_the_same_in_backward() -> None:
    x = torch.ones(300, 400, requires_grad=True)
    y = compiled(lambda t: F.dropout(t, 0.3) * 1.0)(x)
    y.sum().backward()
    assert torch.equal(y.detach(), x.grad)
    kept = (y != 0).double().mean().item()
    assert abs(kept - 0.7) < 0.01
    assert torch.allclose(y[y != 0], torch.tensor(1 / 0.7))


def test_dropout_follows_the_seed_and_changes_from_call_to_call() -> None:
    run = compiled(lambda t: F.dropout(t, 0.5))
    x = torch.ones(1000)
    torch.manual_seed(3)
    first, second = run(x), run(x)
    torch.manual_seed(3)
    assert torch.equal(run(x), first)
    assert not torch.equal(first, second)


def test_two_dropouts_differ() -> None:
    a, b = compiled(lambda t: (F.dropout(t, 0.5), F.dropout(t, 0.5)))(torch.ones(2000))
    agree = (a == b).double().mean().item()
    assert 0.4 < agree < 0.6


def test_random_creation() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        return (
            torch.rand(50_000),
            torch.randn(50_000),
            torch.rand_like(x) + 1,
            torch.randint(0, 10, (50_000,)),
            torch.bernoulli(torch.full((50_000,), 0.2)),
        )

    uniform, normal, like, integers, coins = compiled(function)(torch.zeros(9, 7))
    assert 0 <= uniform.min() and uniform.max() < 1 and abs(uniform.mean() - 0.5) < 0.01
    assert abs(normal.mean()) < 0.02 and abs(normal.std() - 1) < 0.02
    assert abs(normal.pow(4).mean() - 3) < 0.3
    assert like.min() >= 1 and like.max() < 2
    assert set(integers.tolist()) == set(range(10))
    assert set(coins.tolist()) == {0.0, 1.0} and abs(coins.mean() - 0.2) < 0.01


def test_eval_mode_has_no_dropout() -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Linear(8, 8)).eval()
    x = torch.randn(5, 8)
    check("result", compiled(model)(x), model(x))


# -- training -------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [
    lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True),
    lambda p: torch.optim.AdamW(p, lr=torch.tensor(0.01), capturable=False, foreach=False),
    lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
], ids=["adamw", "adamw-tensor-lr", "sgd"])  # fmt: skip
def test_compiled_optimizer_step(make: Any) -> None:
    torch.manual_seed(0)
    ours = [nn.Parameter(torch.randn(7, 5)), nn.Parameter(torch.randn(33))]
    eager = [nn.Parameter(p.detach().clone()) for p in ours]
    first, second = make(ours), make(eager)
    step = compiled(lambda: first.step())
    for _ in range(4):
        for a, b in zip(ours, eager, strict=True):
            a.grad = torch.randn_like(a)
            b.grad = a.grad.clone()
        step()
        second.step()
        check("parameters", [p.detach() for p in ours], [p.detach() for p in eager])


def test_training_curve_follows_eager() -> None:
    curves = []
    for wrap in (compiled, lambda m: m):
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.LayerNorm(32), nn.Linear(32, 4))
        run = wrap(model)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        x, y = torch.randn(64, 10), torch.randint(0, 4, (64,))
        losses = []
        for _ in range(20):
            loss = F.cross_entropy(run(x), y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            losses.append(loss.item())
        curves.append(torch.tensor(losses))
    assert torch.allclose(curves[0], curves[1], rtol=1e-4)
    assert curves[0][-1] < curves[0][0] * 0.8


def test_checkpointing_and_accumulation() -> None:
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(1)
    inner = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))
    run = compiled(lambda x: checkpoint(inner, x, use_reentrant=False) + x)
    x = torch.randn(5, 8)
    for _ in range(2):
        run(x).pow(2).sum().backward()
    ours = [p.grad.clone() for p in inner.parameters()]
    inner.zero_grad()
    (2 * (inner(x) + x).pow(2).sum()).backward()
    check("gradients", ours, [p.grad for p in inner.parameters()])


def test_only_some_gradients_are_wanted() -> None:
    a, b, c = (torch.randn(6, 6, requires_grad=r) for r in (True, False, True))
    function = lambda a, b, c: ((a @ b).tanh().sum(), (c * 2).detach(), c.exp())  # noqa: E731
    total, constant, other = compiled(function)(a, b, c)
    assert not constant.requires_grad
    total.backward()
    expected = torch.autograd.grad(function(a, b, c)[0], a)[0]
    check("gradient", a.grad, expected)
    assert c.grad is None or not c.grad.any()
    assert other.requires_grad


def test_group_norm_of_narrow_images() -> None:
    """Under autocast the weights are wide: torch declares a wide gradient there."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(8, 16, 3), nn.GroupNorm(4, 16), nn.SiLU(), nn.Conv2d(16, 8, 3))
    x = torch.randn(2, 8, 12, 12)

    def gradients(call: Any) -> list[Tensor]:
        net.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            y = call(x)
        y.float().square().sum().backward()
        return [p.grad.clone() for p in net.parameters()]

    ours, eager = gradients(compiled(net)), gradients(net)
    for one, other in zip(ours, eager, strict=True):
        scale = other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=0, atol=0.03 * scale)


# -- memory ---------------------------------------------------------------------------------------


def test_backward_alone_holds_what_was_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that it goes after its last use: test_runtime_memory.py."""
    layers = nn.Sequential(*(m for _ in range(6) for m in (nn.Linear(16, 16), nn.GELU())))
    exclusive: list[int] = []
    load = compiled_graph.load

    def noting(reply: Any) -> Any:
        program = load(reply)

        def run(arguments: list[Any]) -> Any:
            exclusive.append(0)
            for argument in arguments:
                if isinstance(argument, Tensor) and not isinstance(argument, nn.Parameter):
                    storage = argument.untyped_storage()._cdata
                    # The list, the variable, the function's own argument.
                    alone = sys.getrefcount(argument) == 3
                    # The tensor and the storage object that was just asked for.
                    alone = alone and torch._C._storage_Use_Count(storage) <= 2
                    exclusive[-1] += alone
            del argument
            return program(arguments)

        return run

    monkeypatch.setattr(compiled_graph, "load", noting)
    run = compiled(layers)
    x = torch.randn(32, 16)
    for _ in range(3):
        exclusive.clear()
        run(x).sum().backward()
        forward, backward = exclusive
        assert forward == 0  # x is the caller's
        assert backward >= 6  # at least one activation of each layer
