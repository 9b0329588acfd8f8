# SPDX-License-Identifier: Apache-2.0
"""Gradients of convolutions, with the real daemon: those of biases are sums of our own.

Errors are fractions of the largest element, against float64: 1e-5 in float32, 1e-12 in float64,
2e-2 in bfloat16, or EAGER_FACTOR times eager's own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from compare import check_relative, wide
from real_daemon import RealDaemon
from tensord.v1 import artifact_pb2, requests_pb2
from tensord.wire import rpc
from torch import Tensor, nn

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-12, torch.bfloat16: 2e-2}
BACKWARD = "aten::convolution_backward"

# Module, and the sizes of its image.
CASES: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "plain": (lambda: nn.Conv2d(8, 12, 3, padding=1), (3, 8, 9, 7)),
    "strided": (lambda: nn.Conv2d(8, 12, (2, 3), stride=2), (3, 8, 9, 7)),
    "groups": (lambda: nn.Conv2d(8, 12, 3, groups=4, dilation=2), (2, 8, 9, 11)),
    "depthwise": (lambda: nn.Conv2d(8, 8, 7, padding=3, groups=8), (2, 8, 9, 11)),
    "transposed": (lambda: nn.ConvTranspose2d(8, 6, 3, stride=2, output_padding=1), (2, 8, 5, 6)),
    "transposed groups": (lambda: nn.ConvTranspose2d(8, 6, 2, groups=2), (2, 8, 5, 6)),
    "one dimension": (lambda: nn.Conv1d(6, 8, 5), (3, 6, 33)),
    "three dimensions": (lambda: nn.Conv3d(3, 4, (2, 3, 1)), (2, 3, 5, 6, 7)),
    "one image": (lambda: nn.Conv2d(8, 12, 3), (8, 9, 7)),
}


class Net(nn.Module):
    """Kernels of ours in front of the convolution and behind it."""

    def __init__(self, convolution: nn.Module) -> None:
        super().__init__()
        self.convolution = convolution

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.convolution(x * 2)) * 3


def gradients(net: nn.Module, run: Any, x: Tensor) -> dict[str, Tensor]:
    net.zero_grad()
    x = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()
    out = run(x)
    weight = torch.linspace(-1, 1, out.numel(), dtype=torch.float64).sin().reshape(out.shape)
    (out * weight.to(out.dtype)).sum().backward()
    assert x.grad is not None
    named = {name: p.grad for name, p in net.named_parameters() if p.grad is not None}
    return {"image": x.grad, **named}


def backward_calls(step: Callable[[], Any]) -> list[artifact_pb2.ExternCall]:
    """The library calls of the backward program that a step runs."""
    profile = tensord.profile(step, steps=1)
    (key,) = (p.key for p in profile.message.programs if p.label == "backward")
    detail = rpc.client().call("GetProgram", requests_pb2.GetProgramRequest(key_prefix=key))
    return [s.call for s in detail.artifact.steps if s.HasField("call")]


def check(net: nn.Module, x: Tensor) -> list[artifact_pb2.ExternCall]:
    """Compares with eager; gives backward's library calls."""
    eager = copy.deepcopy(net)
    exact = copy.deepcopy(net).double()
    wanted = gradients(eager, eager, x)
    truth = gradients(exact, exact, wide(x))
    compiled = torch.compile(net, backend="tensord", fullgraph=True, dynamic=False)
    got = gradients(net, compiled, x)
    assert got.keys() == wanted.keys()
    for name, gradient in wanted.items():
        check_relative(name, got[name], gradient, truth[name], TOLERANCE[gradient.dtype])
    return backward_calls(lambda: gradients(net, compiled, x))


def asked_for(call: artifact_pb2.ExternCall) -> list[bool]:
    """Of image, weight and bias: whose gradient the library computes."""
    assert call.op == BACKWARD
    return [item.boolean for item in call.args[-1].list.items]


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("name", CASES)
def test_gradients(name: str, dtype: torch.dtype, here: RealDaemon) -> None:
    torch.manual_seed(0)
    make, sizes = CASES[name]
    calls = check(Net(make()).to(dtype), torch.randn(sizes).to(dtype))
    assert [asked_for(call) for call in calls] == [[True, True, False]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_channels_last(dtype: torch.dtype, here: RealDaemon) -> None:
    torch.manual_seed(0)
    net = Net(nn.Conv2d(8, 12, 3)).to(dtype, memory_format=torch.channels_last)
    x = torch.randn(3, 8, 9, 7).to(dtype, memory_format=torch.channels_last)
    assert [asked_for(call) for call in check(net, x)] == [[True, True, False]]


def test_complex_numbers_are_the_librarys(here: RealDaemon) -> None:
    torch.manual_seed(0)
    net = nn.Conv2d(2, 3, 2, dtype=torch.complex64)
    x = torch.randn(2, 2, 4, 5, dtype=torch.complex64)
    wanted = torch.autograd.grad(net(x).abs().sum(), list(net.parameters()))
    compiled = torch.compile(net, backend="tensord", fullgraph=True)
    got = torch.autograd.grad(compiled(x).abs().sum(), list(net.parameters()))
    for a, b in zip(got, wanted, strict=True):
        torch.testing.assert_close(a, b)


def test_a_bias_that_is_trained_alone_needs_no_call(here: RealDaemon) -> None:
    net = Net(nn.Conv2d(8, 12, 3))
    net.convolution.weight.requires_grad_(False)
    x = torch.randn(3, 8, 9, 7)
    weight = torch.randn(3, 12, 7, 5)

    def step(run: Any) -> Tensor:
        net.zero_grad()
        (run(x) * weight).sum().backward()
        assert net.convolution.bias.grad is not None
        return net.convolution.bias.grad

    wanted = step(net)
    compiled = torch.compile(net, backend="tensord", fullgraph=True, dynamic=False)
    torch.testing.assert_close(step(compiled), wanted)
    assert backward_calls(lambda: step(compiled)) == []
