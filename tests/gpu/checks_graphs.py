# SPDX-License-Identifier: Apache-2.0
"""mode="reduce-overhead": the same results as without, whatever is held, changed or drawn."""

from __future__ import annotations

import functools
import gc
from collections.abc import Callable
from typing import Any

import model_check
import models
import tensord
import torch
import torch.nn.functional as F
from torch import nn

CALLS = 6


def _compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tensord", mode="reduce-overhead", **options)


def _held_results_stay() -> None:
    run = _compiled(lambda x: (x.sin() * 2).cos())
    inputs = [torch.full((1000,), float(i)) for i in range(CALLS)]
    held = [run(x) for x in inputs]
    for x, result in zip(inputs, held, strict=True):
        torch.testing.assert_close(result, (x.sin() * 2).cos())


def _inputs_may_move() -> None:
    weight = torch.randn(64, 64)
    run = _compiled(lambda x: (x @ weight).relu())
    for _ in range(CALLS):
        x = torch.randn(8, 64)
        torch.testing.assert_close(run(x), (x @ weight).relu(), rtol=1e-4, atol=1e-4)


def _shapes() -> None:
    run = _compiled(lambda x: x.softmax(-1) + 1, dynamic=True)
    for size in (5, 9, 17, 5, 33, 9, 5, 17):
        for _ in range(3):
            x = torch.randn(4, size)
            torch.testing.assert_close(run(x), x.softmax(-1) + 1)


def _many_shapes() -> None:
    """No growth over many shapes, which only one dynamic program serves."""
    cuda = torch.get_default_device().type == "cuda"
    run = _compiled(lambda x: x.exp().sum(-1), dynamic=True)
    sizes = []
    for size in range(2, 302):
        for _ in range(3):
            run(torch.ones(3, size))
        if cuda and size % 100 == 1:
            torch.cuda.synchronize()
            sizes.append(torch.cuda.memory_reserved())
    if cuda:
        assert sizes[-1] <= sizes[0] + (64 << 20), sizes


def _random_numbers() -> None:
    run = _compiled(lambda x: F.dropout(x, 0.5))
    x = torch.ones(2000)
    seen = [run(x).clone() for _ in range(CALLS)]
    for i, a in enumerate(seen):
        for b in seen[:i]:
            assert not torch.equal(a, b), "two calls drew the same numbers"
    torch.manual_seed(5)
    first = [run(x).clone() for _ in range(3)]
    torch.manual_seed(5)
    assert all(torch.equal(run(x), y) for y in first), "the seed does not determine the numbers"


def _training() -> None:
    """Steps with an optimizer, batch norm's buffers and accumulated gradients, against eager."""
    curves = []
    for wrap in (_compiled, lambda model: model):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(20, 64), nn.BatchNorm1d(64), nn.SiLU(), nn.Linear(64, 5))
        run = wrap(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        data = torch.randn(2 * CALLS, 2, 16, 20)
        losses = []
        for halves in data:
            optimizer.zero_grad()
            for half in halves:
                loss = run(half).square().mean()
                loss.backward()
                losses.append(loss.item())
            optimizer.step()
        curves.append(torch.tensor([*losses, *model[1].running_mean.tolist()]))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-4)


def _changed_input() -> None:
    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(y)
        return x * 2

    run = _compiled(add)
    x, y = torch.zeros(100), torch.ones(100)
    for i in range(CALLS):
        torch.testing.assert_close(run(x, y), torch.full((100,), 2.0 * (i + 1)))
        assert x[0] == i + 1


def _two_forwards_then_backward() -> None:
    """What one forward call saved is still there after another forward call."""
    w = torch.randn(30, 30, requires_grad=True)
    run = _compiled(lambda x: ((x @ w).tanh() ** 2).sum())
    for _ in range(CALLS):
        a, b = torch.randn(7, 30), torch.randn(7, 30)
        w.grad = None
        first, second = run(a), run(b)
        first.backward()
        second.backward()
        expected = torch.autograd.grad(sum(((x @ w).tanh() ** 2).sum() for x in (a, b)), w)[0]
        torch.testing.assert_close(w.grad, expected, rtol=1e-3, atol=1e-3)


def _gradients_live_until_the_next_forward() -> None:
    """The usual loop, in which zero_grad comes between forward and backward."""
    curves = []
    for wrap in (_compiled, lambda model: model):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(40, 80), nn.GELU(), nn.LayerNorm(80), nn.Linear(80, 3))
        run, optimizer = wrap(model), torch.optim.AdamW(model.parameters(), lr=1e-2)
        data, losses = torch.randn(2 * CALLS, 32, 40), []
        for x in data:
            loss = run(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        curves.append(torch.stack(losses))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-4)


def _wide() -> tuple[nn.Module, torch.Tensor]:
    """A model with more activations than parameters, and a batch for it."""
    torch.manual_seed(2)
    layers = [layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU())]
    return nn.Sequential(*layers), torch.randn(16384, 256)


def _gradients_of(run: Callable[..., Any], model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    """Of the model's parameters, as copies."""
    model.zero_grad()
    run(x).square().mean().backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def _memory_is_shared() -> None:
    """Backward has the memory of what forward saved, in a loop that frees gradients in time."""
    model, x = _wide()
    expected = _gradients_of(model, model, x)
    tensord.reset_stats()
    run = _compiled(model)
    for _ in range(CALLS):
        torch.testing.assert_close(_gradients_of(run, model, x), expected, rtol=1e-3, atol=1e-5)
    if torch.get_default_device().type == "cuda":
        stats = tensord.stats()
        assert (stats["cuda_graphs_sharing"], stats["cuda_graphs_held"]) == (1, 0), stats


def _backward_twice() -> None:
    """What forward saved is not written over while a second backward call may come."""
    model, x = _wide()
    expected = [2 * gradient for gradient in _gradients_of(model, model, x)]
    run = _compiled(model)
    for i in range(3 * CALLS):
        if i % 3 != 2:  # captured while nobody keeps anything
            _gradients_of(run, model, x)
            continue
        model.zero_grad()
        loss = run(x).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        gradients = [parameter.grad for parameter in model.parameters()]
        torch.testing.assert_close(gradients, expected, rtol=1e-3, atol=1e-5)
        del loss, gradients


def _two_models_in_turns() -> None:
    """Both forward calls, then both backward calls. Products of float32 are torch's, which keeps
    memory for them from one to the next."""
    pairs = [_wide(), _wide()]
    expected = [_gradients_of(model, model, x) for model, x in pairs]
    runs = [_compiled(model) for model, _ in pairs]
    for i in range(2 * CALLS):
        for model, _ in pairs:
            model.zero_grad()
        losses = [run(x).square().mean() for run, (_, x) in zip(runs, pairs, strict=True)]
        for loss in losses[:: 1 if i % 2 else -1]:
            loss.backward()
        for (model, _), gradients in zip(pairs, expected, strict=True):
            found = [parameter.grad for parameter in model.parameters()]
            torch.testing.assert_close(found, gradients, rtol=1e-3, atol=1e-5)
        del losses, loss, found


def _partial_capture() -> None:
    """A number on the CPU in the middle, a result on the CPU at the end."""

    def function(x: torch.Tensor, rate: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = (x.sin() * 2 + 1).exp().tanh() * rate
        y = (y.cos() + x).sigmoid() * 3 - 1
        return y, y.sum().to("cpu")

    tensord.reset_stats()
    run = _compiled(function)
    for i in range(CALLS):
        x, rate = torch.randn(500), torch.tensor(0.5 + i, device="cpu")
        y, total = run(x, rate)
        expected, expected_total = function(x, rate)
        torch.testing.assert_close(y, expected)
        torch.testing.assert_close(total, expected_total, rtol=1e-4, atol=1e-3)
    if torch.get_default_device().type == "cuda":
        stats = tensord.stats()
        assert stats["cuda_graph_cuts"] == 1 and stats["cuda_graphs"] >= 2, stats


def _results_outlive_their_program() -> None:
    run = _compiled(lambda x: (x.sin() * 2, x.cos() + 1))
    x = torch.randn(1 << 16)
    for _ in range(CALLS):
        first, second = run(x)
    del run
    torch._dynamo.reset()
    gc.collect()
    rubbish = [torch.full((1 << 16,), -7.0) for _ in range(50)]
    torch.testing.assert_close(first, x.sin() * 2)
    torch.testing.assert_close(second, x.cos() + 1)
    del rubbish


def _a_reset_gives_memory_back() -> None:
    """Also that of programs behind a graph break, which Dynamo keeps over a reset."""
    cuda = torch.get_default_device().type == "cuda"

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x.exp() + 1
        torch._dynamo.graph_break()
        return (y * 2).softmax(-1)

    def taken() -> int:
        torch._dynamo.reset()
        gc.collect()
        if not cuda:
            return 0
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
        return torch.cuda.memory_reserved()

    before = taken()
    run = _compiled(broken)
    for _ in range(CALLS):
        run(torch.ones(4096, 4096))
    del run
    assert taken() <= before + (8 << 20), (before, taken())


def _streams() -> None:
    """Two streams at once, each with graphs of its own."""
    if torch.get_default_device().type != "cuda":
        return
    weight = torch.randn(512, 512)
    run = _compiled(lambda x: ((x @ weight).softmax(-1) @ weight).tanh())
    streams = [torch.cuda.Stream() for _ in range(2)]
    inputs = [torch.randn(256, 512) for _ in streams]
    expected = [((x @ weight).softmax(-1) @ weight).tanh() for x in inputs]
    torch.cuda.synchronize()
    for _ in range(5 * CALLS):
        results = []
        for stream, x in zip(streams, inputs, strict=True):
            with torch.cuda.stream(stream):
                results.append(run(x))
        torch.cuda.synchronize()
        for result, wanted in zip(results, expected, strict=True):
            torch.testing.assert_close(result, wanted, rtol=1e-3, atol=1e-3)
        del results, result


def _one_workspace() -> None:
    """Graphs of many shapes take memory for one workspace, the largest."""
    if torch.get_default_device().type != "cuda":
        return
    model = nn.Sequential(nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.Softmax(-1))
    model.requires_grad_(False)
    run = _compiled(model, dynamic=True)
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_reserved()
    for rows in range(4096, 4096 - 8 * 64, -64):  # 32 MiB and more each time
        for _ in range(4):
            run(torch.randn(rows, 2048))
    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    grown = torch.cuda.memory_reserved() - before
    # Of each graph an input and a result of 32 MiB, and a pool that is up to 20 MiB larger; one
    # workspace of 64 MiB or so, instead of eight; cuBLAS's own.
    assert grown < 8 * (84 << 20) + (200 << 20), grown >> 20


def _graphs_were_made() -> None:
    """On a GPU the statistics show graphs, and no reason against one."""
    if torch.get_default_device().type != "cuda":
        return
    tensord.reset_stats()
    run = _compiled(lambda x: x * 2 + 1)
    for _ in range(CALLS):
        run(torch.randn(100))
    stats = tensord.stats()
    assert stats["cuda_graphs"] >= 1, stats
    assert stats["cuda_graph_replays"] >= 1, stats


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Small functions, then whole models."""
    small = {
        "held results stay": _held_results_stay,
        "inputs may move": _inputs_may_move,
        "shapes": _shapes,
        "many shapes": _many_shapes,
        "random numbers": _random_numbers,
        "training": _training,
        "changed input": _changed_input,
        "two forwards, then backward": _two_forwards_then_backward,
        "graphs were made": _graphs_were_made,
        "gradients live until the next forward": _gradients_live_until_the_next_forward,
        "memory is shared": _memory_is_shared,
        "backward twice": _backward_twice,
        "two models in turns": _two_models_in_turns,
        "partial capture": _partial_capture,
        "results outlive their program": _results_outlive_their_program,
        "a reset gives memory back": _a_reset_gives_memory_back,
        "streams": _streams,
        "one workspace": _one_workspace,
    }
    found = list(small.items())
    for name in models.MODELS:
        check = functools.partial(
            model_check.check_training, name, "bfloat16", mode="reduce-overhead"
        )
        found.append((f"{name} bfloat16", check))
    return found
