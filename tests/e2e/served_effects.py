# SPDX-License-Identifier: Apache-2.0
"""Functions for frame_runner.py that change something: arguments, objects, globals, cells,
torch's generator."""

from __future__ import annotations

from typing import Any

import torch
from served_functions import numbers
from torch import Tensor


def nothing(x: Tensor) -> None:
    x.add_(1)


def case_none(compile: Any) -> Any:
    x = numbers(3, 5)
    version = x._version
    return compile(nothing)(x), x, x._version - version


def in_place(x: Tensor, y: Tensor) -> Tensor:
    x.mul_(2)
    y[1:].add_(x.sum())
    return x.sin() + y.sum()


def case_in_place(compile: Any) -> Any:
    x, y = numbers(3, 5), numbers(7)
    versions = x._version, y._version
    r = compile(in_place)(x, y)
    return r, x, y, x._version > versions[0], y._version > versions[1]


class Holder:
    """What side effects are put into."""

    def __init__(self) -> None:
        self.last: Any = None
        self.seen: list[Any] = []
        self.by_name: dict[str, Any] = {}


def side_effects(x: Tensor, holder: Holder) -> Tensor:
    y = x * 3
    holder.last = y
    holder.seen.append(y + 1)
    holder.by_name["y"] = y.sum()
    return y - 1


def case_side_effects(compile: Any) -> Any:
    f, holder = compile(side_effects), Holder()
    results = [f(numbers(5), holder)]
    return results, vars(holder)


COUNT = 0


def change_global(x: Tensor) -> Tensor:
    global COUNT
    COUNT += 1
    return x * 2


def case_global_changed(compile: Any) -> Any:
    global COUNT
    COUNT = 0
    f = compile(change_global)
    return f(numbers(5)), COUNT


def list_argument(x: Tensor, found: list[Tensor]) -> Tensor:
    found.append(x + 1)
    return sum(found)  # type: ignore[return-value]


def case_list_appended(compile: Any) -> Any:
    found = [numbers(5)]
    r = compile(list_argument)(numbers(5), found)
    return r, found


def counter() -> Any:
    count = 0

    def step(x: Tensor) -> Tensor:
        nonlocal count
        count += 1
        return x + count

    return step, lambda: count


def case_closure_changed(compile: Any) -> Any:
    step, count = counter()
    return compile(step)(numbers(5)), count()


def mutable_default(x: Tensor, seen: list[int] = []) -> Any:  # noqa: B006
    return x + len(seen)


def case_mutable_default(compile: Any) -> Any:
    return compile(mutable_default)(numbers(5))


def draws_a_seed(x: Tensor) -> Tensor:
    return x + int(torch.seed() % 2 > -1)


def case_drawn_seed(compile: Any) -> Any:
    """Which Dynamo draws as it captures: the next process has another."""
    return compile(draws_a_seed)(numbers(3, 4))
