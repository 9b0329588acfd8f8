# SPDX-License-Identifier: Apache-2.0
"""Views by strides and offset of a part of what the graph computes show all of it, as in eager."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensord
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")

strided, scattered = torch.as_strided, torch.as_strided_scatter
Function = Callable[[Tensor, Tensor], Tensor]
CASES: dict[str, Function] = {
    "shows what is before a slice": lambda x, y: strided((x * 2)[2:], (3,), (1,), 0) + y,
    "shows what is around a slice": lambda x, y: strided((x * 2)[2:4, 1:3], (8, 3), (3, 1), 0) + y,
    "shows what is behind a column": lambda x, y: strided((x * 2)[:, 1], (4, 3), (5, 1), 3) + y,
    "begins where its argument does": lambda x, y: strided((x * 2)[2:], (3,), (1,)) + y,
    "of one of several parts": lambda x, y: strided((x * 2).split(2)[1], (3,), (2,), 1) + y,
    "of another such view": lambda x, y: (
        strided(strided((x * 2)[2:], (4,), (2,), 3), (3,), (1,), 0) + y
    ),
    "of other shapes": lambda x, y: strided((x * 2).t()[1].view(-1, 1), (3,), (7,), 0) + y,
    "copies what is before a slice": lambda x, y: (
        torch.as_strided_copy((x * 2)[2:], (3,), (1,), 0) + y
    ),
    "writes before a slice": lambda x, y: scattered(x.relu()[2:], y, (3,), (1,), 1) + 1,
    "writes into a slice": lambda x, y: scattered(x.relu()[2:], y, (3,), (1,), 9) + 1,
    "writes across its beginning": lambda x, y: scattered(x.relu()[2:], y, (3,), (1,), 7) + 1,
    "writes twice": lambda x, y: (
        scattered(scattered(x.relu()[2:], y, (3,), (1,), 7), y, (3,), (2,), 3) + 1
    ),
}


def written_and_shown(x: Tensor, y: Tensor) -> Tensor:
    return strided(scattered(x.relu()[2:], y, (3,), (1,), 7), (9,), (1,), 4) + 1


@pytest.mark.parametrize("trains", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("function", CASES.values(), ids=CASES)
def test_as_in_eager(function: Function, trains: bool) -> None:
    x = torch.randn(6, 4, requires_grad=trains)
    y = torch.randn(3, requires_grad=trains)
    expected, result = function(x, y), torch.compile(function, backend="tensord")(x, y)
    torch.testing.assert_close(result, expected)
    assert result.stride() == expected.stride()
    if trains:
        weights = torch.randn_like(expected)
        torch.testing.assert_close(
            torch.autograd.grad(result, (x, y), weights),
            torch.autograd.grad(expected, (x, y), weights),
        )
    stats = tensord.stats()
    assert (stats["fallbacks"], stats["call_backs"]) == (0, 0)


def test_what_is_written_is_shown() -> None:
    """In inference: the gradient of what lies outside of the argument is eager's own affair, where
    `aot_eager` gives another."""
    test_as_in_eager(written_and_shown, trains=False)


OF_COMPLEX: dict[str, Callable[[Tensor], Tensor]] = {
    "of conjugates": lambda c: strided((c * 2).conj()[1:], (3,), (1,), 0) + 0,
    "of negatives": lambda c: strided(torch._neg_view(c * 2)[1:], (3,), (1,), 0) + 0,
    # Eager writes into a copy that is not expanded.
    "before what is expanded": lambda c: (
        scattered((c * 2)[1:2].expand(3, 4), c[0, :3], (3,), (1,), 0) + 1
    ),
    "into what is expanded": lambda c: (
        scattered((c * 2)[1:2].expand(3, 4), c[0, :3], (3,), (1,), 4) + 1
    ),
}


@pytest.mark.parametrize("function", OF_COMPLEX.values(), ids=OF_COMPLEX)
def test_memory_that_means_something_else(function: Callable[[Tensor], Tensor]) -> None:
    c = torch.randn(6, 4, dtype=torch.complex64)
    torch.testing.assert_close(torch.compile(function, backend="tensord")(c), function(c))
    assert tensord.stats()["fallbacks"] == 0


def _changed_and_shown(x: Tensor) -> Tensor:
    part = strided(x, (2, 2), (3, 1), 3)
    part.mul_(2)
    return torch.cat([part, part])


def _changed_elsewhere(x: Tensor) -> Tensor:
    x[1].mul_(2)
    x[:, 1:].add_(1)
    x.diagonal().sub_(1)
    return strided(x, (3, 3), (4, 1), 2) + strided(x[1:], (3,), (2,), 5)


@pytest.mark.parametrize("function", [_changed_and_shown, _changed_elsewhere])
def test_arguments_that_begin_within_memory(function: Callable[[Tensor], Tensor]) -> None:
    """What is changed of them is a copy to torch, which begins elsewhere."""
    for begin in (0, 1, 2):
        memory = torch.randn(5, 8)
        torch._dynamo.reset()
        results = []
        for run in (function, torch.compile(function, backend="tensord")):
            x = memory.clone()[:, begin:]
            results.append((run(x), x))
        torch.testing.assert_close(results[1], results[0])


def test_symbolic_offsets() -> None:
    def before(x: Tensor, y: Tensor) -> Tensor:
        rows = x.shape[0] // 3
        return strided((x * 2)[rows:], (3,), (1,), rows) + y

    compiled = torch.compile(before, backend="tensord", dynamic=True)
    y = torch.randn(3)
    for rows in (6, 9, 13):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(compiled(x, y), before(x, y))
    assert tensord.stats()["fallbacks"] == 0
