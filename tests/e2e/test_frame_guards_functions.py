# SPDX-License-Identifier: Apache-2.0
"""Guards on functions that a function calls: their code, defaults and cells, and what stands under
their names."""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import frame_guard_cases
import numpy
import pytest
import torch
from frame_guard_cases import Case, parametrised

pytestmark = pytest.mark.usefixtures("native_guards")
here = sys.modules[__name__]
Patch = pytest.MonkeyPatch

SCALES = [1.0, 2.0]


def helper(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def other_helper(x: torch.Tensor) -> torch.Tensor:
    return x + 2


def with_default(x: torch.Tensor, amount: float = 1.0, *, more: float = 2.0) -> torch.Tensor:
    return x * amount + more


def doubled(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def run(*arguments: Any) -> Any:
        return function(*arguments) * 2

    return run


@doubled
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def tensor() -> torch.Tensor:
    return torch.ones(2, 3)


def value_of_a_cell(patch: Patch) -> Iterator[Any]:
    amount = 2.0

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * amount

    yield function, (tensor(),)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    patch.setattr(cells["amount"], "cell_contents", 3.0)


def cell_of_a_called_function(patch: Patch) -> Iterator[Any]:
    amount = 2.0

    def inner(x: torch.Tensor) -> torch.Tensor:
        return x * amount

    def function(x: torch.Tensor) -> torch.Tensor:
        return inner(x)

    yield function, (tensor(),)
    patch.setattr((inner.__closure__ or ())[0], "cell_contents", 3.0)


def default_of_a_called_function(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return with_default(x)

    yield function, (tensor(),)
    patch.setattr(with_default, "__defaults__", (4.0,))


def keyword_default_of_a_called_function(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return with_default(x)

    yield function, (tensor(),)
    patch.setattr(with_default, "__kwdefaults__", {"more": 4.0})


def function_of_a_module_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    yield function, (tensor(),)
    patch.setattr(here, "helper", other_helper)


def body_of_a_function(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    yield function, (tensor(),)
    patch.setattr(helper, "__code__", other_helper.__code__)


def decorated_function_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return decorated(x)  # type: ignore[no-any-return]

    yield function, (tensor(),)
    patch.setattr(here, "decorated", doubled(other_helper))


def function_that_is_wrapped_since(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return helper(x)

    yield function, (tensor(),)
    patch.setattr(here, "helper", doubled(helper))


def function_of_torch_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x)

    yield function, (tensor(),)
    patch.setattr(torch.nn.functional, "gelu", torch.relu)


def python_function_of_torch_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.softmax(x, dim=-1)

    yield function, (tensor(),)
    patch.setattr(torch.nn.functional, "softmax", torch.nn.functional.log_softmax)


def builtin_hidden_by_a_global(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * len(SCALES)

    yield function, (tensor(),)
    import builtins

    patch.setattr(builtins, "len", sum)


def universal_function_replaced(patch: Patch) -> Iterator[Any]:
    def function(array: Any) -> Any:
        return numpy.sin(array) * 2

    yield function, (numpy.ones(3),)
    patch.setattr(numpy, "sin", numpy.cos)


def function_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, inner: Callable[..., Any]) -> Any:
        return inner(x)

    yield function, (tensor(), helper)
    yield tensor(), other_helper


def part_of_a_function_as_an_argument(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, inner: Callable[..., Any]) -> Any:
        return inner(x)

    yield function, (tensor(), functools.partial(with_default, amount=2.0))
    yield tensor(), functools.partial(with_default, amount=3.0)


def module_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x)  # type: ignore[no-any-return]

    yield function, (tensor(),)
    patch.setattr(here, "functional", types.SimpleNamespace(relu=torch.sigmoid))


functional: Any = torch.nn.functional


CASES: list[Case] = [
    value_of_a_cell, cell_of_a_called_function, default_of_a_called_function,
    keyword_default_of_a_called_function, function_of_a_module_replaced, body_of_a_function,
    decorated_function_replaced, function_that_is_wrapped_since, function_of_torch_replaced,
    python_function_of_torch_replaced, builtin_hidden_by_a_global, function_as_an_argument,
    part_of_a_function_as_an_argument, universal_function_replaced, module_replaced,
]  # fmt: skip


@parametrised(CASES)
def test_a_change_is_seen(case: Case, monkeypatch: Patch) -> None:
    frame_guard_cases.check(case, monkeypatch)
