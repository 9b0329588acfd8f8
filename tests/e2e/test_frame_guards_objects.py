# SPDX-License-Identifier: Apache-2.0
"""Guards on objects and their classes: attributes, methods, properties, fields."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import frame_guard_cases
import pytest
import torch
from frame_guard_cases import Case, parametrised

pytestmark = pytest.mark.usefixtures("native_guards")
here = sys.modules[__name__]
Patch = pytest.MonkeyPatch


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


def tensor() -> torch.Tensor:
    return torch.ones(2, 3)


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


class Tagged(torch.Tensor):
    """A tensor that somebody has made a class of."""


def method_of_a_class_of_tensors(patch: Patch) -> Iterator[Any]:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    yield function, (tensor().as_subclass(Tagged),)
    patch.setattr(Tagged, "tag", lambda self: 3, raising=False)


CASES: list[Case] = [
    attribute_of_an_instance, attribute_of_a_class, attribute_of_a_base,
    attribute_that_hides_the_class_s, attribute_that_appears, method_replaced,
    method_overridden_in_a_subclass, method_of_an_instance, property_replaced,
    static_method_replaced, class_method_replaced, class_of_an_instance, class_replaced,
    field_of_a_dataclass, field_of_a_named_tuple, method_of_a_class_of_tensors,
]  # fmt: skip


@parametrised(CASES)
def test_a_change_is_seen(case: Case, monkeypatch: Patch) -> None:
    frame_guard_cases.check(case, monkeypatch)
