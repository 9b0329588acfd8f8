# SPDX-License-Identifier: Apache-2.0
"""Operators that change their arguments get these, not copies, where nobody can tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensord
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")

# The addresses of what the operators changed.
_changed: list[int] = []


@torch.library.custom_op("tensord_in_place::scale_", mutates_args={"x"})
def _scale_(x: Tensor, factor: float) -> None:
    _changed.append(x.data_ptr())
    x.mul_(factor)


@torch.library.custom_op("tensord_in_place::double", mutates_args={"out"})
def _double(x: Tensor, out: Tensor) -> None:
    _changed.append(out.data_ptr())
    out.copy_(x * 2)


@torch.library.custom_op("tensord_in_place::swap_", mutates_args={"a", "b"})
def _swap_(a: Tensor, b: Tensor) -> Tensor:
    _changed.extend([a.data_ptr(), b.data_ptr()])
    before = a.clone()
    a.copy_(b)
    b.copy_(before)
    return before.sum()


@_swap_.register_fake
def _(a: Tensor, b: Tensor) -> Tensor:
    return a.new_empty(())


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    _changed.clear()
    yield


def _check(
    function: Callable[..., Any], inputs: list[Tensor], saved: int, **options: Any
) -> list[list[int]]:
    """Eager's results and changed inputs, call after call, with so many clones and copies left out.
    Gives the addresses that the operators of each call changed."""
    run = torch.compile(function, backend="tensord", fullgraph=True, **options)
    mine, theirs = [x.clone() for x in inputs], [x.clone() for x in inputs]
    addresses = []
    for _ in range(3):
        _changed.clear()
        result = run(*mine)
        addresses.append(list(_changed))
        torch.testing.assert_close(result, function(*theirs))
        torch.testing.assert_close(mine, theirs)
    stats = tensord.stats()
    assert stats["copies_saved"] == saved, stats
    assert (stats["graphs"], stats["fallbacks"]) == (1, 0)
    _changed.clear()
    run(*mine)
    assert len(_changed) == len(addresses[0])
    return [addresses[0], [x.data_ptr() for x in mine]]


def test_an_argument_is_changed_where_it_lies() -> None:
    def function(x: Tensor) -> Tensor:
        before = x + 1
        _scale_(x, 3.0)
        return before * x

    seen, inputs = _check(function, [torch.rand(6)], saved=2)
    assert seen == inputs


def test_changes_behind_each_other_and_of_a_view() -> None:
    def function(x: Tensor) -> Tensor:
        _scale_(x, 3.0)
        middle = x.sum()
        _scale_(x[1], 0.5)
        return middle + x

    seen, (x,) = _check(function, [torch.rand(4, 5)], saved=3)
    assert seen == [x, x + 5 * 4]


def test_several_arguments_and_a_result() -> None:
    def function(a: Tensor, b: Tensor) -> Tensor:
        return _swap_(a, b) + a.sin() * b

    seen, inputs = _check(function, [torch.rand(7), torch.rand(7)], saved=4)
    assert seen == inputs


def test_a_cache_of_another_size_in_each_call() -> None:
    def function(x: Tensor, cache: Tensor) -> Tensor:
        _double(x.exp(), cache[2])
        return cache.sum(0)

    run = torch.compile(function, backend="tensord", fullgraph=True, dynamic=True)
    for size in (5, 9, 2):
        x, cache = torch.rand(size), torch.rand(4, size)
        expected = cache.clone()
        _changed.clear()
        result = run(x, cache)
        assert _changed == [cache[2].data_ptr()]
        torch.testing.assert_close(result, function(x, expected))
        torch.testing.assert_close(cache, expected)
    assert tensord.stats()["copies_saved"] == 2


def test_an_argument_that_is_returned_is_copied() -> None:
    """The result of a graph is no memory of its argument's that somebody may change later."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        _scale_(x, 3.0)
        return x, x + 1

    run = torch.compile(function, backend="tensord", fullgraph=True)
    x, y = torch.ones(5), torch.ones(5)
    for _ in range(2):
        mine, theirs = run(x), function(y)
        torch.testing.assert_close(mine, theirs)
        assert mine[0].data_ptr() == x.data_ptr()
        torch.testing.assert_close(x, y)


def test_what_is_read_beside_is_copied() -> None:
    """The operator sees one memory twice: which is the older value, only it can tell."""

    def function(x: Tensor) -> Tensor:
        _double(x, x)
        return x + 1

    seen, inputs = _check(function, [torch.rand(5)], saved=0)
    assert seen != inputs


def test_what_backward_needs_is_kept() -> None:
    def function(weight: Tensor, buffer: Tensor) -> Tensor:
        before = buffer.clone()
        _scale_(buffer, 2.0)
        return (weight * before * (weight * buffer).sin()).sum()

    run = torch.compile(function, backend="tensord", fullgraph=True)
    weight, buffer = torch.rand(5, requires_grad=True), torch.rand(5)
    theirs, expected = weight.detach().clone().requires_grad_(), buffer.clone()
    for _ in range(2):
        mine_loss, their_loss = run(weight, buffer), function(theirs, expected)
        mine_loss.backward()
        their_loss.backward()
        torch.testing.assert_close(mine_loss, their_loss)
        torch.testing.assert_close(weight.grad, theirs.grad)
        torch.testing.assert_close(buffer, expected)


def test_a_tensor_that_is_made_for_the_operator_is_not_copied() -> None:
    def function(x: Tensor) -> Tensor:
        first, second = torch.empty_like(x), torch.zeros(4, x.shape[1])
        _double(x.sin(), first)
        _double(x[0], second[1])
        return first + second

    _check(function, [torch.rand(4, 5)], saved=2)


def test_what_is_made_for_the_operator_is_what_it_gets() -> None:
    def function(x: Tensor) -> Tensor:
        made = torch.empty_like(x)
        _double(x.sin(), made)
        return made

    x = torch.rand(4, 5)
    result = torch.compile(function, backend="tensord", fullgraph=True)(x)
    torch.testing.assert_close(result, x.sin() * 2)
    assert _changed == [result.data_ptr()]


def test_a_tensor_that_others_read_is_copied() -> None:
    def function(x: Tensor) -> Tensor:
        zeros = torch.zeros(5)
        other = zeros + x
        _scale_(zeros.add_(1), 2.0)
        return other * zeros

    _check(function, [torch.rand(5)], saved=0)
