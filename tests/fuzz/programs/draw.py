# SPDX-License-Identifier: Apache-2.0
"""Draws operands and arguments for the next node, given the values that there are so far."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import torch
from torch import Tensor

FLOATS = (torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16)
INTEGERS = (torch.int64, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


class UnfitError(Exception):
    """No value so far can be the operand."""


def is_integer(x: Tensor) -> bool:
    return not x.is_floating_point() and x.dtype is not torch.bool


def exact(x: Tensor) -> bool:
    """Not of a dtype that rounds so much that comparisons are a matter of luck."""
    return x.dtype in (torch.float32, torch.float64) or not x.is_floating_point()


class Draw:
    """The values by name, and choices among them.

    symbolic: how often a size is written as an expression of sizes rather than as a number.
    most_elements: of a value.
    """

    def __init__(self, rng: random.Random, symbolic: float, most_elements: int) -> None:
        self.rng = rng
        self.symbolic = symbolic
        self.most_elements = most_elements
        self.values: dict[str, Tensor] = {}

    def name(self, fits: Callable[[Tensor], bool] = lambda x: True) -> str:
        """A value that fits; later ones more often, so that programs are deep."""
        names = [name for name, value in self.values.items() if fits(value)]
        if not names:
            raise UnfitError
        if self.rng.random() < 0.4:
            return names[-1 - min(int(self.rng.expovariate(0.7)), len(names) - 1)]
        return self.rng.choice(names)

    def float(self, least: int = 0, most: int = 9) -> str:
        """A floating-point value of so many dimensions."""
        return self.name(lambda x: x.is_floating_point() and least <= x.dim() <= most)

    def any(self, least: int = 0, most: int = 9) -> str:
        """A value of any dtype of so many dimensions."""
        return self.name(lambda x: least <= x.dim() <= most)

    def beside(self, first: str, fits: Callable[[Tensor], bool] = lambda x: True) -> str:
        """Another value that broadcasts with the first."""
        shape = self.values[first].shape

        def broadcasts(x: Tensor) -> bool:
            try:
                result = torch.broadcast_shapes(shape, x.shape)
            except RuntimeError:
                return False
            return fits(x) and result.numel() <= self.most_elements

        return self.name(broadcasts)

    def dim(self, name: str) -> int:
        """A dimension, from the front or from the back."""
        count = self.values[name].dim()
        if not count:
            raise UnfitError
        return self.rng.randrange(-count, count)

    def size(self, name: str, dim: int) -> str:
        """The size as text."""
        value = self.values[name].size(dim)
        return f"{name}.size({dim})" if self.rng.random() < self.symbolic else str(value)

    def sizes(self, name: str) -> list[str]:
        """All sizes as texts."""
        return [self.size(name, i) for i in range(self.values[name].dim())]

    def constant(self) -> str:
        """A number between -2 and 2 that is not near 0."""
        value = self.rng.choice([0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 0.3, 1.1, 0.7])
        return str(value if self.rng.random() < 0.7 else -value)

    def dtype(self) -> torch.dtype:
        return self.rng.choice(FLOATS if self.rng.random() < 0.6 else INTEGERS)

    def fill(self, template: str) -> str:
        """The text of a template, whose placeholders are:

        {f} a float, {e} one that does not round much, {i} an integer, {b} truth values, {n} a
        number, {x} any value; {g}, {j}, {m}, {y}, {c}: one that broadcasts with the first: a
        float, an integer, a number, anything, truth values; {s} one of its shape and dtype; {d} a
        dimension of the first, {k} a number, {p} a small positive integer, {t} a dtype.
        """
        chosen: dict[str, str] = {}
        first = ""
        # Operands come before what depends on the first of them.
        for key in sorted(set(re.findall(r"\{(\w)\}", template)), key="feibnxgjmycsdkpt".index):
            kinds: dict[str, Callable[[Tensor], bool]] = {
                "f": Tensor.is_floating_point,
                "e": lambda x: x.is_floating_point() and exact(x),
                "i": is_integer,
                "b": lambda x: x.dtype is torch.bool,
                "n": lambda x: x.dtype is not torch.bool,
                "x": lambda x: True,
            }
            if key in "feibnx":
                chosen[key] = self.name(kinds[key]) if not first else self.beside(first, kinds[key])
                first = first or chosen[key]
            elif key in "gjmyc":
                kind = kinds[dict(zip("gjmyc", "finxb", strict=True))[key]]
                chosen[key] = self.beside(first, kind)
            elif key == "s":
                like = self.values[first]
                chosen[key] = self.name(lambda x, y=like: (x.shape, x.dtype) == (y.shape, y.dtype))
            elif key == "d":
                chosen[key] = str(self.dim(first))
            elif key == "k":
                chosen[key] = self.constant()
            elif key == "p":
                chosen[key] = str(self.rng.randint(1, 4))
            else:
                chosen[key] = str(self.dtype())
        return re.sub(r"\{(\w)\}", lambda match: chosen[match[1]], template)
