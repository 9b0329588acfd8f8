# SPDX-License-Identifier: Apache-2.0
"""Functions that torch.compile leaves to Python for want of a tensor, known without asking it."""

from __future__ import annotations

import types
from typing import Any

import torch

from .entered import Entered

_PLAIN = (str, int, float, bool, type(None))
_MOST_VALUES = 1000


def has_no_tensors(entered: Entered) -> bool:
    """Whether Dynamo is sure to find nothing for it in what the function is given, nor a module of
    torch or NumPy among the globals that it names. False where that is not plain."""
    for name in entered.code.co_names:
        value = entered.globals.get(name)
        if isinstance(value, types.ModuleType) and _is_of_tensors(value.__name__):
            return False
    return _Search().finds_nothing(entered.locals.values())


def _is_of_tensors(module: str) -> bool:
    return module.partition(".")[0] in ("torch", "numpy")


class _Search:
    def __init__(self) -> None:
        self._seen: set[int] = set()

    def finds_nothing(self, values: Any) -> bool:
        return all(self._is_none(value) for value in list(values))

    def _is_none(self, value: Any) -> bool:
        if id(value) in self._seen:
            return True
        self._seen.add(id(value))
        if len(self._seen) > _MOST_VALUES:
            return False
        kind = type(value)
        if kind in _PLAIN:
            return True
        if kind is dict:
            return self.finds_nothing(value.values())
        if kind in (list, tuple) or (isinstance(value, tuple) and hasattr(value, "_fields")):
            return self.finds_nothing(value)
        if isinstance(value, type):
            return not issubclass(value, torch.nn.Module)
        # Dynamo does not look into other objects.
        return not isinstance(value, (torch.Tensor, torch.nn.Module)) and not any(
            base.__module__.partition(".")[0] == "numpy" for base in kind.__mro__
        )
