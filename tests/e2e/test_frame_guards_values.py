# SPDX-License-Identifier: Apache-2.0
"""Guards on what a function reads: arguments, globals, defaults, closures, classes, constants."""

from __future__ import annotations

import collections
import functools
import sys
import types
import typing
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

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


class Settings:
    """What a model of a test reads."""

    depth = 2

    def __init__(self) -> None:
        self.flag = True
        self.width = 3

    def scale(self) -> float:
        return 2.0

    @property
    def size(self) -> int:
        return self.width * 2

    @staticmethod
    def offset() -> float:
        return 1.0

    @classmethod
    def shift(cls) -> float:
        return cls.depth * 1.0


class Derived(Settings):
    """Inherits all."""


SETTINGS = Settings()


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


def attribute_of_an_instance(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if SETTINGS.flag else x

    yield function, (tensor(),)
    patch.setattr(SETTINGS, "flag", False)


def attribute_of_a_class(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SETTINGS.depth

    yield function, (tensor(),)
    patch.setattr(Settings, "depth", 3)


def attribute_of_a_base(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, settings: Settings) -> torch.Tensor:
        return x * settings.depth

    yield function, (tensor(), Derived())
    patch.setattr(Settings, "depth", 3)


def attribute_that_hides_the_class_s(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SETTINGS.depth

    yield function, (tensor(),)
    patch.setattr(SETTINGS, "depth", 7, raising=False)


def attribute_that_appears(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x + 1 if hasattr(SETTINGS, "extra") else x

    yield function, (tensor(),)
    patch.setattr(SETTINGS, "extra", 7, raising=False)


def method_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SETTINGS.scale()

    yield function, (tensor(),)
    patch.setattr(Settings, "scale", lambda self: 3.0)


def method_overridden_in_a_subclass(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, settings: Settings) -> torch.Tensor:
        return x * settings.scale()

    yield function, (tensor(), Derived())
    patch.setattr(Derived, "scale", lambda self: 3.0, raising=False)


def method_of_an_instance(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SETTINGS.scale()

    yield function, (tensor(),)
    patch.setattr(SETTINGS, "scale", lambda: 3.0)


def property_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SETTINGS.size

    yield function, (tensor(),)
    patch.setattr(Settings, "size", property(lambda self: 5))


def static_method_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * SETTINGS.offset()

    yield function, (tensor(),)
    patch.setattr(Settings, "offset", staticmethod(lambda: 4.0))


def class_method_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * Settings.shift()

    yield function, (tensor(),)
    patch.setattr(Settings, "shift", classmethod(lambda cls: 4.0))


def class_of_an_instance(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, settings: Settings) -> torch.Tensor:
        return x * settings.width

    yield function, (tensor(), Settings())
    yield tensor(), Derived()


def class_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * Settings().width

    yield function, (tensor(),)
    patch.setattr(here, "Settings", Derived)


@dataclass
class Options:
    """Read by a function of a test."""

    rate: float = 0.5
    name: str = "a"


class Pair(NamedTuple):
    first: float
    second: float


def field_of_a_dataclass(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, options: Options) -> torch.Tensor:
        return x * options.rate

    yield function, (tensor(), Options())
    yield tensor(), Options(rate=0.25)


def field_of_a_named_tuple(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor, pair: Pair) -> torch.Tensor:
        return x * pair.first

    yield function, (tensor(), Pair(1.0, 2.0))
    yield tensor(), Pair(3.0, 2.0)


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


def universal_function_replaced(patch: Patch) -> Iterator[Any]:
    def function(array: Any) -> Any:
        return numpy.sin(array) * 2

    yield function, (numpy.ones(3),)
    patch.setattr(numpy, "sin", numpy.cos)


class Tagged(torch.Tensor):
    """A tensor that somebody has made a class of."""


def method_of_a_class_of_tensors(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    yield function, (tensor().as_subclass(Tagged),)
    patch.setattr(Tagged, "tag", lambda self: 3, raising=False)


def module_replaced(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return functional.relu(x)  # type: ignore[no-any-return]

    yield function, (tensor(),)
    patch.setattr(here, "functional", types.SimpleNamespace(relu=torch.sigmoid))


functional: Any = torch.nn.functional


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
    member_of_an_enumeration, member_as_an_argument, value_of_a_cell, cell_of_a_called_function,
    default_of_a_called_function, keyword_default_of_a_called_function,
    function_of_a_module_replaced, body_of_a_function, decorated_function_replaced,
    function_that_is_wrapped_since, function_of_torch_replaced, python_function_of_torch_replaced,
    builtin_hidden_by_a_global, function_as_an_argument, part_of_a_function_as_an_argument,
    attribute_of_an_instance, attribute_of_a_class, attribute_of_a_base,
    attribute_that_hides_the_class_s, attribute_that_appears, method_replaced,
    method_overridden_in_a_subclass, method_of_an_instance, property_replaced,
    static_method_replaced, class_method_replaced, class_of_an_instance, class_replaced,
    field_of_a_dataclass, field_of_a_named_tuple, number_as_an_argument, boolean_as_a_number,
    text_as_an_argument, none_and_a_tensor, a_tensor_and_none, not_a_number,
    data_type_as_an_argument, device_as_an_argument, slice_as_an_argument, range_as_an_argument,
    set_as_an_argument, size_as_an_argument, keys_of_an_ordered_dictionary,
    number_of_numpy, shape_of_an_array, universal_function_replaced, method_of_a_class_of_tensors,
    module_replaced, alias_of_typing_replaced, two_arguments_that_are_one,
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
