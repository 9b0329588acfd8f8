# SPDX-License-Identifier: Apache-2.0
"""What a CUDA graph's results are given out as: tensors over its memory that do not own it.

A *loan* is one more storage over the memory of a result; it is in use while a tensor has it. The
native extension has the same class, which takes a sixteenth of the time (_native/loans.h).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch

from .. import torch_compat

# A tensor to make: the number of its storage, dtype, sizes, strides, offset in elements.
Loan = tuple[int, torch.dtype, tuple[int, ...], tuple[int, ...], int]


class Loans(Protocol):
    """The loans of one graph's storages, whose memory has to stay for as long as one is in use."""

    def tensors(self) -> list[torch.Tensor]:
        """New loans of all storages, as one tensor a layout. Earlier loans are forgotten."""

    def lend(self, number: int) -> torch.UntypedStorage:
        """One more loan of a storage."""

    def users(self, number: int) -> int:
        """How many loans of a storage are in use."""

    def used(self) -> set[int]:
        """The storages of which a loan is in use."""

    def any_used(self, numbers: Sequence[int]) -> bool:
        """Whether a loan of one of these is in use."""

    def number_of(self, storage: torch.UntypedStorage) -> int | None:
        """The storage of which that is a loan."""


# Of storages and layouts.
MakeLoans = Callable[[list[torch.UntypedStorage], list[Loan]], Loans]


class PythonLoans:
    """Loans without the extension."""

    def __init__(self, storages: list[torch.UntypedStorage], layouts: list[Loan]) -> None:
        # Not the storages themselves: who owns them may change.
        self._memory = [(s.data_ptr(), s.device, s.nbytes()) for s in storages]
        self._layouts = layouts
        # References to the loans of each storage.
        self._lent: list[list[Any]] = [[] for _ in storages]

    def tensors(self) -> list[torch.Tensor]:
        lent = [torch_compat.storage_at(*memory) for memory in self._memory]
        self._lent = [[torch_compat.storage_reference(storage)] for storage in lent]
        return [torch_compat.tensor_over(lent[loan[0]], *loan[1:]) for loan in self._layouts]

    def lend(self, number: int) -> torch.UntypedStorage:
        storage = torch_compat.storage_at(*self._memory[number])
        used = [reference for reference in self._lent[number] if not reference.expired()]
        self._lent[number] = [*used, torch_compat.storage_reference(storage)]
        return storage

    def users(self, number: int) -> int:
        return sum(not reference.expired() for reference in self._lent[number])

    def used(self) -> set[int]:
        return {number for number in range(len(self._lent)) if self.users(number)}

    def any_used(self, numbers: Sequence[int]) -> bool:
        return any(map(self.users, numbers))

    def number_of(self, storage: torch.UntypedStorage) -> int | None:
        mine = torch_compat.storage_reference(storage)
        return next((n for n, references in enumerate(self._lent) if mine in references), None)
