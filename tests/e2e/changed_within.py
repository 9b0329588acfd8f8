# SPDX-License-Identifier: Apache-2.0
"""Programs for frame_runner.py that change while they run, after the first call of a compiled
function."""

from __future__ import annotations

import sys
import types
from typing import Any

import torch
from served_functions import numbers
from torch import Tensor, nn

NUMBER = 2.0
CONFIG = types.SimpleNamespace(flag=True, sizes=[1, 2], by_name={"a": 2.0})
HERE = sys.modules[__name__]


def helper(x: Tensor, n: float = 2.0) -> Tensor:
    return x * n


def other_helper(x: Tensor, n: float = 2.0) -> Tensor:
    return x - n


class Scale:
    """Whose attributes change."""

    factor = 2.0

    def __call__(self, x: Tensor) -> Tensor:
        return x * self.factor


class Model(nn.Module):
    """Two layers and a scale."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
        self.scale = Scale()
        self.flag = True

    def forward(self, x: Tensor) -> Tensor:
        y = self.b(self.a(x).relu())
        return self.scale(y) if self.flag else y


def of_globals(x: Tensor) -> Tensor:
    y = helper(x) * NUMBER
    return y * CONFIG.by_name["a"] if CONFIG.flag else y + len(CONFIG.sizes)


def in_turn(f: Any, changes: list[Any], *arguments: Any) -> list[Any]:
    """Results of the function before and after each change."""
    results = [f(*arguments)]
    for change in changes:
        change()
        results.append(f(*arguments))
    return results


def case_globals(compile: Any) -> Any:
    changes = [
        lambda: setattr(HERE, "NUMBER", 3.0),
        lambda: CONFIG.by_name.update(a=5.0),
        lambda: setattr(CONFIG, "flag", False),
        lambda: CONFIG.sizes.append(3),
        lambda: setattr(CONFIG, "flag", True),
    ]
    return in_turn(compile(of_globals), changes, numbers(5))


def case_function_replaced(compile: Any) -> Any:
    before = helper
    changes = [
        lambda: setattr(HERE, "helper", other_helper),
        lambda: setattr(HERE, "helper", before),
    ]
    return in_turn(compile(of_globals), changes, numbers(5))


def case_default_replaced(compile: Any) -> Any:
    change = lambda: setattr(helper, "__defaults__", (7.0,))  # noqa: E731
    return in_turn(compile(of_globals), [change], numbers(5))


def case_code_replaced(compile: Any) -> Any:
    change = lambda: setattr(helper, "__code__", other_helper.__code__)  # noqa: E731
    return in_turn(compile(of_globals), [change], numbers(5))


def case_closure_cell(compile: Any) -> Any:
    n = 2.0

    def f(x: Tensor) -> Tensor:
        return x * n

    def change() -> None:
        nonlocal n
        n = 3.0

    return in_turn(compile(f), [change], numbers(5))


def case_attributes_of_classes(compile: Any) -> Any:
    scale = Scale()
    changes = [
        lambda: setattr(Scale, "factor", 3.0),
        lambda: setattr(scale, "factor", 4.0),
        lambda: delattr(scale, "factor"),
        lambda: setattr(Scale, "__call__", lambda self, x: x - 1),
    ]
    return in_turn(compile(lambda x: scale(x) + 1), changes, numbers(5))


def case_modules(compile: Any) -> Any:
    torch.manual_seed(1)
    model, spare = Model(), nn.Linear(4, 6)
    changes = [
        lambda: setattr(model, "flag", False),
        lambda: setattr(model, "b", spare),
        lambda: setattr(model, "b", nn.Identity()),
        lambda: setattr(model, "flag", True),
        lambda: setattr(model.scale, "factor", 9.0),
    ]
    return in_turn(compile(model), changes, numbers(2, 4))


def case_hooks(compile: Any) -> Any:
    torch.manual_seed(1)
    model, handles = Model(), []

    def add() -> None:
        handles.append(model.a.register_forward_hook(lambda m, i, o: o * 2))

    return in_turn(compile(model), [add, lambda: handles[0].remove()], numbers(2, 4))


def case_parameters(compile: Any) -> Any:
    torch.manual_seed(1)
    model = Model()
    changes = [
        lambda: model.requires_grad_(False),
        lambda: setattr(model.b, "bias", None),
        lambda: model.a.requires_grad_(True),
        lambda: setattr(model.b, "weight", nn.Parameter(torch.ones(3, 4))),
    ]
    return in_turn(compile(model), changes, numbers(2, 4))


def case_method_of_class(compile: Any) -> Any:
    torch.manual_seed(1)
    change = lambda: setattr(Model, "forward", lambda self, x: self.a(x))  # noqa: E731
    return in_turn(compile(Model()), [change], numbers(2, 4))


def of_state(x: Tensor) -> Any:
    return x @ x, torch.ones(2), torch.is_grad_enabled()


def case_state_of_process(compile: Any) -> Any:
    f, x = compile(of_state), numbers(4, 4).requires_grad_()
    results = [f(x)]
    with torch.no_grad():
        results.append(f(x))
    with torch.autocast("cpu", torch.bfloat16):
        results.append(f(x))
    torch.set_default_dtype(torch.float64)
    try:
        results.append(f(x))
    finally:
        torch.set_default_dtype(torch.float32)
    return [*results, f(x)]


def of_list(x: Tensor, items: list[Any]) -> Any:
    return [x * i for i in items]


def case_list_argument(compile: Any) -> Any:
    items = [1, 2]
    return in_turn(compile(of_list), [lambda: items.append(3), items.reverse], numbers(3), items)


def case_aliases(compile: Any) -> Any:
    def f(a: Tensor, b: Tensor) -> Tensor:
        a.add_(1)
        return b * 2

    g, one, other = compile(f), numbers(4), numbers(4)
    return g(one, other), g(one, one), g(one, other), one
