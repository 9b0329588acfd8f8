# SPDX-License-Identifier: Apache-2.0
"""Log-softmax of long rows in training: two numbers of a row are saved, and nothing else."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from tensord.passes.joint import softmax_statistics

LONG = softmax_statistics.LEAST_CLASSES


def operators(graph):
    return [node.op for node in graph.nodes]


def test_statistics_are_the_maximum_and_the_logarithm_of_the_sum():
    x = torch.randn(3, 7, 5) * 30
    maximum, logarithm = softmax_statistics.statistics(x, 1)
    assert torch.equal(maximum, x.amax(1, keepdim=True))
    torch.testing.assert_close(x - maximum - logarithm, x.log_softmax(1))


def of_wide_logits(x, target):
    return F.cross_entropy(x.float(), target)


def of_narrow_logits(x, target):
    """As torch decomposes a cross entropy under autocast."""
    return F.nll_loss(F.log_softmax(x, 1).float(), target)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (of_wide_logits, torch.float32),
        (of_wide_logits, torch.bfloat16),
        (of_narrow_logits, torch.bfloat16),
        (of_narrow_logits, torch.float16),
    ],
)
def test_backward_reads_the_logits_and_two_numbers_of_a_row(daemon, function, dtype):
    x = torch.randn(6, LONG, dtype=dtype, requires_grad=True)
    target = torch.tensor([3, 0, LONG - 1, -100, 5, 5])

    def loss(x):
        return function(x, target)

    expected = loss(x)
    (wanted,) = torch.autograd.grad(loss(x.double()), x)  # eager rounds narrow ones in between
    got = torch.compile(loss, backend="tensord", fullgraph=True)(x)
    got.backward()
    # A narrow log-softmax may be rounded or not.
    rounding = 0 if function is of_wide_logits else torch.finfo(dtype).eps
    torch.testing.assert_close(got, expected, rtol=max(1.3e-6, rounding), atol=1e-5)
    torch.testing.assert_close(x.grad, wanted)
    forward, backward = daemon.graph("forward"), daemon.graph("backward")
    assert operators(forward).count("tensord::softmax_statistics") == 1
    assert "tensord::softmax_statistics" not in operators(backward)
    assert "aten::_log_softmax" not in operators(forward) + operators(backward)
    sizes = [[s.constant for s in i.tensor.sizes] for i in backward.inputs]
    assert sizes.count([6, 1]) == 2
    assert sizes.count([6, LONG]) == 1


def test_of_an_image_over_its_channels(daemon):
    x = torch.randn(2, LONG, 3, requires_grad=True)
    target = torch.randint(0, LONG, (2, 3))
    (wanted,) = torch.autograd.grad(F.cross_entropy(x, target), x)
    torch.compile(lambda x: F.cross_entropy(x, target), backend="tensord")(x).backward()
    torch.testing.assert_close(x.grad, wanted)
    assert operators(daemon.graph("forward")).count("tensord::softmax_statistics") == 1


@pytest.mark.parametrize("length", [5, 1000, LONG])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_infinities_and_nan_are_as_in_eager(length, dtype):
    x = torch.randn(5, length, dtype=dtype)
    x[0, 1] = torch.inf
    x[1, :2] = torch.tensor([-torch.inf, torch.nan])
    x[2] = -torch.inf
    x[3, :-1] = -torch.inf
    x[4, 1:3] = torch.tensor([torch.inf, -torch.inf])

    def results(x):
        rows = x.log_softmax(1)
        return rows, rows.exp(), F.cross_entropy(x, torch.zeros(5, dtype=torch.long))

    got = torch.compile(results, backend="tensord", fullgraph=True)(x)
    torch.testing.assert_close(got, results(x), equal_nan=True)
    x.requires_grad_()
    got = torch.compile(results, backend="tensord", fullgraph=True)(x)
    torch.testing.assert_close(got, results(x), equal_nan=True)


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.randn(6, LONG - 1, requires_grad=True),
        lambda: torch.randn(6, LONG, dtype=torch.float64, requires_grad=True),
        lambda: torch.randn(LONG, 6).t().requires_grad_(),  # laid out otherwise than the result
    ],
    ids=["short", "double", "transposed"],
)
def test_others_stay_torchs(daemon, make):
    x = make()
    wanted = F.log_softmax(x, 1)
    (grad,) = torch.autograd.grad(wanted.sin().sum(), x)
    got = torch.compile(lambda x: F.log_softmax(x, 1).sin(), backend="tensord")(x)
    got.sum().backward()
    torch.testing.assert_close(got, wanted.sin())
    torch.testing.assert_close(x.grad, grad)
    assert "tensord::softmax_statistics" not in operators(daemon.graph("forward"))


def test_a_result_that_leaves_is_the_same(daemon):
    x = torch.randn(4, LONG, requires_grad=True)
    got = torch.compile(lambda x: F.log_softmax(x, -1), backend="tensord")(x)
    torch.testing.assert_close(got, F.log_softmax(x, -1))
    assert got.is_contiguous()


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.bfloat16])
def test_a_cast_that_the_user_wrote_rounds_gradients(daemon, dtype):
    x = torch.randn(16, 8, requires_grad=True)
    target = torch.randint(8, (16,))

    def loss(x):
        return F.nll_loss(F.log_softmax(x, 1).to(dtype).float(), target) * 1.37

    (wanted,) = torch.autograd.grad(loss(x), x)
    got = torch.compile(loss, backend="tensord", fullgraph=True)(x)
    torch.testing.assert_close(torch.autograd.grad(got, x)[0], wanted, rtol=1e-4, atol=1e-6)
