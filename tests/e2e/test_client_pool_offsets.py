# SPDX-License-Identifier: Apache-2.0
"""Max pooling in training: backward gets a byte for each result, and no image.

The pass aims at GPUs, so here it is told to act on graphs for the CPU.
"""

from __future__ import annotations

import itertools
from typing import Any

import client_passes
import pytest
import torch
import torch.nn.functional as F
from long_cases import long_but
from tensord.passes.joint import pool_offsets
from tensord.v1 import graph_pb2
from torch import Tensor

aten = torch.ops.aten
POOL = "tensord::max_pool2d_with_offsets"
STEM: dict[str, Any] = {"kernel_size": 3, "stride": 2, "padding": 1}
WINDOWS: dict[str, dict[str, Any]] = {
    "stem": STEM,
    "apart": {"kernel_size": 2},
    "sparse": {"kernel_size": (2, 3), "stride": (3, 4)},
    "ceil": {"kernel_size": (2, 3), "padding": (0, 1), "ceil_mode": True},
    "dilated": {"kernel_size": 3, "stride": (1, 2), "padding": 1, "dilation": (2, 3)},
    "wide": {"kernel_size": 5, "stride": 1, "padding": 2},
}


@pytest.fixture(autouse=True)
def everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_offsets, "DEVICES", ("cpu",))
    client_passes.on_any_device(monkeypatch, "pool_offsets")


def images(dtype: torch.dtype, channels_last: bool) -> Tensor:
    """Many equal elements, some NaN, and planes of nothing but -inf."""
    x = (torch.randn(2, 16, 13, 14) * 2).round().to(dtype)
    x.view(-1)[::31] = torch.nan
    x[1, ::3] = -torch.inf
    return x.to(memory_format=torch.channels_last) if channels_last else x


def operators(graph: Any) -> list[str]:
    return [node.op for node in graph.nodes]


def check(x: Tensor, window: dict[str, Any]) -> None:
    """Values and gradients are eager's, bit for bit: the gradients are small integers."""

    def run(x: Tensor) -> Tensor:
        return F.max_pool2d(x, **window).relu()

    expected = run(x.requires_grad_())
    grad = torch.randint(-4, 5, expected.shape).to(x.dtype)
    (wanted,) = torch.autograd.grad(expected, x, grad)
    got = torch.compile(run, backend="tensord", fullgraph=True, dynamic=False)(x)
    assert torch.equal(got.nan_to_num(), expected.nan_to_num())
    assert got.stride() == expected.stride()
    (gradient,) = torch.autograd.grad(got, x, grad)
    assert torch.equal(gradient, wanted)
    assert gradient.stride() == wanted.stride()


@pytest.mark.parametrize("channels_last", [False, True], ids=["rows", "channels_last"])
@pytest.mark.parametrize("name", WINDOWS)
def test_operators_in_eager(name: str, channels_last: bool) -> None:
    """What they do in a job whose programs cannot be had."""
    for dtype in (torch.float32, torch.bfloat16):
        x = images(dtype, channels_last)
        window = pool_offsets._window(**WINDOWS[name])
        values, indices = aten.max_pool2d_with_indices(x, *window)
        ours, offsets = pool_offsets.pool(x, *window)
        assert torch.equal(ours.nan_to_num(), values.nan_to_num())
        assert (offsets.dtype, offsets.stride()) == (torch.uint8, indices.stride())
        grad = torch.randn_like(values)
        wanted = aten.max_pool2d_with_indices_backward(grad, x, *window, indices)
        got = pool_offsets.backward(grad, offsets, [*x.shape[2:]], *window, channels_last)
        assert torch.equal(got, wanted)
        assert got.stride() == wanted.stride()


@pytest.mark.parametrize(
    "dtype", long_but((torch.float32,), (torch.float32, torch.bfloat16, torch.float64))
)
@pytest.mark.parametrize("channels_last", [False, True], ids=["rows", "channels_last"])
@pytest.mark.parametrize("name", WINDOWS)
def test_kernels(tensord_daemon: Any, name: str, channels_last: bool, dtype: torch.dtype) -> None:
    check(images(dtype, channels_last), WINDOWS[name])


def test_an_image_without_a_batch(tensord_daemon: Any) -> None:
    check(images(torch.float32, False)[1], STEM)


@pytest.mark.parametrize("channels_last", [False, True], ids=["rows", "channels_last"])
def test_backward_reads_bytes_and_the_gradient(daemon: Any, channels_last: bool) -> None:
    check(images(torch.float32, channels_last), STEM)
    forward, backward = daemon.graph("forward"), daemon.graph("backward")
    assert operators(forward).count(POOL) == 1
    assert operators(backward).count("tensord::max_pool2d_offsets_backward") == 1
    assert not any("indices" in op for op in operators(forward) + operators(backward))
    inputs = [i.tensor for i in backward.inputs]
    # What relu let through, the offsets, and the gradient.
    assert [[s.constant for s in t.sizes] for t in inputs] == [[2, 16, 7, 7]] * 3
    dtypes = [graph_pb2.DType.Name(t.dtype) for t in inputs]
    assert sorted(dtypes) == ["DTYPE_BOOL", "DTYPE_FLOAT32", "DTYPE_UINT8"]


def test_several_poolings(daemon: Any) -> None:
    def run(x: Tensor) -> Tensor:
        return F.max_pool2d(F.max_pool2d(x, **STEM).sin(), 2).square()

    x = torch.randn(2, 3, 16, 18, requires_grad=True)
    (wanted,) = torch.autograd.grad(run(x).sum(), x)
    torch.compile(run, backend="tensord", dynamic=False)(x).sum().backward()
    torch.testing.assert_close(x.grad, wanted)
    assert operators(daemon.graph("forward")).count(POOL) == 2


def test_a_checkpoint_computes_them_again(daemon: Any) -> None:
    def run(x: Tensor) -> Tensor:
        pooled = lambda x: F.max_pool2d(x, **STEM).sin()  # noqa: E731
        return torch.utils.checkpoint.checkpoint(pooled, x, use_reentrant=False).square()

    x = torch.randn(2, 3, 16, 18, requires_grad=True)
    (wanted,) = torch.autograd.grad(run(x).sum(), x)
    torch.compile(run, backend="tensord", dynamic=False)(x).sum().backward()
    torch.testing.assert_close(x.grad, wanted)
    backward = daemon.graph("backward")
    assert operators(backward).count(POOL) == 1
    assert graph_pb2.DTYPE_UINT8 not in [i.tensor.dtype for i in backward.inputs]


def _returned(x: Tensor) -> tuple[Tensor, Tensor]:
    return F.max_pool2d(x, **STEM, return_indices=True)


def _unpooled(x: Tensor) -> Tensor:
    return F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2)


@pytest.mark.parametrize(
    "run",
    [
        lambda x: F.max_pool2d(x, 6, 2, 3),
        lambda x: F.max_pool2d(x, 5, 1, 2, dilation=2),  # 81 windows over an element
        _returned,
        _unpooled,
    ],
    ids=["large", "many", "returned", "unpooled"],
)
def test_others_keep_their_indices(daemon: Any, run: Any) -> None:
    x = torch.randn(2, 3, 16, 16, requires_grad=True)

    def first(results: Any) -> Tensor:
        return results[0] if isinstance(results, tuple) else results

    (wanted,) = torch.autograd.grad(first(run(x)).sum(), x)
    first(torch.compile(run, backend="tensord", dynamic=False)(x)).sum().backward()
    torch.testing.assert_close(x.grad, wanted)
    assert POOL not in operators(daemon.graph("forward"))


def test_other_devices_and_sizes_that_vary(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = torch.compile(lambda x: F.max_pool2d(x, 2), backend="tensord", dynamic=True)
    compiled(torch.randn(2, 3, 16, 18, requires_grad=True)).sum().backward()
    monkeypatch.setattr(pool_offsets, "DEVICES", ("cuda",))
    compiled = torch.compile(lambda x: F.max_pool2d(x, 3), backend="tensord", dynamic=False)
    compiled(torch.randn(2, 3, 16, 18, requires_grad=True)).sum().backward()
    assert all(POOL not in operators(request.graph) for request in daemon.requests)


def test_windows_are_those_that_the_compiler_lowers(tensord_daemon: Any) -> None:
    """The largest that the pass takes. Values alone: one that were not lowered would run as the
    client's implementation of the operator."""
    kernels = [k for k in itertools.product(range(1, 7), repeat=2) if k[0] * k[1] <= 25]
    largest = [k for k in kernels if k[0] * k[1] >= 20]
    assert largest
    for kernel in largest:
        check(images(torch.float32, True), {"kernel_size": kernel, "stride": 1})
