# SPDX-License-Identifier: Apache-2.0
"""Guards on values that a function reads: globals, arguments, what containers hold, constants."""

from __future__ import annotations

import collections
import sys
import typing
from collections.abc import Iterator
from typing import Any

import frame_guard_cases
import numpy
import pytest
import torch
from frame_guard_cases import Case, Mode, parametrised
from frame_guards import capture, why_not

pytestmark = pytest.mark.usefixtures("native_guards")
here = sys.modules[__name__]
Patch = pytest.MonkeyPatch

FACTOR = 2.0
TABLE = {"a": 1.0, "b": 2.0}
SCALES = [1.0, 2.0]
MODE = Mode.ADD
KIND: Any = typing.List  # noqa: UP006


def tensor() -> torch.Tensor:
    return torch.ones(2, 3)


def value_of_a_global(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR

    yield function, (tensor(),)
    patch.setattr(here, "FACTOR", 3.0)


def type_of_a_global(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * FACTOR

    yield function, (tensor(),)
    patch.setattr(here, "FACTOR", 2)


def item_of_a_global_dictionary(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * TABLE["a"]

    yield function, (tensor(),)
    patch.setitem(TABLE, "a", 5.0)


def key_of_a_global_dictionary(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if "c" in TABLE else x

    yield function, (tensor(),)
    patch.setitem(TABLE, "c", 5.0)


def alias_of_typing_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.jit.annotate(KIND[torch.Tensor], [x * 2])[0]

    yield function, (tensor(),)
    patch.setattr(here, "KIND", typing.Set)  # noqa: UP006


def order_of_a_dictionary(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, table: dict[str, float]) -> torch.Tensor:
        for value in table.values():
            x = x * value + 1
        return x

    yield function, (tensor(), {"a": 1.0, "b": 2.0})
    yield tensor(), {"b": 2.0, "a": 1.0}


def length_of_a_list(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        for scale in SCALES:
            x = x * scale
        return x

    yield function, (tensor(),)
    patch.setattr(here, "SCALES", [1.0, 2.0, 3.0])


def item_of_a_list(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SCALES[1]

    yield function, (tensor(),)
    patch.setattr(here, "SCALES", [1.0, 7.0])


def list_as_a_tuple(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, scales: Any) -> torch.Tensor:
        return x * scales[0]

    yield function, (tensor(), [1.0, 2.0])
    yield tensor(), (1.0, 2.0)


def member_of_an_enumeration(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if MODE is Mode.ADD else x * 2

    yield function, (tensor(),)
    patch.setattr(here, "MODE", Mode.MULTIPLY)


def member_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, mode: Mode) -> torch.Tensor:
        return x + mode.value

    yield function, (tensor(), Mode.ADD)
    yield tensor(), Mode.MULTIPLY


def number_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, number: int) -> torch.Tensor:
        return x * number

    yield function, (tensor(), 3)
    yield tensor(), 4


def boolean_as_a_number(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, number: int) -> torch.Tensor:
        return x * number

    yield function, (tensor(), True)
    yield tensor(), 1


def text_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, mode: str) -> torch.Tensor:
        return x + 1 if mode == "add" else x

    yield function, (tensor(), "add")
    yield tensor(), "none"


def none_and_a_tensor(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return x if mask is None else x * mask

    yield function, (tensor(), None)
    yield tensor(), tensor()


def a_tensor_and_none(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        return x if mask is None else x * mask

    yield function, (tensor(), tensor())
    yield tensor(), None


def not_a_number(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, settings: dict[str, float]) -> torch.Tensor:
        return x * settings["a"]

    yield function, (tensor(), {"a": float("nan")})
    yield tensor(), {"a": 1.0}


def data_type_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        return x.to(dtype)

    yield function, (tensor(), torch.float64)
    yield tensor(), torch.bfloat16


def device_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, device: torch.device) -> torch.Tensor:
        return x.to(device)

    yield function, (tensor(), torch.device("cpu"))
    yield tensor(), torch.device("meta")


def slice_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, part: slice) -> torch.Tensor:
        return x[part]

    yield function, (tensor(), slice(0, 1))
    yield tensor(), slice(0, 2)


def range_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, numbers: range) -> torch.Tensor:
        for number in numbers:
            x = x + number
        return x

    yield function, (tensor(), range(3))
    yield tensor(), range(4)


def set_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, names: set[str]) -> torch.Tensor:
        return x + 1 if "a" in names else x

    yield function, (tensor(), {"a", "b"})
    yield tensor(), {"b"}


def size_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, size: torch.Size) -> torch.Tensor:
        return x.reshape(size)

    yield function, (tensor(), torch.Size((3, 2)))
    yield tensor(), torch.Size((6, 1))


def keys_of_an_ordered_dictionary(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, table: dict[str, float]) -> torch.Tensor:
        for key, value in table.items():
            x = x * value + len(key)
        return x

    yield function, (tensor(), collections.OrderedDict(a=1.0, b=2.0))
    yield tensor(), collections.OrderedDict(a=1.0, bb=2.0)


def number_of_numpy(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, settings: list[Any]) -> torch.Tensor:
        return x * settings[0]

    yield function, (tensor(), [numpy.float32(2)])
    yield tensor(), [numpy.float64(2)]


def shape_of_an_array(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, array: Any) -> Any:
        return x + torch.from_numpy(array)

    yield function, (tensor(), numpy.ones((2, 3)))
    yield tensor(), numpy.ones((1, 3))


def two_arguments_that_are_one(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) + y

    yield function, (tensor(), tensor())
    both = tensor()
    yield both, both


def one_argument_that_is_two(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(1) + y

    both = tensor()
    yield function, (both, both)
    yield tensor(), tensor()


CASES: list[Case] = [
    value_of_a_global, type_of_a_global, item_of_a_global_dictionary, key_of_a_global_dictionary,
    order_of_a_dictionary, length_of_a_list, item_of_a_list, list_as_a_tuple,
    member_of_an_enumeration, member_as_an_argument, number_as_an_argument, boolean_as_a_number,
    text_as_an_argument, none_and_a_tensor, a_tensor_and_none, not_a_number,
    data_type_as_an_argument, device_as_an_argument, slice_as_an_argument, range_as_an_argument,
    set_as_an_argument, size_as_an_argument, keys_of_an_ordered_dictionary, number_of_numpy,
    shape_of_an_array, alias_of_typing_replaced, two_arguments_that_are_one,
    one_argument_that_is_two,
]  # fmt: skip


@parametrised(CASES)
def test_a_change_is_seen(case: Case, monkeypatch: Patch) -> None:
    frame_guard_cases.check(case, monkeypatch)


@pytest.mark.parametrize(
    ("made", "others"),
    [
        (lambda: iter((1.0, 2.0)), [iter((1.0, 2.0, 3.0)), iter((1.0, 3.0)), iter([1.0, 2.0])]),
        (lambda: iter(range(3)), [iter(range(4)), iter(range(1, 3)), iter((0, 1, 2))]),
    ],
    ids=["tuple", "range"],
)
def test_iterators_are_known_by_what_they_have_left(made: Any, others: list[Any]) -> None:
    def function(x: torch.Tensor, numbers: Iterator[float]) -> torch.Tensor:
        for number in numbers:
            x = x * number
        return x

    recorded = capture(function, tensor(), made())
    for _ in range(2):
        assert why_not(recorded, function, (tensor(), made())) == ""
    begun = made()
    next(begun)
    for other in [begun, *others]:
        assert why_not(recorded, function, (tensor(), other))
