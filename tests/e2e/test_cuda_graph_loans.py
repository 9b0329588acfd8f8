# SPDX-License-Identifier: Apache-2.0
"""What a CUDA graph's results are given out as (cuda_graphs/loans.py), by Python and by the
extension."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensord import torch_compat
from tensord.bridge import runtime
from tensord.cuda_graphs.loans import Loan, Loans, PythonLoans
from torch import Tensor


@pytest.fixture
def make(extension: Any) -> Callable[..., Loans]:
    """The class of either."""
    return PythonLoans if extension is None else extension.Loans


def owned(*sizes: int) -> list[Tensor]:
    """A graph's memory: numbers that count on."""
    return [torch.arange(size, dtype=torch.float32) for size in sizes]


def over(memory: list[Tensor], make: Callable[..., Loans], *layouts: Loan) -> Loans:
    return make([tensor.untyped_storage() for tensor in memory], list(layouts))


WHOLE: list[Loan] = [
    (0, torch.float32, (2, 3), (3, 1), 0),
    (1, torch.float32, (4,), (1,), 0),
]


def test_tensors_lie_in_the_memory(make: Callable[..., Loans]) -> None:
    memory = owned(6, 4)
    rows: Loan = (0, torch.float32, (3,), (2,), 1)
    halves: Loan = (1, torch.bfloat16, (2, 2), (1, 2), 4)
    a, b, c, d = over(memory, make, *WHOLE, rows, halves).tensors()
    assert torch.equal(a, memory[0].view(2, 3)) and torch.equal(b, memory[1])
    assert torch.equal(c, memory[0][1::2])
    assert (d.dtype, tuple(d.shape), d.stride(), d.storage_offset()) == (
        torch.bfloat16,
        (2, 2),
        (1, 2),
        4,
    )
    assert a.untyped_storage()._cdata == c.untyped_storage()._cdata
    memory[0][1] = 7
    assert a[0, 1] == c[0] == 7
    assert not a.untyped_storage().resizable()


def test_a_loan_is_used_until_its_last_tensor_goes(make: Callable[..., Loans]) -> None:
    loans = over(owned(6, 4), make, *WHOLE)
    assert loans.used() == set() and not loans.any_used((0, 1))
    a, b = loans.tensors()
    assert loans.used() == {0, 1} and (loans.users(0), loans.users(1)) == (1, 1)
    view = a[1]
    del a
    assert loans.used() == {0, 1}
    del view
    assert loans.used() == {1} and loans.any_used((0, 1)) and not loans.any_used((0,))
    del b
    assert loans.used() == set()


def test_autograd_uses_what_it_saves(make: Callable[..., Loans]) -> None:
    loans = over(owned(6, 4), make, *WHOLE)
    a, b = loans.tensors()
    a.requires_grad_()
    result = (a * a).sum()
    del a, b
    assert loans.used() == {0}
    result.backward()
    del result
    gc.collect()
    assert loans.used() == set()


def test_more_loans_of_one_storage(make: Callable[..., Loans]) -> None:
    memory = owned(6, 4)
    loans = over(memory, make, *WHOLE)
    a, b = loans.tensors()
    more = loans.lend(1)
    assert (loans.users(0), loans.users(1)) == (1, 2)
    assert torch.equal(torch_compat.tensor_over(more, *WHOLE[1][1:]), memory[1])
    assert loans.number_of(more) == loans.number_of(b.untyped_storage()) == 1
    assert loans.number_of(a.untyped_storage()) == 0
    assert loans.number_of(memory[1].untyped_storage()) is None
    del more
    assert loans.users(1) == 1
    # Those of the next replay are the only ones that count.
    c, d = loans.tensors()
    assert loans.number_of(b.untyped_storage()) is None
    assert loans.number_of(d.untyped_storage()) == 1
    del c, d
    assert loans.used() == set()


def test_nothing_is_kept_alive_by_loans(make: Callable[..., Loans]) -> None:
    memory = owned(6, 4)
    references = [torch_compat.storage_reference(t.untyped_storage()) for t in memory]
    loans = over(memory, make, *WHOLE)
    memory.clear()
    assert all(reference.expired() for reference in references)
    del loans


def test_inference_mode(make: Callable[..., Loans]) -> None:
    loans = over(owned(6, 4), make, *WHOLE)
    with torch.inference_mode():
        assert all(tensor.is_inference() for tensor in loans.tensors())
    assert not any(tensor.is_inference() for tensor in loans.tensors())


def test_empty_memory(make: Callable[..., Loans]) -> None:
    (nothing,) = over(owned(0), make, (0, torch.int64, (0, 3), (3, 1), 0)).tensors()
    assert tuple(nothing.shape) == (0, 3) and nothing.sum() == 0


@pytest.mark.usefixtures("native_guards")
@pytest.mark.parametrize(
    ("layout", "error"),
    [
        ((2, torch.float32, (1,), (1,), 0), IndexError),
        ((0, "float32", (1,), (1,), 0), TypeError),
        ((0, torch.float32, 1, (1,), 0), TypeError),
        ((0, torch.float32, (1,), (1, 1), 0), TypeError),
        ((0, torch.float32), TypeError),
    ],
)
def test_the_extension_refuses_what_it_cannot_read(
    layout: tuple[object, ...], error: type[Exception]
) -> None:
    native = runtime.native_extension().Loans
    with pytest.raises(error):
        native([torch.zeros(1).untyped_storage()], [layout])
    with pytest.raises(TypeError):
        native([torch.zeros(1)], [])
    loans = native([], [])
    for ask in (loans.users, loans.lend):
        with pytest.raises(IndexError):
            ask(0)
    with pytest.raises(IndexError):
        loans.any_used([0])
    with pytest.raises(TypeError):
        loans.number_of(torch.zeros(1))
