# SPDX-License-Identifier: Apache-2.0
"""Inputs that share memory, results that alias, views of either; as in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from both_ways import both_ways, compiled
from compare import check, flatten
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")


# -- several inputs that share memory -------------------------------------------------------------


def both(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    x.add_(1)
    y.mul_(2)
    return x - y, y.clone()


@pytest.mark.parametrize("name", ["same", "apart", "overlap", "view", "turned", "rows"])
def test_inputs_that_overlap(name: str) -> None:
    base = torch.randn(24)
    square = base[:16].view(4, 4)
    inputs = {
        "same": (base, base),
        "apart": (base[:8], base[8:16]),
        "overlap": (base[:8], base[4:12]),
        "view": (square, square[1]),
        "turned": (square, square.t()),
        "rows": (square[::2], square[1::2]),
    }[name]
    both_ways(both, *inputs, calls=2)


def test_inputs_that_overlap_and_have_a_base() -> None:
    base = torch.randn(24)
    other = base.clone()
    run = compiled(both, fullgraph=True)
    for _ in range(2):
        check("results", run(base[:8], base[4:12]), both(other[:8], other[4:12]))
        check("memory", base, other)


def test_a_result_that_is_a_part_of_what_inputs_share() -> None:
    """With symbolic sizes AOTAutograd makes it anew by the offset of what the program gives."""

    def function(whole: Tensor, part: Tensor, x: Tensor) -> Tensor:
        whole[1:].copy_(x)
        return part.contiguous()

    def inputs() -> tuple[Tensor, Tensor, Tensor]:
        whole = torch.arange(33 * 6).view(33, 6)
        return whole, whole[1:], torch.tensor(-3.5)

    run, given, wanted = compiled(function, dynamic=True, fullgraph=True), inputs(), inputs()
    got, expected = run(*given), function(*wanted)
    check("result", got, expected)
    assert got.storage_offset() == expected.storage_offset()
    assert got.data_ptr() - given[0].data_ptr() == expected.data_ptr() - wanted[0].data_ptr()
    check("memory", given[0], wanted[0])


def test_an_input_whose_elements_overlap() -> None:
    expanded = torch.randn(1, 4).expand(3, 4)
    both_ways(lambda x: x * 2 + x.sum(0), expanded)
    windows = torch.randn(10).as_strided((4, 4), (2, 1))
    both_ways(lambda x: x.softmax(-1) @ x, windows)
    with pytest.raises(RuntimeError):  # as in eager
        compiled(lambda x: x.add_(1))(expanded)


def test_writes_to_expanded_inputs_that_share_memory_raise_as_in_aot_eager() -> None:
    """Eager's fill_ takes them; what AOTAutograd makes of it does not, and must not be wrong."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        y.fill_(1)
        x[1:, 4:, 1:].zero_()
        return x.clamp(min=0)

    x = torch.randn(()).expand(3, 8, 8)
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        compiled(function, fullgraph=True)(x, x.unsqueeze(0))


def test_a_write_to_one_of_elements_that_share_memory() -> None:
    """A scatter keeps its base's strides: what it writes others see before it is put back."""

    def function(x: Tensor, y: Tensor) -> Tensor:
        torch.as_strided(x, (2, 2), (1, 1))[::2].copy_(y)
        return x * 2

    both_ways(function, torch.randn(16), torch.randn(()))


def test_a_view_beyond_an_input_that_is_a_part() -> None:
    function = lambda x: torch.as_strided(x, (3, 2), (2, 1), 1) + 1  # noqa: E731
    base = torch.arange(20.0)
    for x in (base[:4], base[2:6], base[2:9], base[9:10].expand(4), base):
        check("result", compiled(function)(x), function(x))


def test_a_result_of_one_call_is_changed_by_the_next() -> None:
    run = compiled(lambda x: x.add_(1), fullgraph=True)
    x = torch.zeros(5)
    assert run(run(run(x))) is x
    assert x.tolist() == [3.0] * 5


# -- results --------------------------------------------------------------------------------------


def inputs_and_views(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x, x[1:], y.t(), x.view(-1), y * 2


def views_of_one(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = x * y
    return z[0], z[1:], z.t(), z.view(2, 8), z.diagonal()


def hidden_base(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = (x + y).view(-1)
    return z[:8], z[4:12]  # nobody returns z


def expanded(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return x.sum(0).expand(3, 4), y[0].expand(2, 4), (x * 2)[:, None].expand(4, 2, 4)


def parts(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    return (*(x + y).chunk(3, 1), *x.split([1, 3]), *(y * 2).unbind(1))


def changed_and_viewed(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    x.mul_(2)
    z = x[1:]
    return z, z * y[1:], y.view(16)[3:]


def twice(x: Tensor, y: Tensor) -> dict[str, Any]:
    z = x @ y
    return {"a": z, "b": [z, z.detach()], "c": (x, x.detach()), "none": None, "n": 3}


# Views of a changed input, which may be a part of something larger.
def rows_behind(x: Tensor) -> Tensor:
    rows = x.reshape(-1, x.size(1))
    part = rows[..., 1:]
    rows.index_fill_(0, torch.arange(1) % rows.size(0), 1)
    return part


def columns(x: Tensor) -> tuple[Tensor, ...]:
    x.add_(1)
    return x[..., 1:], x.t(), x.diagonal(), x.unfold(0, 2, 1), x.unsqueeze(0).expand(2, -1, -1)


def halves(x: Tensor) -> tuple[Tensor, ...]:
    x.sub_(1)
    return *x.split(x.size(0) // 2), x.unbind(1)[1], x.view(torch.int32)[:, 1:]


def without_gradients(x: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        x.mul_(2)
    return x[1:], x[:, 2], x * 3


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "function", [rows_behind, columns, halves, without_gradients], ids=lambda f: f.__name__
)
@pytest.mark.parametrize("strides", [(1, 6), (7, 1), (5, 1)], ids=str)
def test_views_of_a_changed_input_lie_as_in_eager(
    function: Any, strides: tuple[int, int], dynamic: bool
) -> None:
    """AOTAutograd makes them anew of the input, with symbols by how the result lies."""
    run = compiled(function, dynamic=dynamic)
    for offset in (0, 9, 4):
        whole = torch.randn(100)
        inputs = [w.as_strided((6, 5), strides, offset) for w in (whole.clone(), whole)]
        results = [flatten(f(x)) for f, x in zip((run, function), inputs, strict=True)]
        assert torch.equal(*inputs)
        for mine, theirs in zip(*results, strict=True):
            assert torch.equal(mine, theirs)
            assert mine.stride() == theirs.stride()
            assert mine.storage_offset() == theirs.storage_offset()


def reshaped(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = torch.logical_and(x, y).view(-1)
    filled = (x * 2).index_fill_(0, torch.arange(1), 1)
    copy = x.clone()
    pairs = [t.view(t.numel() // 2, 2) for t in (z, y)]
    return z, *pairs, filled, filled[1:], copy, copy[1:]


def part_of_one_of_two(x: Tensor, y: Tensor) -> tuple[Tensor, ...]:
    z = torch.nn.functional.logsigmoid(x * y)
    return z.as_strided((2, 3), (1, 4)), z


def test_results_in_shapes_that_guards_hold_alias() -> None:
    both_ways(part_of_one_of_two, torch.randn(4, 4), torch.randn(4, 4), dynamic=True)
    both_ways(part_of_one_of_two, torch.randn(4, 4).t(), torch.randn(4, 4).t(), dynamic=True)
    both_ways(reshaped, torch.randn(4, 4), torch.randn(4, 4), dynamic=True)
    nchw = torch.randn(4, 3, 1, 5).to(memory_format=torch.channels_last)
    both_ways(lambda x: (lambda z: (z, z[1:]))((x + 1).index_fill_(0, torch.arange(1), 1)), nchw)


@pytest.mark.parametrize("function", [
    inputs_and_views, views_of_one, hidden_base, expanded, parts, changed_and_viewed, twice,
], ids=lambda f: f.__name__)  # fmt: skip
def test_results_alias_as_in_eager(function: Any) -> None:
    both_ways(function, torch.randn(4, 4), torch.randn(4, 4), calls=2)


def test_inputs_seen_as_another_dtype() -> None:
    both_ways(lambda x: (x.view(torch.int32)[1:], torch.view_as_complex(x)), torch.randn(4, 2))


SEEN_AS_ANOTHER_DTYPE = {
    "bits": lambda x: x.view(torch.int32),
    "narrower": lambda x: x.view(torch.float16),
    "wider": lambda x: x.view(torch.float64),
    "bytes of a part": lambda x: x[1:3].view(torch.uint8)[:, 1::3],
    "complex": torch.view_as_complex,
    "complex part": lambda x: torch.view_as_complex(x)[2:],
    "bits and back": lambda x: x.view(torch.int16)[1:].view(torch.float32),
    "complex and back": lambda x: torch.view_as_real(torch.view_as_complex(x)).t(),
}


@pytest.mark.parametrize("name", SEEN_AS_ANOTHER_DTYPE)
@pytest.mark.parametrize("dynamic", [False, True])
def test_results_seen_as_another_dtype(name: str, dynamic: bool) -> None:
    view = SEEN_AS_ANOTHER_DTYPE[name]

    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, view(y), view(y) == view(y)

    def without_the_whole(x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        return view(y), y.view(torch.int16)

    for run in (function, without_the_whole):
        both_ways(run, torch.randn(4, 2), dynamic=dynamic, calls=2)


def test_complex_results_seen_as_real_ones() -> None:
    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        z = torch.complex(x, y)
        return torch.view_as_real(z)[:, :, 1], z, torch.view_as_real(z.t()) * 2

    both_ways(function, torch.randn(3, 5), torch.randn(3, 5), calls=2)


def test_results_seen_as_another_dtype_in_training() -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = x * 2
        return y, y.detach().view(torch.int32), torch.view_as_complex(y)

    both_ways(function, torch.randn(4, 2, requires_grad=True))


@pytest.mark.parametrize(
    "function", [inputs_and_views, views_of_one, parts, twice], ids=lambda f: f.__name__
)
def test_results_alias_in_training(function: Any) -> None:
    both_ways(function, torch.randn(4, 4, requires_grad=True), torch.randn(4, 4))


@pytest.mark.parametrize("first", [False, True])
def test_what_is_detached_from_a_result_has_no_gradient_and_the_result_has(first: bool) -> None:
    def function(x: Tensor) -> tuple[Tensor, ...]:
        y = torch.outer(x, x)
        apart = y.detach()
        return (apart, y[..., None], apart) if first else (y, apart, y.sin())

    both_ways(function, torch.randn(5, requires_grad=True))


ALIKE = {
    "parts of one element": lambda x: torch.unbind(x),
    "parts that overlap": lambda x: torch.split(x, 2),
    "the whole as a part": lambda x: torch.split(x, 6),
    "parts of a result": lambda x: (x[:1] * 2).expand(3).unbind(),
    "views of a result": lambda x: (lambda y: (y.view(2, -1), y.view(2, -1)))(x * 2),
    "a result and a view": lambda x: (lambda y: (y, y.view(-1), y[:], y))(x * 2),
}


@pytest.mark.parametrize("name", ALIKE)
@pytest.mark.parametrize("trains", [False, True])
def test_results_that_show_the_same_memory_alike_are_tensors_of_their_own(
    name: str, trains: bool
) -> None:
    both_ways(ALIKE[name], torch.randn(1).expand(6).requires_grad_(trains))


def test_a_result_that_the_caller_changes_is_still_differentiable() -> None:
    w = torch.randn(4, 4, requires_grad=True)
    gradients = []
    for run in (compiled(views_of_one, fullgraph=True), views_of_one):
        first, _, turned, *_ = run(w, torch.full((4, 4), 2.0))
        with torch.no_grad():
            first.zero_()
        assert not turned[:, 0].any()
        gradients.append(torch.autograd.grad(turned.sum(), w)[0])
    assert torch.equal(*gradients)
