# SPDX-License-Identifier: Apache-2.0
"""Integers divided by 0: an error where eager raises it, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")

DIVISIONS: dict[str, Callable[[Any, Any], Tensor]] = {
    "floor_divide": torch.floor_divide,
    "remainder": torch.remainder,
    "fmod": torch.fmod,
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
}
DTYPES = [torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend="tensord", dynamic=False, fullgraph=True, **options)


def numbers(*shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    return torch.randint(1, 100, shape, generator=torch.Generator().manual_seed(1)).to(dtype)


def raises_as_eager(run: Any, function: Any, *inputs: Any) -> None:
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
        function(*inputs)
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError$"):
        run(*inputs)


@pytest.mark.parametrize("name", DIVISIONS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_zero_is_an_error_of_that_call_alone(name: str, dtype: torch.dtype) -> None:
    """In whole vectors, in tails, and as the divisor of all."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        return DIVISIONS[name](x, y) + 1

    x, y, one = numbers(83, dtype=dtype), numbers(83, dtype=dtype), numbers(1, dtype=dtype)
    run, run_one = compiled(function), compiled(function)
    assert torch.equal(run(x, y), function(x, y))
    for place in (0, 31, 82):
        bad = y.clone()
        bad[place] = 0
        raises_as_eager(run, function, x, bad)
        assert torch.equal(run(x, y), function(x, y))
    assert torch.equal(run_one(x, one), function(x, one))
    raises_as_eager(run_one, function, x, one * 0)
    assert tensord.stats()["fallbacks"] == 0


@pytest.mark.parametrize("name", DIVISIONS)
def test_numbers_beside_tensors(name: str) -> None:
    x = numbers(20)
    for divisor in (7, -7):
        function = lambda x, n=divisor: DIVISIONS[name](x, n)  # noqa: E731
        assert torch.equal(compiled(function)(x), function(x))
    raises_as_eager(compiled(lambda x: DIVISIONS[name](x, 0)), lambda x: DIVISIONS[name](x, 0), x)


def test_floats_are_divided_as_ever() -> None:
    x, y = torch.randn(20), torch.zeros(20)
    for name, function in DIVISIONS.items():
        torch.testing.assert_close(
            compiled(function)(x, y), function(x, y), equal_nan=True, msg=name
        )


def test_what_nobody_divides_is_no_error() -> None:
    """Behind padding, and in rows that are shorter than a vector."""

    def padded(x: Tensor, y: Tensor) -> Tensor:
        return F.pad(x // y, (3, 2)) + torch.cat([x % y, x, x])[: x.numel() + 5]

    def rows(x: Tensor, y: Tensor) -> Tensor:
        return (x.view(-1, 3) // y.view(-1, 3)).sum(1)

    for function in (padded, rows):
        x, y = numbers(21), numbers(21) - 200
        run = compiled(function)
        assert torch.equal(run(x, y), function(x, y))
        y[20] = 0
        raises_as_eager(run, function, x, y)


def test_both_sides_of_a_choice_are_computed() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return torch.where(y != 0, x // y, 0)

    x, y = numbers(20), numbers(20)
    y[3] = 0
    raises_as_eager(compiled(function), function, x, y)


def test_both_sides_of_a_choice_by_position_are_computed() -> None:
    """Of pairs, whose two elements are computed side by side."""

    def function(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        return torch.where(torch.arange(2) == 0, x // y, z)

    run, x, y, z = compiled(function), numbers(20, 2), numbers(20, 2), numbers(20, 2)
    assert torch.equal(run(x, y, z), function(x, y, z))
    y[3, 1] = 0
    raises_as_eager(run, function, x, y, z)


def test_parallel_rows() -> None:
    def function(x: Tensor, y: Tensor) -> Tensor:
        return x % y

    run, x, y = compiled(function), numbers(2000, 300), numbers(2000, 300)
    assert torch.equal(run(x, y), function(x, y))
    y[::100] = 0
    raises_as_eager(run, function, x, y)


@pytest.mark.parametrize("how", ["option", "variable"])
def test_nobody_checks_where_that_is_not_wanted(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if how == "variable":
        monkeypatch.setenv("TENSORD_UNCHECKED", "1")
    run = compiled(torch.floor_divide, options={"unchecked": True} if how == "option" else {})
    assert run(numbers(5), numbers(5) * 0).shape == (5,)


def test_through_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_NATIVE", "0")
    raises_as_eager(compiled(torch.remainder), torch.remainder, numbers(5), numbers(5) * 0)
