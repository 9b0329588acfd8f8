# SPDX-License-Identifier: Apache-2.0
"""Counter-based random numbers: published vectors, torch's seeds, forward against backward."""

from __future__ import annotations

import math
from pathlib import Path

import interpreter
import pytest
import torch
import torch.nn.functional as F
from tensord import philox

MASK = 0xFFFFFFFF

LINES = [
    line.split()
    for line in (Path(__file__).parents[1] / "golden/philox_vectors.txt").read_text().splitlines()
]
WORDS = [[int(w, 16) for w in words] for kind, *words in LINES if kind == "words"]


@pytest.mark.parametrize("words", WORDS)
def test_published_vectors(words):
    assert [int(w) for w in philox.philox4x32(words[:4], words[4:6])] == words[6:]


@pytest.mark.parametrize("runtime_library", [True, False])
@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_shared_vectors(kind, runtime_library, monkeypatch):
    """Of the runtime library and of plain tensor arithmetic."""
    if not runtime_library:
        monkeypatch.setattr(philox, "_fill_functions", dict)
    checked = 0
    for line_kind, *numbers in LINES:
        if line_kind != kind or int(numbers[2]) > 2000:
            continue
        seed, stream, element = map(int, numbers[:3])
        made = getattr(philox, kind)(
            torch.tensor(seed), [element + 1], torch.float32, torch.device("cpu"), stream
        )[element].item()
        if kind == "uniform":
            assert made == int(numbers[3]) * 2.0**-24
        else:
            assert made == pytest.approx(float(numbers[3]), rel=1e-6, abs=1e-6)
        checked += 1
    assert checked == 30


def test_uniform_takes_a_word_of_the_block_of_four_elements():
    seed = torch.tensor(0x0123456789ABCDEF)
    got = philox.uniform(seed, [3, 4], torch.float32, torch.device("cpu"), 7)
    for k in (0, 5, 11):
        word = philox.philox4x32([k // 4, 0, 7, 0], [0x89ABCDEF, 0x01234567])[k % 4]
        assert got.flatten()[k].item() == (int(word) >> 8) * 2.0**-24


def test_normal_is_box_muller_of_a_half_of_a_block():
    got = philox.normal(torch.tensor(-5), [6], torch.float32, torch.device("cpu"), 1)
    key = [(-5) & MASK, ((-5) >> 32) & MASK]
    words = philox.philox4x32([1, 0, 1, 0], key)
    u0, u1 = ((int(w) >> 8) * 2.0**-24 for w in words[2:])
    expected = math.sqrt(-2 * math.log(1 - u0)) * math.cos(2 * math.pi * u1)
    assert got[3].item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("kind", ["uniform", "normal"])
def test_the_default_device_decides_nothing(kind):
    seed, fill = torch.tensor(3), getattr(philox, kind)
    expected = fill(seed, [2, 3], torch.float32, torch.device("cpu"), 0)
    with torch.device("meta"):  # has no memory to write to, like a GPU's for the CPU
        got = fill(seed, [2, 3], torch.float32, torch.device("cpu"), 0)
    assert got.device.type == "cpu"
    assert torch.equal(got, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_rand_is_below_one_and_even(daemon, dtype):
    f = torch.compile(lambda: torch.rand(200_000, dtype=dtype), backend="tensord")
    x = f()
    assert x.dtype == dtype and 0 <= x.min() and x.max() < 1
    assert x.double().mean().item() == pytest.approx(0.5, abs=0.01)
    assert x.double().var().item() == pytest.approx(1 / 12, abs=0.005)
    assert daemon.requests


def test_randn_is_normal(daemon):
    x = torch.compile(lambda y: torch.randn_like(y), backend="tensord")(torch.empty(100, 1000))
    assert x.mean().item() == pytest.approx(0, abs=0.02)
    assert x.std().item() == pytest.approx(1, abs=0.02)
    assert (x.abs() > 3).double().mean().item() == pytest.approx(0.0027, abs=0.001)


def test_seed_follows_manual_seed(daemon):
    f = torch.compile(lambda x: F.dropout(x, 0.5) + torch.rand(50), backend="tensord")
    x = torch.ones(50)
    torch.manual_seed(3)
    a, b = f(x), f(x)
    torch.manual_seed(3)
    c, d = f(x), f(x)
    assert torch.equal(a, c) and torch.equal(b, d) and not torch.equal(a, b)


def test_streams_of_one_graph_differ(daemon):
    f = torch.compile(lambda: (torch.rand(64), torch.rand(64), torch.randn(64)), backend="tensord")
    a, b, _ = f()
    assert not torch.equal(a, b)
    nodes = daemon.graph("inference").nodes
    assert [n.op for n in nodes].count("tensord::seed") == 1
    streams = [n.args[4].integer.constant for n in nodes if "philox" in n.op]
    assert streams == [0, 1, 2]


def test_dropout_mask_is_the_same_in_backward(daemon):
    f = torch.compile(lambda x: F.dropout(x.sin(), 0.4), backend="tensord", fullgraph=True)
    x = torch.full((1000,), 0.7, requires_grad=True)
    y = f(x)
    y.sum().backward()
    kept = y != 0
    assert 450 < kept.sum() < 750
    torch.testing.assert_close(y[kept], torch.full_like(y[kept], math.sin(0.7) / 0.6))
    torch.testing.assert_close(x.grad, kept * math.cos(0.7) / 0.6)


def test_only_the_seed_is_saved(daemon):
    def f(x, w):
        return (F.dropout(x @ w, 0.4) @ w).relu()

    torch.compile(f, backend="tensord", fullgraph=True)(
        torch.randn(8, 8, requires_grad=True), torch.randn(8, 8, requires_grad=True)
    ).sum().backward()
    backward = daemon.graph("backward")
    assert [n.op for n in backward.nodes].count("tensord::philox_uniform") == 1
    assert "tensord::seed" not in [n.op for n in backward.nodes]
    assert [n.op for n in daemon.graph("forward").nodes].count("tensord::seed") == 1
    bools = [i for i in backward.inputs if i.tensor.dtype == interpreter.pb.DTYPE_BOOL]
    mask_is_saved = any(len(i.tensor.sizes) == 2 and not i.is_parameter for i in bools)
    # relu's own mask may be saved; dropout's is recomputed from the seed, a scalar of int64.
    seeds = [i for i in backward.inputs if i.tensor.dtype == interpreter.pb.DTYPE_INT64]
    assert [len(i.tensor.sizes) for i in seeds] == [0]
    assert not mask_is_saved or len(bools) == 1


def test_a_mask_that_is_returned_lies_as_in_eager(daemon):
    def function(x):
        return torch.native_dropout(x.sin().t(), 0.5, True)

    x = torch.randn(3, 5, requires_grad=True)
    for ours, eager in zip(torch.compile(function, backend="tensord")(x), function(x), strict=True):
        assert (ours.dtype, ours.shape, ours.stride()) == (eager.dtype, eager.shape, eager.stride())


def test_dynamic_dropout(daemon):
    f = torch.compile(lambda x: F.dropout(x, 0.5) * 2, backend="tensord", dynamic=True)
    for size in (5, 9):
        x = torch.ones(size, 3, requires_grad=True)
        y = f(x)
        y.sum().backward()
        torch.testing.assert_close(x.grad, y.detach())
    assert len(daemon.requests) == 2


def test_bernoulli(daemon):
    f = torch.compile(lambda p: (torch.bernoulli(p), F.dropout1d(p[None], 0.5)), backend="tensord")
    p = torch.tensor([[0.0, 1.0, 0.5]]).expand(400, 3).contiguous()
    drawn, dropped = f(p)
    assert drawn[:, 0].sum() == 0 and drawn[:, 1].sum() == 400 and 150 < drawn[:, 2].sum() < 250
    rows = dropped[0]
    assert all(torch.equal(r, 2 * q) or not r.any() for r, q in zip(rows, p, strict=True))


_COUNT = 40000
_EULER = 0.5772156649


# Of each: what draws, a function of the numbers that is tested, its mean and variance, the bounds.
@pytest.mark.parametrize(
    "draw, of, mean, variance, low, high",
    [
        (lambda x: x.uniform_(-2, 4), None, 1, 3, -2, 4),
        (lambda x: x.exponential_(2.0), None, 0.5, 0.25, 0, 20),
        (lambda x: x.exponential_(1.0), torch.log, -_EULER, math.pi**2 / 6, -40, 4),
        (lambda x: x.geometric_(0.25), None, 4, 12, 1, 100),
        (lambda x: x.cauchy_(1.0, 2.0), lambda x: ((x - 1) / 2).atan(), 0, math.pi**2 / 12, -2, 2),
        (lambda x: x.log_normal_(0.5, 0.25), torch.log, 0.5, 0.0625, -2, 3),
        (lambda x: x.normal_(1.0, 3.0), None, 1, 9, -20, 20),
        (lambda x: torch.normal(x + 2, 0.5), None, 2, 0.25, -2, 6),
        (lambda x: torch.normal(1.0, x + 2), None, 1, 4, -20, 20),
        (lambda x: torch.normal(x + 1, x + 2), None, 1, 4, -20, 20),
        (lambda x: torch.randint(-3, 7, x.shape), None, 1.5, 8.25, -3, 6),
        (lambda x: torch.randint(1 << 31, x.shape), None, 2**30, 2**60 / 3, 0, 2**31 - 1),
        (lambda x: torch.randint_like(x, 10), None, 4.5, 8.25, 0, 9),
        (lambda x: torch.randint_like(x, -5, 5, dtype=torch.int8), None, -0.5, 8.25, -5, 4),
        (lambda x: F.rrelu(x - 1, 0.25, 0.75, training=True), None, -0.5, 1 / 48, -0.75, -0.25),
    ],
)
def test_distributions(daemon, draw, of, mean, variance, low, high):
    """Eager's types and moments, within five standard errors; bounds; from the seed alone."""
    run = torch.compile(draw, backend="tensord")
    torch.manual_seed(3)
    first = run(torch.zeros(_COUNT))
    eager = draw(torch.zeros(_COUNT))
    assert (first.dtype, first.shape, first.stride()) == (eager.dtype, eager.shape, eager.stride())
    numbers = (of(first) if of else first).double()
    assert low <= numbers.min() and numbers.max() <= high
    assert abs(numbers.mean() - mean) < 5 * (variance / _COUNT) ** 0.5
    assert 0.9 * variance < numbers.var() < 1.1 * variance
    assert not torch.equal(run(torch.zeros(_COUNT)), first)
    torch.manual_seed(3)
    assert torch.equal(run(torch.zeros(_COUNT)), first)
    drawn = {n.op for n in daemon.graph("inference").nodes if n.op.startswith("tensord::")}
    assert drawn & {"tensord::philox_uniform", "tensord::philox_normal"}


def test_slopes_of_rrelu_are_those_of_backward(daemon):
    run = torch.compile(lambda x: F.rrelu(x, training=True), backend="tensord")
    x = torch.randn(1000, requires_grad=True)
    y = run(x)
    y.sum().backward()
    torch.testing.assert_close(x.grad, (y / x).detach())


def test_rare_forms_stay_torchs(daemon):
    x = torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)
    f = torch.compile(lambda x: (F.dropout(x, 1.0), torch.rand_like(x)), backend="tensord")
    dropped, random = f(x)
    assert not dropped.any()
    assert random.stride() == x.stride()


def test_no_dropout_in_eval(daemon):
    f = torch.compile(lambda x: F.dropout(x, 0.5, training=False) + 1, backend="tensord")
    torch.testing.assert_close(f(torch.ones(5)), torch.full((5,), 2.0))
    assert "tensord::seed" not in [n.op for n in daemon.graph("inference").nodes]
