# SPDX-License-Identifier: Apache-2.0
"""Functions whose frames have between them most kinds of sources, guards, graphs and bytecode."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

import numpy
import torch


class Mode(enum.Enum):
    """A setting."""

    ADD = 1
    MULTIPLY = 2


@dataclasses.dataclass
class Settings:
    """Of what the functions read."""

    flag: bool = True
    scale: float = 2.0
    mode: Mode = Mode.ADD
    sizes: tuple[int, ...] = (3, 4)


SETTINGS = Settings()
TABLE = {"a": 1.0, "b": [1, 2, 3]}


class Model(torch.nn.Module):
    """Two layers, dropout in training, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(2))
        self.dropout = torch.nn.Dropout(0.0)
        self.register_buffer("offset", torch.ones(4))

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> Any:
        """Its result, and a view of it."""
        for layer in self.layers:
            x = self.dropout(layer(x)).relu()
        result = x * scale + self.offset
        return {"result": result, "first": result[0]}


def helper(x: torch.Tensor, amount: float = 1.0) -> torch.Tensor:
    return x + amount


def settings(x: torch.Tensor, settings: Settings) -> torch.Tensor:
    """Attributes, globals, a default, a member of an enumeration."""
    if settings.mode is Mode.ADD and SETTINGS.flag:
        x = helper(x) * settings.scale
    return x.reshape(settings.sizes) + TABLE["a"] + len(TABLE["b"])


def collections(x: torch.Tensor, items: dict[str, Any], text: str) -> Any:
    """Keys and their order, a set, an array, what is changed in place."""
    total = sum(value for value in items.values() if isinstance(value, torch.Tensor))
    x.add_(torch.as_tensor(items["array"]))
    return (x + total, text + "!", [x, {"kept": x}]) if "missing" not in items else x


def broken(x: torch.Tensor) -> torch.Tensor:
    """Goes on behind a graph break."""
    y = x * 2
    torch._dynamo.graph_break()
    return y.sin() + len(y.shape)


def made(factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """A closure."""

    def scaled(x: torch.Tensor) -> torch.Tensor:
        return helper(x) * factor

    return scaled


def sized(x: torch.Tensor) -> torch.Tensor:
    """Of two sizes: the second leaves it open."""
    return x.repeat(2, 1) * x.shape[0]


def x(*sizes: int) -> torch.Tensor:
    return torch.ones(*(sizes or (3, 4)))


# What is compiled, and the arguments of its calls; of the last call the frame is read.
CASES: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "settings": (settings, [(x(), Settings())]),
    "collections": (collections, [(x(), {"a": x(), "array": numpy.ones(4, "float32")}, "text")]),
    "broken": (broken, [(x(),)]),
    "closure": (made(3.0), [(x(),)]),
    "sized": (sized, [(x(3, 4),), (x(5, 4),)]),
    "training": (Model(), [(x(2, 4).requires_grad_(), 2.0)]),
    "inference": (Model().eval().requires_grad_(False), [(x(2, 4), 2.0)]),
}
