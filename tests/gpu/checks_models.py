# SPDX-License-Identifier: Apache-2.0
"""Small models against eager and float64: loss, results, gradients; float32 and bfloat16."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any
from unittest import mock

import model_check
import models
import torch
import torch.nn.functional as F
from tensord import passes
from tensord.passes.captured import dynamo
from torch import Tensor, fx, nn

_BFLOAT16 = 2.0**-8  # the error of one rounding


def _logits(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.autocast("cuda", torch.bfloat16):
        logits = F.linear(x, weight, bias)
    return logits, F.cross_entropy(logits.float(), target)


def _odd_vocabulary(rows: int, classes: int, biased: bool) -> None:
    """Logits of a size that the library is slow with, as they are given out, and their loss."""
    torch.manual_seed(0)
    x, weight = torch.randn(rows, 256), torch.randn(classes, 256) / 16
    bias = torch.randn(classes) if biased else None
    target = torch.randint(0, classes, (rows,))
    with torch.no_grad():
        logits, loss = torch.compile(_logits, backend="tensord")(x, weight, bias, target)
    exact = x.bfloat16().double() @ weight.bfloat16().double().t()
    if bias is not None:
        exact += bias.bfloat16().double()
    assert logits.is_contiguous()
    torch.testing.assert_close(logits.double(), exact, rtol=_BFLOAT16, atol=_BFLOAT16)
    torch.testing.assert_close(loss, F.cross_entropy(logits.float(), target), rtol=1e-5, atol=1e-5)


class _Bottleneck(nn.Module):
    """A block of a ResNet: the middle is narrow, and the end of it is added to what came in."""

    def __init__(self, channels: int, width: int, downsampled: bool) -> None:
        super().__init__()
        sizes = [(channels, width, 1), (width, width, 3), (width, channels, 1)]
        self.body = nn.Sequential(*(layer for size in sizes for layer in self._convolution(*size)))
        self.body.pop(-1)
        self.shortcut = nn.Sequential(*self._convolution(channels, channels, 1)[:2])
        if not downsampled:
            self.shortcut = nn.Identity()

    @staticmethod
    def _convolution(inputs: int, outputs: int, size: int) -> list[nn.Module]:
        convolution = nn.Conv2d(inputs, outputs, size, padding=size // 2, bias=False)
        return [convolution, nn.BatchNorm2d(outputs), nn.ReLU()]

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.shortcut(x))


def _bottlenecks(images: int, pixels: int, training: bool) -> None:
    """Convolutions of single pixels, with what follows them, as products of matrices."""
    torch.manual_seed(0)
    net = nn.Sequential(*(_Bottleneck(64, 24, i == 0) for i in range(3)))
    for norm in (m for m in net.modules() if isinstance(m, nn.BatchNorm2d)):
        nn.init.uniform_(norm.running_mean, -0.5, 0.5)
        nn.init.uniform_(norm.running_var, 0.5, 2)
    net.train(training)
    x = torch.randn(images, 64, pixels, pixels).contiguous(memory_format=torch.channels_last)

    def run(call: Callable[[Tensor], Tensor], like: nn.Module) -> list[Tensor]:
        given = x.to(next(like.parameters()).dtype).requires_grad_(training)
        with torch.set_grad_enabled(training):
            y = call(given)
            if not training:
                return [y]
            (y.double() * torch.linspace(-1, 1, y.numel()).view_as(y)).sum().backward()
        return [y.detach(), given.grad, *(p.grad for p in like.parameters())]

    exact = copy.deepcopy(net).double()
    want = run(exact, exact)
    results = {}
    for name, backend in (("eager", None), ("tensord", "tensord")):
        model = copy.deepcopy(net)
        call = torch.compile(model, backend=backend) if backend else model
        with torch.autocast(x.device.type, torch.bfloat16):
            results[name] = run(call, model)
    for eager, got, right in zip(*results.values(), want, strict=True):
        error, usual = ((t.double() - right).norm() / right.norm() for t in (got, eager))
        assert got.stride() == eager.stride()
        assert error < 1.5 * usual + 1e-3, f"{error:.2e} off, eager {usual:.2e}"


def _attention(name: str) -> None:
    """Attention without masks, however this torch and these transformers spell them: causal masks
    and those that mask nothing depend on no input."""
    model, inputs = models.build(name)
    inputs.pop("attention_mask", None)
    model.set_attn_implementation("sdpa")
    modules = []

    def run(stage: passes.Stage, module: fx.GraphModule, *rest: Any) -> passes.Outcome:
        if stage == "captured":
            modules.append(module)
        return original(stage, module, *rest)

    original = passes.run
    with mock.patch.object(passes, "run", run):
        torch.compile(model, backend="tensord")(**inputs)
    nodes = [node for module in modules for node in module.graph.nodes]
    found = [n for n in nodes if dynamo.name_of(n) == "scaled_dot_product_attention"]
    masked = [n for n in found if dynamo.argument(n, "attn_mask") is not None]
    assert found and not masked, f"{len(masked)} of {len(found)} attentions have a mask"


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Training and inference of each; the ends of models on a GPU."""
    kinds = {"training": model_check.check_training, "inference": model_check.check_inference}
    found = [
        (f"{name}-{kind}-{precision}", functools.partial(check, name, precision))
        for precision in model_check.TOLERANCE
        for kind, check in kinds.items()
        for name in models.MODELS
    ]
    for images, pixels, training in ((4, 14, True), (4, 14, False), (3, 7, False)):
        name = f"bottlenecks-{images}x{pixels}-{'training' if training else 'inference'}"
        found.append((name, functools.partial(_bottlenecks, images, pixels, training)))
    if torch.get_default_device().type == "cuda":
        for rows, classes, biased in ((2051, 50257, False), (4096, 30522, True)):
            name = f"logits-{rows}x{classes}"
            found.append((name, functools.partial(_odd_vocabulary, rows, classes, biased)))
        for model in ("bert", "gpt2", "llama"):
            found.append((f"attention-{model}", functools.partial(_attention, model)))
    return found
