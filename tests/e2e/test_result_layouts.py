# SPDX-License-Identifier: Apache-2.0
"""Results lie as eager's where torch declares otherwise (capture/result_layouts.py)."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest
import torch
from tensord.capture.result_layouts import result_layouts
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

pytestmark = pytest.mark.usefixtures("tensord_daemon")

OPERATORS: dict[str, Callable[..., Tensor]] = {
    "copysign": torch.copysign,
    "floor_divide": torch.floor_divide,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "logaddexp": torch.logaddexp,
    "logaddexp2": torch.logaddexp2,
    "logical_and": torch.logical_and,
    "logical_xor": torch.logical_xor,
    "heaviside": torch.heaviside,
    "ldexp": torch.ldexp,
    "ldexp of whole numbers": lambda x, y: torch.ldexp(x.int(), y.int()),
    "ldexp of doubles": lambda x, y: torch.ldexp(x.double(), y.double()),
    "ldexp of floats by whole numbers": lambda x, y: torch.ldexp(x, y.int()),
    "ldexp of whole numbers by floats": lambda x, y: torch.ldexp(x.int(), y),
    "ldexp of complex numbers": lambda x, y: torch.ldexp(x + 0j, y + 0j),
    "ldexp of narrow floats": lambda x, y: torch.ldexp(x.half(), y.half()),
    "pow": lambda x, y: 2.0**x * 3.0**y,
    "dropout's gradient": lambda x, y: torch.ops.aten.native_dropout_backward(
        x, x.expand(torch.broadcast_shapes(x.shape, y.shape)) > 0, 2.0
    ),
    "angle": lambda x, y: torch.angle(x) * torch.angle(torch.complex(y, y)),
}


def _columns(*sizes: int) -> Tensor:
    return torch.randn(*reversed(sizes)).permute(*reversed(range(len(sizes))))


OPERANDS: dict[str, Callable[[], tuple[Tensor, Tensor]]] = {
    "a number": lambda: (_columns(10, 5), torch.randn(())),
    "of a number": lambda: (torch.randn(()), _columns(10, 5)),
    "a row": lambda: (_columns(10, 5), torch.randn(5)),
    "of a row": lambda: (torch.randn(1, 5), _columns(10, 5)),
    "a column": lambda: (_columns(10, 5), torch.randn(10, 1)),
    "both": lambda: (_columns(10, 5), _columns(10, 5)),
    "columns and rows": lambda: (_columns(10, 5), torch.randn(10, 5)),
    "rows and columns": lambda: (torch.randn(10, 5), _columns(10, 5)),
    "broadcast columns": lambda: (_columns(10, 1, 5), _columns(10, 5)),
    "with gaps": lambda: (torch.randn(5, 20)[:, ::2].t(), torch.randn(())),
    "channels last": lambda: (
        torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last), torch.randn(3, 1, 1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("operator", OPERATORS)
def test_lies_as_in_eager(operator: str) -> None:
    given = [operands() for operands in OPERANDS.values()]

    def function() -> list[Tensor]:
        return [OPERATORS[operator](x, y) for x, y in given]

    run = torch.compile(function, backend="tensord", fullgraph=True)
    _check(run(), function(), OPERANDS)


@pytest.mark.parametrize("operator", OPERATORS)
def test_sizes_that_change(operator: str) -> None:
    def function(x: Tensor, y: Tensor) -> list[Tensor]:
        return [OPERATORS[operator](x, y)]

    run = torch.compile(function, backend="tensord", dynamic=True)
    for size in (4, 7):
        x, y = _columns(10, size), torch.randn(size)
        _check(run(x, y), function(x, y), ["a row"])


@pytest.mark.parametrize("operator", OPERATORS)
def test_orders_that_torch_does_not_know(operator: str) -> None:
    """Which of two strides is larger depends on sizes that change."""

    def function(x: Tensor) -> list[Tensor]:
        return [OPERATORS[operator](x, x)]

    run = torch.compile(function, backend="tensord", fullgraph=True, dynamic=True)
    for sizes in ((8, 8, 2, 8), (5, 5, 3, 5)):
        x = torch.randn(sizes).transpose(0, -1)
        torch.testing.assert_close(run(x)[0], function(x)[0])


def _check(mine: list[Tensor], theirs: list[Tensor], names: Iterable[str]) -> None:
    for name, a, b in zip(names, mine, theirs, strict=True):
        assert a.stride() == b.stride(), name
        torch.testing.assert_close(a, b)


def test_losses_of_pixels() -> None:
    scores, classes = _columns(2, 3, 2, 2), torch.randint(3, (2, 2, 2)).permute(2, 1, 0)

    def function() -> list[Tensor]:
        return [torch.nn.functional.nll_loss(scores, classes, reduction="none")]

    run = torch.compile(function, backend="tensord", fullgraph=True)
    _check(run(), function(), ["pixels"])


def test_zeros_lie_as_what_they_replace() -> None:
    x = torch.randint(9, (2, 16, 3))

    def function() -> list[Tensor]:
        y, z = x.permute(0, 2, 1).float(), torch.eye(3)
        y.zero_()
        z.t().zero_()
        return [y, z]

    run = torch.compile(function, backend="tensord", fullgraph=True)
    _check(run(), function(), ["columns", "rows"])


def test_indices_decide_where_the_operand_does_not() -> None:
    operands = [
        torch.randn(sizes).permute(order)
        for sizes, order in (
            ((16, 16, 1), (2, 1, 0)),
            ((16, 16, 1), (2, 0, 1)),
            ((4, 3, 2, 1), (3, 1, 2, 0)),
            ((4, 1, 3, 5), (3, 1, 0, 2)),
            ((2, 3, 4, 1, 5), (3, 1, 4, 0, 2)),
        )
    ]

    def function() -> list[Tensor]:
        results = []
        for x in operands:
            for dim in range(x.dim()):
                rows: list[Any] = [slice(None)] * x.dim()
                rows[dim] = torch.arange(3) % x.size(dim)
                results.append(x[tuple(rows)])
                rows[-1] = torch.arange(2)[:, None] % x.size(-1)
                results.append(x[tuple(rows)])
            results.append(x[torch.arange(6).view(2, 3).t() % x.size(0)])
        return results

    run = torch.compile(function, backend="tensord", fullgraph=True)
    theirs = function()
    _check(run(), theirs, [f"result {number}" for number in range(len(theirs))])


def test_rows_are_summed_as_in_eager() -> None:
    """A product of one row has its stride, too: by it the library chooses how to sum."""
    column, x, row = torch.randn(17000, 1), torch.randn(1, 1, 1, 1), torch.randn(17000)

    def function() -> list[Tensor]:
        return [torch.hypot(x + 1, row) @ torch.minimum(column, x)]

    run = torch.compile(function, backend="tensord", fullgraph=True)
    assert torch.equal(run()[0], function()[0])


BATCH_NORMS: dict[str, Callable[[Tensor], Tensor]] = {
    "inference": lambda x: torch.nn.functional.batch_norm(
        x, torch.zeros(4, dtype=x.dtype), torch.ones(4, dtype=x.dtype)
    ),
    "training": lambda x: torch.nn.functional.batch_norm(x, None, None, training=True),
    "native": lambda x: torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)[0],
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("norm", BATCH_NORMS)
def test_batch_norms(norm: str, dtype: torch.dtype) -> None:
    """Row by row on CPUs, or in channels-last memory where the image is, from layers too."""
    images = {
        "columns": _columns(3, 4, 5).to(dtype),
        "rows": torch.randn(3, 4, 5, 6, dtype=dtype).transpose(2, 3),
        "channels last": torch.randn(2, 4, 5, 6, dtype=dtype).to(memory_format=torch.channels_last),
    }

    def function() -> list[Tensor]:
        return [BATCH_NORMS[norm](x) for x in images.values()]

    run = torch.compile(function, backend="tensord", fullgraph=True)
    for name, mine, theirs in zip(images, run(), function(), strict=True):
        assert mine.stride() == theirs.stride(), name
        torch.testing.assert_close(mine, theirs, rtol=2e-2, atol=2e-2)


def test_bounds_that_broadcast() -> None:
    operands = (
        torch.randn(4, 8, 2)[:, ::2, 0],
        _columns(4, 4, 1),
        torch.randn(4, 1, 4).mT[..., 0].unsqueeze(1) + 1,
    )
    run = torch.compile(torch.clamp, backend="tensord", fullgraph=True)
    mine, theirs = run(*operands), torch.clamp(*operands)
    assert mine.stride() == theirs.stride()
    torch.testing.assert_close(mine, theirs)


@pytest.mark.usefixtures("traces_data")
def test_bounds_of_what_data_counts() -> None:
    def function(x: Tensor, least: Tensor) -> Tensor:
        return torch.clamp(x[x[:, 0] > 0.3], min=least)

    run = torch.compile(function, backend="tensord", fullgraph=True)
    x = torch.rand(20, 4)
    for least in (torch.rand(4), torch.rand(1, 4), torch.rand(())):
        torch.testing.assert_close(run(x, least), function(x, least))


def test_transforms_on_cuda() -> None:
    """As cuFFT packs them: on an H200 strides are (1, 6, 30) where 2.11 declares (5, 1, 30)."""
    fft = torch.ops.aten._fft_c2c.default

    def function(x: Tensor) -> Tensor:
        return torch.ops.aten._fft_c2c(x, [0, 1], 0, False)

    with FakeTensorMode():
        x = torch.empty(5, 6, 4, dtype=torch.complex64, device="cuda").transpose(0, 1)
        graph = make_fx(function, decomposition_table={fft: result_layouts(())[fft]})(x).graph
    (call,) = graph.find_nodes(op="call_function", target=fft)
    operand = call.args[0].meta["val"]
    assert call.args[1] == [1, 2]
    assert (operand.shape, operand.stride()) == ((4, 5, 6), (1, 24, 4))
    (result,) = graph.output_node().all_input_nodes
    assert (result.meta["val"].shape, result.meta["val"].stride()) == ((6, 5, 4), (1, 6, 30))


def test_transforms_to_real_numbers_on_cuda() -> None:
    """All dimensions of a transposed tensor: the first two in the order that they have in memory,
    then the last; on an H200 strides are (12, 60, 1) where 2.11 declares (72, 12, 1)."""
    fft = torch.ops.aten._fft_c2r.default

    def function(x: Tensor) -> Tensor:
        return torch.ops.aten._fft_c2r(x, [0, 1, 2], 0, 12)

    with FakeTensorMode():
        x = torch.empty_strided((5, 6, 7), (1, 5, 30), dtype=torch.complex64, device="cuda")
        graph = make_fx(function, decomposition_table={fft: result_layouts(())[fft]})(x).graph
    (call,) = graph.find_nodes(op="call_function", target=fft)
    assert call.args[0].meta["val"].stride() == (5, 1, 30)
    (result,) = graph.output_node().all_input_nodes
    assert result.meta["val"].stride() == (12, 60, 1)


def test_random_numbers_of_sizes_that_data_decides() -> None:
    def function(x: Tensor) -> Tensor:
        chosen = x[x.sum(1) > 0]
        return torch.normal(chosen.t(), 1.0) * 0 + chosen.t()

    x = torch.randn(20, 6)
    run = torch.compile(function, backend="tensord", dynamic=True)
    torch.testing.assert_close(run(x), function(x))


@pytest.mark.parametrize("one", ["mean", "deviation", "both"])
def test_random_numbers_lie_row_by_row(one: str) -> None:
    mean, deviation = _columns(40, 50), _columns(40, 50).abs()

    def function() -> Tensor:
        return torch.normal(
            mean if one != "deviation" else 0.0, deviation if one != "mean" else 1.0
        )

    run = torch.compile(function, backend="tensord", fullgraph=True)
    assert run().stride() == function().stride() == (50, 1)
    # Each has its own mean and deviation, wherever that lies.
    torch.manual_seed(0)
    drawn = torch.stack([run() for _ in range(400)])
    expected = mean if one != "deviation" else torch.zeros(40, 50)
    spread = deviation if one != "mean" else torch.ones(40, 50)
    assert ((drawn.mean(0) - expected).abs() <= 6 * spread / 20 + 1e-6).all()
