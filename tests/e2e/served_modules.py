# SPDX-License-Identifier: Apache-2.0
"""Modules for frame_runner.py: training, buffers, gradients, and what a compiled module is."""

from __future__ import annotations

import contextlib
import copy
import io
import pickle
from typing import Any

import torch
from served_functions import numbers
from torch import Tensor, nn


def gradients(module: nn.Module) -> dict[str, Any]:
    """By parameter, where there are any."""
    return {name: p.grad for name, p in module.named_parameters()}


def state(module: nn.Module) -> dict[str, Any]:
    """Buffers. What compiled code changes in place has another version, of which autograd is to
    know; eager's batch norm changes its own unseen."""
    buffers = dict(module.named_buffers())
    counted = [b for name, b in buffers.items() if name.endswith("num_batches_tracked")]
    return {"counted": [b._version for b in counted], **{n: b.clone() for n, b in buffers.items()}}


class Block(nn.Module):
    """A layer with a norm that counts."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.linear = nn.Linear(size, size)
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.gelu(self.norm(self.linear(x)))


class Network(nn.Module):
    """Modules within modules, a list of them and a buffer."""

    def __init__(self, size: int = 8, depth: int = 2) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(size) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(size, 3), nn.LayerNorm(3))
        self.register_buffer("scale", torch.full((1,), 2.0))
        self.label = "a"

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        for block in self.blocks:
            x = x + block(x)
        logits = self.head(x) * self.scale
        return {"logits": logits, "loss": logits.square().mean()}


def made(kind: Any, *sizes: Any) -> Any:
    """With the same weights each time."""
    torch.manual_seed(1)
    return kind(*sizes)


def case_inference(compile: Any) -> Any:
    module = made(Network).eval()
    f = compile(module)
    with torch.no_grad():
        return f(numbers(4, 8)), f(numbers(4, 8) * 2), state(module)


def case_training(compile: Any) -> Any:
    module = made(Network)
    f = compile(module)
    losses = []
    for step in range(3):
        out = f(numbers(4, 8) + step)
        out["loss"].backward()
        losses.append(out["loss"])
    return losses, gradients(module), state(module)


def case_inference_mode(compile: Any) -> Any:
    f = compile(made(Network).eval())
    with torch.inference_mode():
        out = f(numbers(4, 8))
    return out["loss"].is_inference(), out["loss"].clone()


def case_training_then_evaluation(compile: Any) -> Any:
    module = made(Network)
    f = compile(module)
    one = f(numbers(4, 8))
    one["loss"].backward()
    module.eval()
    with torch.no_grad():
        other = f(numbers(4, 8))
    f.train()
    third = f(numbers(4, 8))
    third["loss"].backward()
    return one, other, third, gradients(module), state(module)


def case_retained_graph(compile: Any) -> Any:
    module = made(Network)
    loss = compile(module)(numbers(4, 8))["loss"]
    loss.backward(retain_graph=True)
    loss.backward()
    return gradients(module)


def case_gradient_of_argument(compile: Any) -> Any:
    module = made(Network)
    x = numbers(4, 8).requires_grad_()
    out = compile(module)(x)
    return torch.autograd.grad(out["loss"], [x, module.head[0].weight])


def two(x: Tensor, y: Tensor) -> Any:
    return (x * y).sum(), (x.sin() + y).sum(), x.detach() + 1


def case_two_losses(compile: Any) -> Any:
    f, found = compile(two), []
    for losses in ((0,), (0, 1), (1,), (0, 1)):
        x, y = numbers(5).requires_grad_(), (numbers(5) * 2).requires_grad_()
        results = f(x, y)
        sum(results[i] for i in losses).backward()  # type: ignore[union-attr]
        found.append((x.grad, y.grad, results[2].requires_grad))
    return found


class WithPast(nn.Module):
    """A loss, and a result by which most do not differentiate."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Any:
        hidden = self.linear(x)
        return hidden.square().mean(), hidden * 2


def case_gradient_that_was_absent(compile: Any) -> Any:
    module = made(WithPast)
    f, found = compile(module), []
    for with_hidden in (False, False, True, False):
        loss, hidden = f(numbers(4, 8))
        (loss + hidden.sum() if with_hidden else loss).backward()
        found.append(module.linear.weight.grad.clone())
    return found


def squared(x: Tensor) -> Tensor:
    return (x * x * x).sum()


def case_double_backward(compile: Any) -> Any:
    x = numbers(5).requires_grad_()
    f = compile(squared)
    (first,) = torch.autograd.grad(f(x), x, create_graph=True)
    if f is squared:
        return True, first.detach()
    try:
        first.sum().backward()
    except RuntimeError as error:
        return "twice" in str(error) or "double" in str(error), first.detach()
    return False, first.detach()


def frozen(x: Tensor, w: Tensor) -> Tensor:
    return x @ w


def case_requires_grad(compile: Any) -> Any:
    f, found = compile(frozen), []
    for of_x, of_w in ((True, False), (False, True), (True, True), (False, False)):
        x, w = numbers(3, 4).requires_grad_(of_x), numbers(4, 5).requires_grad_(of_w)
        r = f(x, w)
        if r.requires_grad:
            r.sum().backward()
        found.append((r, x.grad, w.grad))
    return found


def case_no_grad(compile: Any) -> Any:
    module = made(Network)
    f = compile(module)
    with torch.no_grad():
        one = f(numbers(4, 8))
    other = f(numbers(4, 8))
    with torch.enable_grad():
        third = f(numbers(4, 8))
    return one, other, third


def no_grad_within(x: Tensor) -> Any:
    with torch.no_grad():
        y = x * 2
    return y, x * 3


def case_no_grad_within(compile: Any) -> Any:
    y, z = compile(no_grad_within)(numbers(4).requires_grad_())
    return y, z


class Drop(nn.Module):
    """A module with a dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(x) * 2


def case_dropout(compile: Any) -> Any:
    """A seed gives the same numbers again, about half of them are none, and two calls differ."""
    f, x = compile(Drop()), torch.ones(100, 100)
    torch.manual_seed(3)
    one, other = f(x), f(x)
    torch.manual_seed(3)
    again = f(x)
    share = float((one == 0).double().mean())
    return torch.equal(one, again), torch.equal(one, other), 0.47 < share < 0.53, one.max()


def case_dropout_as_in_eager(compile: Any) -> Any:
    f = compile(Drop(), options={"eager_random": True})
    torch.manual_seed(3)
    return f(torch.ones(10, 10)), torch.rand(3)


def case_dropout_in_evaluation(compile: Any) -> Any:
    return compile(Drop().eval())(numbers(4, 4))


def case_autocast(compile: Any) -> Any:
    module = made(Network).eval()
    f = compile(module)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        one = f(numbers(4, 8))["logits"].dtype
    with torch.no_grad():
        return one, f(numbers(4, 8))["logits"].dtype


def autocast_within(x: Tensor, w: Tensor) -> Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        return x @ w


def case_autocast_within(compile: Any) -> Any:
    return compile(autocast_within)(numbers(4, 8), numbers(8, 4))


def case_module_in_bfloat16(compile: Any) -> Any:
    module = made(Network).eval().to(torch.bfloat16)
    with torch.no_grad():
        return compile(module)(numbers(4, 8).to(torch.bfloat16))["logits"].dtype


class Tied(nn.Module):
    """Two layers of one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 6)
        self.head = nn.Linear(6, 10, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.embedding(ids)).logsumexp(-1).sum()


def case_tied_weights(compile: Any) -> Any:
    module = made(Tied)
    loss = compile(module)(torch.arange(10))
    loss.backward()
    return loss, gradients(module)


class Changing(nn.Module):
    """A module that counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", None)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last = x.mean()
        return x + self.calls


def case_buffers_changed(compile: Any) -> Any:
    module = Changing()
    f = compile(module)
    return f(numbers(4)), f(numbers(4)), dict(module.named_buffers())


def hook(module: nn.Module, arguments: Any, result: Tensor) -> Tensor:
    return result * 2


def case_forward_hooks(compile: Any) -> Any:
    # A hook's number in its module, which is guarded, says how many the process registered before.
    torch.utils.hooks.RemovableHandle.next_id = 1000
    module = made(Network).eval()
    module.head[0].register_forward_hook(hook)
    with torch.no_grad():
        return compile(module)(numbers(4, 8))


def case_module_of_torch(compile: Any) -> Any:
    module = made(nn.Linear, 4, 4)
    compile(module)(numbers(3, 4)).sum().backward()
    return gradients(module)


def case_optimizer(compile: Any) -> Any:
    module = made(Network)
    f = compile(module)
    optimizer = torch.optim.SGD(f.parameters(), lr=0.1)
    losses = []
    for _ in range(4):
        optimizer.zero_grad()
        loss = f(numbers(4, 8))["loss"]
        loss.backward()
        optimizer.step()
        losses.append(loss)
    return losses


def case_copies(compile: Any) -> Any:
    module = made(Network).eval()
    f = compile(module)
    with torch.no_grad():
        one = f(numbers(4, 8))
        other = copy.deepcopy(f)(numbers(4, 8))
        loaded = pickle.loads(pickle.dumps(f))(numbers(4, 8))
    return one, other, loaded


def says_when_done(function: Any) -> Any:
    """What goes on behind the break is one code for all that is decorated."""

    def said(self: Any, x: Tensor) -> Any:
        y = function(self, x)
        print("in the middle")
        return {"of": self, "is": y}["is"]

    return said


class Sine(nn.Module):
    @says_when_done
    def forward(self, x: Tensor) -> Tensor:
        return x.sin() + 1


class Cosine(nn.Module):
    @says_when_done
    def forward(self, x: Tensor) -> Tensor:
        return x.cos() - 1


def case_left_behind_a_break(compile: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()):
        return compile(Sine())(numbers(5)), compile(Cosine())(numbers(5))
