# SPDX-License-Identifier: Apache-2.0
"""Indices in tensors that are out of range: an IndexError where eager raises, and only there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import tensord
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.testing import assert_close

pytestmark = pytest.mark.usefixtures("tensord_daemon")


class Case(NamedTuple):
    """A function of a table (5 x 40) and of int64 indices; those that eager takes, and some that it
    does not."""

    function: Callable[[Tensor, Tensor], Tensor]
    good: Any
    bad: tuple[Any, ...]
    message: str = "is out of bounds for dimension 0 with size 5"


def _many(value: int, *others: int) -> list[int]:
    """Enough for whole vectors and a tail, the odd one in the tail."""
    return [0, 1, 2, 3, 4] * 7 + [value, *others]


def _column(value: int) -> list[list[int]]:
    return [[value]]


ROWS = (_many(5), _many(-1), _many(1 << 40), [7], [-6, 0, 0])
WRAPPED_ROWS = (_many(5), _many(-6), _many(-(1 << 62)), [7], [-6, 0, 0])

CASES = {
    "index": Case(lambda x, i: x[i] * 2, _many(-5, 4), WRAPPED_ROWS),
    "index of two": Case(
        lambda x, i: x[i, i] * 2,
        _many(-5, 4),
        WRAPPED_ROWS,
        "dimension (0 with size 5|1 with size 40)",
    ),
    "index of columns": Case(
        lambda x, i: x[:, i] + 1,
        _many(-40, 39),
        (_many(40), _many(-41)),
        "dimension 1 with size 40",
    ),
    "index_select": Case(lambda x, i: x.index_select(0, i) * 2, _many(4), ROWS),
    "take": Case(lambda x, i: x.take(i) * 2, _many(-200, 199), (_many(200), _many(-201)), "index"),
    "gather": Case(
        lambda x, i: x.gather(1, i) * 2,
        [_many(39)],
        ([_many(40)], [_many(-1)]),
        "dimension 1 with size 40",
    ),
    "embedding": Case(lambda x, i: F.embedding(i, x) * 2, _many(4), ROWS),
    "embedding with padding": Case(
        lambda x, i: F.embedding(i, x, padding_idx=2) * 2, _many(2), ROWS
    ),
    "index_put": Case(lambda x, i: x.index_put((i,), x[0] * 0 + 3), _many(-5), WRAPPED_ROWS),
    "index_put accumulates": Case(
        lambda x, i: x.index_put((i,), x[0], accumulate=True), _many(-5), WRAPPED_ROWS
    ),
    "scatter": Case(
        lambda x, i: x.scatter(1, i, 3.0),
        [_many(39)],
        ([_many(40)], [_many(-1)]),
        "dimension 1 with size 40",
    ),
    "scatter of a source": Case(
        lambda x, i: x.scatter(0, i, x * 2), _column(4), (_column(5), _column(-1))
    ),
    "scatter_add": Case(
        lambda x, i: x.scatter_add(0, i, x * 2), _column(4), (_column(5), _column(-1))
    ),
    "index_add": Case(lambda x, i: x.index_add(0, i, x[i % 5], alpha=2), _many(4), (_many(5), [7])),
    "index_copy": Case(lambda x, i: x.index_copy(0, i, x[:1] * 2), [4], ([5], [-1])),
    "index_fill": Case(lambda x, i: x.index_fill(0, i, 3.0), _many(-5, -1), WRAPPED_ROWS),
    "cross_entropy": Case(
        lambda x, i: F.cross_entropy(x * 2, i),
        [0, 39, -100, 3, 4],
        ([0, 40, -100, 3, 4], [0, 1, 2, 3, -1]),
        "Target (40|-1) is out of bounds.",
    ),
    "cross_entropy of weights": Case(
        lambda x, i: F.cross_entropy(x * 2, i, weight=x[0].exp(), ignore_index=-7),
        [0, 39, -7, 3, 4],
        ([0, 40, -7, 3, 4], [0, 1, 2, 3, -1]),
        "Target (40|-1) is out of bounds.",
    ),
    "nll_loss of an image": Case(
        lambda x, i: F.nll_loss(x.view(5, 10, 4), i.view(5, 1).expand(5, 4), reduction="none"),
        [0, 9, -100, 3, 4],
        ([0, 10, -100, 3, 4], [0, 1, 2, 3, -1]),
        "Target (10|-1) is out of bounds.",
    ),
}


def _inputs(case: Case, indices: Any) -> tuple[Tensor, Tensor]:
    return torch.rand(5, 40, generator=torch.Generator().manual_seed(1)), torch.tensor(indices)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dynamic", [False, True])
def test_an_index_out_of_range_is_an_error_of_that_call_alone(name: str, dynamic: bool) -> None:
    case = CASES[name]
    run = torch.compile(case.function, backend="tensord", dynamic=dynamic, fullgraph=True)
    good = _inputs(case, case.good)
    assert_close(run(*good), case.function(*good))
    for indices in case.bad:
        bad = _inputs(case, indices)
        with pytest.raises((IndexError, RuntimeError)):
            case.function(*bad)
        with pytest.raises(IndexError, match=case.message):
            run(*bad)
        assert_close(run(*good), case.function(*good))
    assert tensord.stats()["fallbacks"] == 0


@pytest.mark.parametrize("name", CASES)
def test_nobody_checks_where_that_is_not_wanted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.setenv("TENSORD_UNCHECKED", "1")
    run = torch.compile(case.function, backend="tensord", dynamic=False, fullgraph=True)
    good = _inputs(case, case.good)
    assert_close(run(*good), case.function(*good))
    for indices in case.bad:
        run(*_inputs(case, indices))
    assert tensord.stats()["fallbacks"] == 0


def test_the_option_is_part_of_what_a_program_is() -> None:
    def rows(x: Tensor, i: Tensor) -> Tensor:
        return x[i] + 1

    x, bad = torch.rand(5, 3), torch.tensor([7])
    torch.compile(rows, backend="tensord", options={"unchecked": True})(x, bad)
    torch._dynamo.reset()
    with pytest.raises(IndexError, match="index 7 is out of bounds for dimension 0 with size 5"):
        torch.compile(rows, backend="tensord")(x, bad)


def test_it_is_what_eager_raises_whichever_that_is() -> None:
    def gathered(x: Tensor, i: Tensor) -> Tensor:
        return x.gather(0, i) * 2

    run = torch.compile(gathered, backend="tensord")
    with pytest.raises(RuntimeError, match="index 9 is out of bounds for dimension 0 with size 5"):
        run(torch.rand(5), torch.tensor([9]))


@pytest.mark.parametrize("size", [1, 3, 8, 16, 17, 1000])
def test_the_first_of_a_task_is_named(size: int) -> None:
    run = torch.compile(lambda x, i: x[i] + 1, backend="tensord", dynamic=False)
    indices = torch.zeros(size, dtype=torch.int64)
    indices[size // 2] = 77
    with pytest.raises(IndexError, match="index 77 is out of bounds for dimension 0 with size 5"):
        run(torch.rand(5), indices)
    indices[size // 2] = -5
    run(torch.rand(5), indices)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64])
def test_parallel_rows(dtype: torch.dtype) -> None:
    run = torch.compile(lambda x, i: F.embedding(i, x) * 2, backend="tensord", dynamic=False)
    x, indices = torch.rand(1000, 64), torch.randint(0, 1000, (20000,)).to(dtype)
    assert_close(run(x, indices), F.embedding(indices, x) * 2)
    indices[::1000] = 1000
    with pytest.raises(IndexError, match="index 1000 is out of bounds for dimension 0 with size"):
        run(x, indices)


def test_what_nobody_reads_is_no_error() -> None:
    """Where the index itself is put into range first, and behind padding."""

    def masked(x: Tensor, i: Tensor) -> Tensor:
        return torch.where(i < 5, x[i.clamp(0, 4)], 0.0)

    def padded(x: Tensor, i: Tensor) -> Tensor:
        return F.pad(x[i], (3, 2)) + torch.cat([x[i], x[i + 1], x])[: i.numel() + 5]

    def along(x: Tensor, i: Tensor) -> Tensor:
        return x.take_along_dim(i, 0) * 2  # modulo the size

    cases = ((masked, [0, 9, -3, 4]), (padded, [0, 3] * 9), (along, [0, 9, -3, 4]))
    for function, indices in cases:
        x, i = torch.rand(5), torch.tensor(indices)
        run = torch.compile(function, backend="tensord", dynamic=False)
        assert_close(run(x, i), function(x, i))


@pytest.mark.parametrize(
    "name", ["embedding", "index_select", "gather", "scatter", "cross_entropy"]
)
def test_no_index_is_one_of_nothing(name: str) -> None:
    functions: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
        "embedding": lambda x, i: F.embedding(i, x) * 2,
        "index_select": lambda x, i: x.index_select(0, i) * 2,
        "gather": lambda x, i: x.gather(0, i[:, None]) * 2,
        "scatter": lambda x, i: x.scatter(0, i[:, None], 1.0) * 2,
        "cross_entropy": lambda x, i: F.nll_loss(x.T, i[:1].expand(4)),
    }
    function, x, i = functions[name], torch.rand(0, 4), torch.tensor([0, 0])
    for run in (function, torch.compile(function, backend="tensord")):
        with pytest.raises((IndexError, RuntimeError)):
            run(x, i)


def test_a_table_trains() -> None:
    def loss(table: Tensor, tokens: Tensor, targets: Tensor) -> Tensor:
        rows = F.embedding(tokens, table, padding_idx=3)
        return F.cross_entropy(rows @ table.T, targets, ignore_index=2)

    run = torch.compile(loss, backend="tensord", dynamic=False)
    tokens, targets = torch.randint(0, 50, (60,)), torch.randint(0, 50, (60,))
    tokens[::7], targets[::5] = 3, 2
    table = torch.rand(50, 24, requires_grad=True)
    run(table, tokens, targets).backward()
    mine, table.grad = table.grad, None
    loss(table, tokens, targets).backward()
    assert_close(mine, table.grad)
    for place in (tokens, targets):
        kept = place[31].item()
        place[31] = 50
        with pytest.raises(IndexError, match="50 is out of bounds"):
            run(table, tokens, targets)
        place[31] = kept
    run(table, tokens, targets)


def test_through_ctypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_NATIVE", "0")
    run = torch.compile(lambda x, i: x[i] + 1, backend="tensord")
    with pytest.raises(IndexError, match="index -6 is out of bounds for dimension 0 with size 5"):
        run(torch.rand(5), torch.tensor([-6]))
    run(torch.rand(5), torch.tensor([-5]))
