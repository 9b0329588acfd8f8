# SPDX-License-Identifier: Apache-2.0
"""Nodes without a form on the wire: steps that call back, within one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon", "traces_data")


@pytest.fixture(params=["native", "ctypes"], autouse=True)
def bridge(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways from the runtime to Python."""
    if request.param == "ctypes":
        monkeypatch.setenv("TENSORD_NATIVE", "0")


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="tensord", fullgraph=True, **options)


def _same(function: Callable[..., Any], *inputs: Any, steps: int = 1, **options: Any) -> None:
    """One program, that many call-backs, and eager's numbers, call after call."""
    run = _compiled(function, **options)
    for _ in range(3):
        torch.testing.assert_close(run(*inputs), function(*inputs))
    stats = tensord.stats()
    assert stats["graphs"] == 1
    assert stats["call_backs"] == steps, stats["call_back_reasons"]


# -- higher-order operators -----------------------------------------------------------------------


def test_cond_is_one_step_of_one_program() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.sin()
        z = torch.cond(y.sum() > 0, lambda a: a + 1, lambda a: a - 1, (y,))
        return z.relu() * 2

    _same(function, torch.rand(4, 5))
    reasons = tensord.stats()["call_back_reasons"]
    assert list(reasons) == ["cond: a higher-order operator has no form on the wire"]


def test_cond_takes_either_branch() -> None:
    def function(x: Tensor) -> Tensor:
        return torch.cond(x.sum() > 0, lambda a: a.cos(), lambda a: a.sin(), (x * 2,)) + 1

    run = _compiled(function)
    for sign in (1, -1):
        x = sign * torch.rand(7)
        torch.testing.assert_close(run(x), function(x))
    assert tensord.stats()["graphs"] == 1


def test_while_loop() -> None:
    from torch._higher_order_ops.while_loop import while_loop

    def function(n: Tensor, x: Tensor) -> Tensor:
        _, y = while_loop(lambda i, a: i > 0, lambda i, a: (i - 1, a * 1.5), (n, x.exp()))
        return y.tanh()

    _same(function, torch.tensor(4), torch.rand(3, 3))


# -- operators ------------------------------------------------------------------------------------


@torch.library.custom_op("tensord_tests::scale_", mutates_args={"x"})
def _scale_(x: Tensor, factor: float) -> None:
    x.mul_(factor)


@_scale_.register_fake
def _(x: Tensor, factor: float) -> None:
    return None


@torch.library.custom_op("tensord_tests::twice", mutates_args=())
def _twice(x: Tensor) -> Tensor:
    return x * 2


@_twice.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("tensord_tests::strides", mutates_args=())
def _strides(x: Tensor) -> Tensor:
    """Of a type without a form on the wire, so that it is called back and its operand copied."""
    return torch.tensor(x.stride()).to(torch.complex32)


@_strides.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty(x.dim(), dtype=torch.complex32)


@pytest.mark.parametrize(
    "view", [lambda x: x.expand(2, 8, 16), lambda x: x.as_strided((4, 5), (1, 2), 3)]
)
def test_operands_whose_elements_share_memory_lie_as_in_eager(
    view: Callable[[Tensor], Tensor],
) -> None:
    def function(x: Tensor) -> Tensor:
        return torch.view_as_real(_strides(view(x)))

    x = torch.rand(8, 16)
    assert torch.equal(_compiled(function)(x), function(x))


def test_a_custom_operator_needs_no_call_back() -> None:
    def function(x: Tensor) -> Tensor:
        return _twice(x + 1) * 3

    _same(function, torch.rand(5, 3), steps=0)


def test_a_custom_operator_that_changes_a_temporary() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        _scale_(y, 3.0)
        return y.exp()

    _same(function, torch.rand(5, 3))


def test_what_a_step_changes_and_counts_in_from_the_start_of_its_memory() -> None:
    """It is given such a temporary where eager has it, and the plan gets what became of it."""

    def function(x: Tensor, part: Tensor) -> tuple[Tensor, ...]:
        other = torch.sin(x) @ torch.ones(x.shape[1], 3)
        y = torch.nn.functional.pad(x * 2, (1, -1, 0, 1))[:, ::2]
        _scale_(y, 3.0)
        put = torch.as_strided_scatter(y, part, (2, 2), (2, 1), 1)
        return other, y.exp(), put + 1

    _same(function, torch.rand(2, 7), torch.rand(2, 2))


def test_a_branch_counts_from_the_start_of_its_operands_memory() -> None:
    def function(x: Tensor, part: Tensor) -> tuple[Tensor, ...]:
        other = torch.sin(x) @ torch.ones(x.shape[1], 3)
        y = torch.sin(x * 2)
        put = torch.cond(
            part.sum() > 0,
            lambda y: torch.as_strided(y, (2, 2), (3, 1), 2) + 1,
            lambda y: y[:2, :2] + 0,
            (y,),
        )
        return other, y.exp(), put

    _same(function, torch.rand(2, 7), torch.rand(2, 2))


def test_a_branch_that_reads_around_its_operand_is_refused() -> None:
    """Eager alone has what lies there."""

    def function(x: Tensor, part: Tensor) -> Tensor:
        y = torch.sin(x * 2)[1:]
        strided = lambda y: torch.as_strided(y, (2,), (1,), 2) + 1  # noqa: E731
        return torch.cond(part.sum() > 0, strided, lambda y: y[0, :2] + 0, (y,))

    with pytest.raises(Exception, match="may read around what the program computes"):
        _compiled(function)(torch.rand(3, 7), torch.rand(2, 2))


def test_a_custom_operator_that_changes_an_input() -> None:
    def function(x: Tensor) -> Tensor:
        y = x + 1
        _scale_(x, 3.0)
        return y * x

    run = _compiled(function)
    x, z = torch.rand(6), torch.rand(6)
    mine, theirs = x.clone(), x.clone()
    for _ in range(2):
        torch.testing.assert_close(run(mine), function(theirs))
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(run(z.clone()), function(z.clone()))


# -- numbers that depend on data; sizes: test_data_sizes.py ---------------------------------------


def test_a_size_over_what_may_be_none() -> None:
    """Strides of the view are quotients by n // 3."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return x.view(x.size(0) // 3, 3), x.cumsum(0) + 1

    run = _compiled(function, dynamic=True)
    for size in (9, 3, 12):
        x = torch.randn(()).expand(size)
        for mine, eager in zip(run(x), function(x), strict=True):
            torch.testing.assert_close(mine, eager)
            assert mine.stride() == eager.stride()


def test_effects_beside_what_has_no_form() -> None:
    """The assertions of one_hot return nothing; boolean indexing has no form."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.nn.functional.one_hot(x % 3, 3), x[x > 1]

    _same(function, torch.arange(5))


def test_an_expanded_tensor_without_elements() -> None:
    x = torch.ones((), dtype=torch.int32).expand(6, 1, 1)
    run = _compiled(lambda x: x.diagonal(-1, -1, 1).long().abs())
    assert run(x).shape == (6, 0)
    assert tensord.stats()["call_backs"] == 0


def test_item_as_a_number() -> None:
    def function(x: Tensor) -> Tensor:
        return x * x.sum().item() + 1

    run = _compiled(function)
    for _ in range(3):
        x = torch.rand(9)
        torch.testing.assert_close(run(x), function(x))


# -- assertions -----------------------------------------------------------------------------------


def test_an_assertion_of_a_tensor_raises() -> None:
    def function(x: Tensor) -> Tensor:
        torch._assert_async(x.sum() > 0, "the sum must be positive")
        return x + 1

    run = _compiled(function)
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError, match="the sum must be positive"):
        run(-torch.ones(3))


def test_an_assertion_of_a_number_raises() -> None:
    def function(x: Tensor) -> Tensor:
        n = x.sum().item()
        torch._check(n > 0, lambda: "not positive")
        return x * n

    run = _compiled(function)
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), 3.0))
    with pytest.raises(RuntimeError):
        run(-torch.ones(3))
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), 3.0))


# -- types without a form -------------------------------------------------------------------------


def test_conjugated_results() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        c = torch.view_as_complex(x * 2)
        return c.conj(), torch.view_as_real(c.conj() * c).sum() + x.sum()

    _same(function, torch.randn(6, 2))


def test_complex_numbers_that_are_none() -> None:
    """torch.logaddexp makes tensors of complex NaN, which Python has no literal for."""
    x, y = (torch.randn(5, dtype=torch.complex64) for _ in range(2))
    run = _compiled(lambda a, b: torch.logaddexp(a, b))
    torch.testing.assert_close(run(x, y), torch.logaddexp(x, y))


def test_numbers_of_any_sign_are_arguments() -> None:
    def function(x: Tensor, n: int) -> Tensor:
        return x + n

    run = _compiled(function, dynamic=True)
    for n in (5, -3, 0, 1, 1 << 40):
        torch.testing.assert_close(run(torch.ones(4), n), torch.ones(4) + n)


def test_a_real_number_is_an_argument() -> None:
    def function(x: Tensor, f: float) -> Tensor:
        return x.exp() * f + 1

    run = _compiled(function, dynamic=True)
    for f in (0.5, -2.25, 3.0):
        x = torch.rand(4)
        torch.testing.assert_close(run(x, f), function(x, f))


# -- what a user sees -----------------------------------------------------------------------------


@torch.library.custom_op("tensord_tests::picky", mutates_args={"x"})
def _picky(x: Tensor) -> None:
    if float(x.sum()) < 0:
        raise ValueError("I want positive numbers")
    x.add_(1)


@_picky.register_fake
def _(x: Tensor) -> None:
    return None


def test_an_error_comes_out_as_it_was_raised() -> None:
    def function(x: Tensor) -> Tensor:
        y = x * 2
        _picky(y)
        return y + 1

    run = _compiled(function)
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), 4.0))
    with pytest.raises(ValueError, match="I want positive numbers"):
        run(-torch.ones(3))
    torch.testing.assert_close(run(torch.ones(3)), torch.full((3,), 4.0))


def test_a_call_back_may_run_a_compiled_function() -> None:
    inner = _compiled(lambda x: x.sin() * 2)

    @torch.library.custom_op("tensord_tests::nested", mutates_args={"x"})
    def nested(x: Tensor) -> None:
        x.copy_(inner(x))

    nested.register_fake(lambda x: None)

    def function(x: Tensor) -> Tensor:
        y = x + 1
        nested(y)
        return y * 3

    run = _compiled(function)
    x = torch.rand(8)
    torch.testing.assert_close(run(x), (x + 1).sin() * 6)


def test_training_through_cond() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        h = (x @ w).tanh()
        return torch.cond(h.sum() > 0, lambda a: a * 2, lambda a: a * 3, (h,)).sum()

    x, w = torch.rand(4, 5), torch.randn(5, 6, requires_grad=True)
    _compiled(function)(x, w).backward()
    mine, w.grad = w.grad, None
    function(x, w).backward()
    torch.testing.assert_close(mine, w.grad)


@pytest.mark.parametrize("mode", ["nearest", "bilinear"])
def test_training_through_sizes_by_a_real_factor(mode: str) -> None:
    """Backward's arguments have such sizes, too."""

    def function(x: Tensor) -> Tensor:
        return torch.nn.functional.interpolate(x * 2, scale_factor=1.7, mode=mode)

    run = _compiled(function, dynamic=True)
    for height in (4, 7):
        x = torch.rand(2, 3, height, 5)
        found = []
        for call in (run, function):
            leaf = x.clone().requires_grad_()
            y = call(leaf)
            (y * torch.linspace(-1, 1, y.numel()).view(y.shape)).sum().backward()
            found.append((y.detach(), leaf.grad))
        torch.testing.assert_close(*found)
    assert tensord.stats()["calls_in_eager"] == 0
