# SPDX-License-Identifier: Apache-2.0
"""Sizes that data decides, within one captured graph (capture/data_sizes.py)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon", "traces_data")


def _compiled(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    return torch.compile(function, backend="tensord", fullgraph=True, **options)


def _check(
    function: Callable[..., Any],
    *calls: tuple[Tensor, ...],
    programs: int,
    steps: int = 1,
    dynamic: bool | None = None,
) -> None:
    """Eager's numbers in every call; so many programs, and stretches in eager between them."""
    run = _compiled(function, dynamic=dynamic)
    for inputs in calls:
        torch.testing.assert_close(run(*inputs), function(*inputs))
    stats = tensord.stats()
    assert stats["graphs"] == 1
    assert stats["calls_in_eager"] == 0
    assert stats["compiled"] + stats["hits"] + stats["joined"] == programs
    assert stats["call_backs"] == steps, stats["call_back_reasons"]


def _signs(*sizes: int) -> list[tuple[Tensor, ...]]:
    """Inputs of which some, none and all elements are positive."""
    return [(torch.randn(*sizes),), (-torch.ones(*sizes),), (torch.ones(*sizes),)]


# -- each operator --------------------------------------------------------------------------------


def test_nonzero() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        where = torch.nonzero(x > 0)
        return where.float().exp() * 2, x.exp()

    _check(function, *_signs(4, 5), programs=2)
    reasons = tensord.stats()["call_back_reasons"]
    assert "aten::nonzero: data decides the size of its result" in reasons


def test_nonzero_in_a_graph_that_a_pass_changes() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.nonzero(x > 0), torch.rand(3)

    x = torch.randn(4, 5)
    where, numbers = _compiled(function)(x)
    torch.testing.assert_close(where, torch.nonzero(x > 0))
    assert numbers.shape == (3,)


def test_boolean_mask() -> None:
    def function(x: Tensor) -> Tensor:
        return (x * 3)[x > 0.5].sin().sum() + x.mean()

    _check(function, *_signs(40), programs=2)


def test_masked_select() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.masked_select(x, x > 0).cos() + 1, x.relu()

    _check(function, *_signs(7, 3), programs=2)


def test_a_mask_that_is_written_through() -> None:
    def function(x: Tensor) -> Tensor:
        y = x.clone()
        y[y > 0] = 3.0
        return y * 2

    _check(function, *_signs(6, 4), programs=1, steps=0)


def test_unique() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        values, inverse = torch.unique(x, return_inverse=True)
        return values.float().exp(), inverse * 2

    calls = [(torch.randint(0, high, (30,)),) for high in (9, 1, 30)]
    _check(function, *calls, programs=1)


def test_repeat_interleave() -> None:
    def function(x: Tensor, n: Tensor) -> Tensor:
        return torch.repeat_interleave(x.sin(), n, dim=0).cos() * 2

    calls = [(torch.randn(3, 4), torch.tensor(n)) for n in ([1, 0, 2], [0, 0, 0], [1, 1, 5])]
    _check(function, *calls, programs=1)


def test_item_as_a_size() -> None:
    def function(x: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
        size = n.item()
        torch._check(size >= 2)
        torch._check(size <= x.shape[0])
        return (x.sum() + torch.ones(size)) * 2, x[:size].exp()

    calls = [(torch.rand(9), torch.tensor(n)) for n in (3, 8, 9, 2)]
    _check(function, *calls, programs=1)


def test_an_index_that_data_decides() -> None:
    def function(x: Tensor, n: Tensor) -> Tensor:
        at = n.item()
        torch._check(at >= 0)
        torch._check(at < x.shape[0])
        return x[at].exp() + x.sum()

    _check(function, *((torch.rand(9, 4), torch.tensor(n)) for n in (3, 8, 0)), programs=1)


def test_a_slice_whose_start_data_decides() -> None:
    def function(x: Tensor, n: Tensor) -> Tensor:
        start = n.item()
        torch._check(start >= 0)
        torch._check(start <= x.shape[0])
        return x[start:].exp() + x.sum()

    calls = [(torch.rand(9, 4), torch.tensor(n)) for n in (3, 5, 7)]
    _check(function, *calls, programs=1)


def test_split_sizes() -> None:
    def function(x: Tensor, n: Tensor) -> list[Tensor]:
        sizes = n.tolist()
        for size in sizes:
            torch._check(size >= 0)
        return [part.sin() + 1 for part in torch.split(x, sizes)]

    calls = [(torch.randn(10, 3), torch.tensor(n)) for n in ([2, 5, 3], [10, 0, 0], [0, 9, 1])]
    _check(function, *calls, programs=1)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_squeezed_result_has_as_many_dimensions_as_in_eager(count: int) -> None:
    """torch takes sizes of data not to be 1; what leaves the graph is squeezed in the job."""

    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        where = torch.nonzero(x > 0)
        return x[where].squeeze(), x[where].squeeze(0), where.squeeze(-1) * 2

    x = -torch.ones(5)
    x[:count] = 1
    for got, wanted in zip(_compiled(function)(x), function(x), strict=True):
        torch.testing.assert_close(got, wanted)
    assert tensord.stats()["calls_in_eager"] == 0
    reasons = str(tensord.stats()["call_back_reasons"])
    assert "has as many dimensions as data decides" in reasons


def test_extremes_of_nothing_raise() -> None:
    def function(x: Tensor) -> Tensor:
        return (x[x > 0] * 2).max()

    run = _compiled(function)
    x = torch.randn(20)
    torch.testing.assert_close(run(x), function(x))
    with pytest.raises(RuntimeError, match=r"max\(\): Expected reduction dim to be specified"):
        run(-torch.ones(20))


def test_unique_elements_along_the_last_dimension() -> None:
    """Fake tensors have another number of dimensions."""

    def function(x: Tensor) -> tuple[Tensor, Tensor]:
        values = torch.unique_consecutive(x * 2, dim=-1)
        return values.sin() + 1, x.cos()

    run = _compiled(function)
    for x in (torch.ones(3, 4), torch.randn(3, 4), torch.arange(3.0), torch.zeros(0)):
        torch.testing.assert_close(run(x), function(x))


def test_gradient_of_a_value_that_was_filled_in() -> None:
    """Its formula has unique indices, of whose number torch 2.11 is wrong."""

    def function(x: Tensor, value: Tensor) -> Tensor:
        return x.index_fill(0, torch.tensor([4, 1, 4, 2]), value).sin()

    mine, theirs = (
        (torch.ones(5, 3).requires_grad_(), torch.tensor(0.5).requires_grad_()) for _ in range(2)
    )
    _compiled(function)(*mine).sum().backward()
    function(*theirs).sum().backward()
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a.grad, b.grad)


# -- whole functions ------------------------------------------------------------------------------


def _experts(x: Tensor, router: Tensor, weights: Tensor) -> Tensor:
    """A mixture of experts with a loop over experts and one choice a token."""
    scores = (x @ router).softmax(-1)
    chosen = scores.argmax(-1)
    result = torch.zeros_like(x)
    for expert, weight in enumerate(weights):
        tokens = torch.nonzero(chosen == expert).squeeze(-1)
        routed = torch.relu(x[tokens] @ weight) * scores[tokens, expert, None]
        result = result.index_add(0, tokens, routed)
    return result


def test_all_sizes_that_can_be_known_at_once_are() -> None:
    """However many experts: one program decides, one computes."""
    calls = [(torch.randn(n, 8), torch.randn(8, 6), torch.randn(6, 8, 8)) for n in (32, 32)]
    _check(_experts, *calls, programs=2)


def test_sizes_of_data_and_of_inputs() -> None:
    calls = [(torch.randn(n, 8), torch.randn(8, 6), torch.randn(6, 8, 8)) for n in (32, 5, 11)]
    _check(_experts, *calls, programs=2, dynamic=True)


def test_sizes_that_depend_on_sizes() -> None:
    def function(x: Tensor) -> Tensor:
        positive = x[x > 0].sin()
        return positive[positive > 0.5].cos() * 2

    _check(function, *_signs(50), programs=3, steps=2)


def test_training() -> None:
    inputs = torch.randn(32, 8), torch.randn(8, 6), torch.randn(6, 8, 8)
    run = _compiled(_experts)
    for _ in range(2):
        mine, theirs = ([x.clone().requires_grad_() for x in inputs] for _ in range(2))
        run(*mine).square().sum().backward()
        _experts(*theirs).square().sum().backward()
        for a, b in zip(mine, theirs, strict=True):
            torch.testing.assert_close(a.grad, b.grad, rtol=1e-4, atol=1e-4)
    stats = tensord.stats()
    assert stats["graphs"] == 2
    assert stats["call_backs"] == 1, "backward takes the sizes from what forward saved"


def test_writes_and_views_around_a_size() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        flat = x.view(-1)
        where = torch.nonzero(flat > 0)
        before = flat * 2
        x.add_(1)
        return before, where * 3, flat + x.view(-1)

    run = _compiled(function)
    mine = torch.randn(4, 5)
    theirs = mine.clone()
    for _ in range(3):
        torch.testing.assert_close(run(mine), function(theirs))
        torch.testing.assert_close(mine, theirs)


def test_what_torch_asserts_of_sizes_is_asserted() -> None:
    def function(x: Tensor, n: Tensor) -> Tensor:
        size = n.item()
        torch._check(size >= 2)
        return torch.ones(size) * x.sum()

    run = _compiled(function)
    torch.testing.assert_close(run(torch.ones(2), torch.tensor(3)), torch.full((3,), 2.0))
    with pytest.raises(RuntimeError):
        run(torch.ones(2), torch.tensor(1))
    torch.testing.assert_close(run(torch.ones(2), torch.tensor(4)), torch.full((4,), 2.0))


def test_a_step_whose_size_is_an_argument() -> None:
    def function(x: Tensor, n: int) -> Tensor:
        return x[::n] * 2

    run = _compiled(function, dynamic=True)
    for n in (2, 3, 5, 12):
        x = torch.randn(12, 4)
        torch.testing.assert_close(run(x, n), function(x, n))
