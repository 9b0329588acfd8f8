# SPDX-License-Identifier: Apache-2.0
"""Complex numbers in kernels of our own: how many kernels, conjugates, Python's numbers, memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from both_ways import both_ways
from tensord.passes.joint.complex_numbers import complex_numbers
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.usefixtures("tensord_daemon")
aten = torch.ops.aten
C64, C128 = torch.complex64, torch.complex128


def rand(*sizes: int, dtype: torch.dtype = C64, grad: bool = False) -> Tensor:
    return torch.randn(sizes, dtype=dtype, requires_grad=grad)


def one_kernel(function: Callable[..., Any], *inputs: Any, kernels: int = 1) -> Any:
    """The compiled function's results, eager's, of one program of so many kernels alone."""
    tensord.reset_stats()
    results = torch.compile(function, backend="tensord", fullgraph=True)(*inputs)
    torch.testing.assert_close(results, function(*inputs))
    stats = tensord.stats()
    assert stats["kernels"] == kernels and stats["call_backs"] == 0, stats["call_back_reasons"]
    return results


# -- kernels --------------------------------------------------------------------------------------


def rotary(x: Tensor, turns: Tensor) -> Tensor:
    """Llama 4's: neighbours in pairs are complex numbers, which the positions' angles turn."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns[:, :, None, :]).flatten(3).type_as(x)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_rotary_embedding_is_one_kernel(dtype: torch.dtype) -> None:
    turns = torch.polar(torch.ones(2, 5, 8), torch.randn(2, 5, 8))
    one_kernel(rotary, torch.randn(2, 5, 3, 16, dtype=dtype), turns)


def test_its_gradient_is_one_kernel() -> None:
    turns = torch.polar(torch.ones(2, 5, 8), torch.randn(2, 5, 8))
    x = torch.randn(2, 5, 3, 16, requires_grad=True)
    tensord.reset_stats()
    result = torch.compile(rotary, backend="tensord", fullgraph=True)(x, turns)
    weights = torch.randn(2, 5, 3, 16)
    (gradient,) = torch.autograd.grad(result, x, weights)
    (wanted,) = torch.autograd.grad(rotary(x, turns), x, weights)
    torch.testing.assert_close(gradient, wanted)
    stats = tensord.stats()
    assert stats["graphs"] == 2 and stats["kernels"] == 2 and stats["call_backs"] == 0


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: a * b + a,
        lambda a, b: (a / b).conj() * 2 - b,
        lambda a, b: torch.view_as_real(a * b).flatten().half(),
        lambda a, b: (a.real * b.imag + (a + b).abs()).exp(),
        lambda a, b: torch.where(a.real > 0, a, b) * 1j,
        lambda a, b: torch.cat([a * b, b.flip(0)]),
        lambda a, b: torch.complex(a.real, b.imag).exp(),
        lambda a, b: torch.polar(a.abs(), b.angle()),
        lambda a, b: (a == b) | (a != 0),
    ],
)
def test_chains_are_one_kernel(function: Any) -> None:
    one_kernel(function, rand(13), rand(13))
    one_kernel(function, rand(7, 3, dtype=C128).t(), rand(3, 7, dtype=C128))


def test_sums() -> None:
    one_kernel(lambda a: (a * a).sum(0), rand(5, 7))
    one_kernel(lambda a: torch.view_as_real(a * 2).sum(), rand(5, 7))


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.view_as_real(a * b).flatten().cumsum(0),
        lambda a, b: torch.view_as_real(a * b).cumsum(-1),
        lambda a, b: torch.view_as_real(a * b).cumsum(0),
        lambda a, b: torch.view_as_real(a * b).cumprod(1).flatten(1).cumsum(1),
    ],
)
def test_prefixes_of_parts(function: Any) -> None:
    both_ways(function, rand(5, 7), rand(5, 7))


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_means_of_real_parts() -> None:
    both_ways(lambda a: (a.mean(dtype=torch.float32), a.mean(0, dtype=torch.float64)), rand(5, 7))


def test_numbers_at_the_end_of_the_range() -> None:
    """Results are finite where their size is beyond the range, or that of what they are made of."""
    parts = [3e38, -3e38, 1e-45, 0.0, 1.0, 2e31, 1e30]
    z = torch.tensor([complex(re, im) for re in parts for im in parts])
    both_ways(lambda a: (a.sqrt(), a.log(), a.log2()), z)
    e = torch.tensor([89.5 + 1.57079j, 89.5 - 1.57079j, 88 + 1j, 80 - 2j, 100 + 0j, -200 + 1j])
    both_ways(lambda a: a.exp(), e)
    both_ways(lambda a: a.exp(), e.to(C128) * 8)


# -- conjugates and numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a.conj().mul(a).sum().real,
        lambda a: a.conj().imag + a.real,
        lambda a: a.conj().t().contiguous().conj(),
        lambda a: a.conj().resolve_conj(),
        lambda a: (a.conj(), a * 2),  # a result that keeps its bit
        lambda a: (a.mH, a.conj().view(-1)[1:] * 3),
    ],
)
def test_conjugates(function: Any) -> None:
    both_ways(function, rand(3, 3))
    both_ways(function, rand(3, 3, grad=True))


@pytest.mark.parametrize(
    "function",
    [
        lambda a: a * 2j + (1 + 3j),
        lambda a: (2j - a) / (1 - 1j),
        lambda a: a.masked_fill(a.abs() > 1, 1j),
        lambda a: torch.where(a.abs() > 1, a, 1j),
        lambda a: a + torch.full((3,), 2 - 1j),
        lambda a: a + torch.full_like(a, 1j),
        lambda a: a == 1j,
        lambda a: a.real * 1j,
    ],
)
def test_numbers_of_python(function: Any) -> None:
    tensord.reset_stats()
    both_ways(function, rand(3))
    assert tensord.stats()["call_backs"] == 0, tensord.stats()["call_back_reasons"]


# -- memory ---------------------------------------------------------------------------------------


def swapped(x: Tensor) -> Tensor:
    """The parts of each number change places, where they lie."""
    x.copy_(torch.complex(x.imag, x.real))
    return x + 1


def in_parts(x: Tensor) -> Tensor:
    torch.view_as_real(x)[..., 0].add_(1)
    x[1:].mul_(2j)
    return x.sum()


@pytest.mark.parametrize("function", [swapped, in_parts])
@pytest.mark.parametrize("size", [4, 33, 1000])
def test_inputs_are_written(function: Any, size: int) -> None:
    # A sum's real part may be small beside what it sums.
    both_ways(function, rand(size), calls=2, rough=max(1.0, size / 50))


def aliases(x: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    return y, torch.view_as_real(y), y.t(), y.real


def test_results_share_memory() -> None:
    both_ways(aliases, rand(4, 3))


def test_the_library_reads_and_gives_complex_numbers() -> None:
    both_ways(lambda a, b: (a * 2) @ (b + 1).t() * 3, rand(4, 5), rand(3, 5))
    both_ways(lambda a: torch.fft.fft(torch.view_as_complex(a * 2)).abs(), torch.randn(6, 2))


def test_sizes_are_symbols() -> None:
    function = torch.compile(lambda a, b: a * b + 1j, backend="tensord", dynamic=True)
    for size in (5, 64, 17):
        a, b = rand(size, 3), rand(3)
        torch.testing.assert_close(function(a, b), a * b + 1j)
    assert tensord.stats()["graphs"] == 1


@pytest.mark.parametrize("sizes", [(0, 3), ()])
def test_few_elements(sizes: tuple[int, ...]) -> None:
    both_ways(lambda a: (a * a + 1j, a.sum(), a.abs()), rand(*sizes))


def test_parts_of_more_memory() -> None:
    both_ways(lambda a: a * 2, rand(9, 4)[1::2, 1:3])
    both_ways(lambda x: torch.view_as_complex(x) * 2, torch.randn(9, 8)[1::2, 2:4])


# -- the pass -------------------------------------------------------------------------------------


def test_a_result_keeps_its_bit() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    conjugate = graph.call_function(aten._conj.default, (x,))
    part = graph.call_function(aten.slice.Tensor, (conjugate, 0, 1))
    doubled = graph.call_function(aten.mul.Tensor, (part, 2))
    graph.output((conjugate, doubled))
    with FakeTensorMode():
        x.meta["val"] = torch.ones(3, dtype=C64)
        for node in (conjugate, part, doubled):
            values = [a.meta["val"] if isinstance(a, fx.Node) else a for a in node.args]
            node.meta["val"] = node.target(*values)
    module = fx.GraphModule({}, graph)
    assert complex_numbers(module) == 1
    module.recompile()
    targets = [node.target for node in module.graph.nodes if node.op == "call_function"]
    assert aten._conj.default in targets and aten._conj_physical.default in targets
    given = torch.randn(3, dtype=C64)
    first, second = module(given)
    assert first.is_conj() and not second.is_conj()
    torch.testing.assert_close((first, second), (given.conj(), given.conj()[1:] * 2))
