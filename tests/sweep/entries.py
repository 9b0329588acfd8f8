# SPDX-License-Identifier: Apache-2.0
"""PyTorch's operator databases as one table of entries, and the cases that they make.

A case is one entry in one dtype, one variant of its inputs (inputs.py) and one way to run it. It is
named by its key, `ENTRY|DTYPE|VARIANT|forward or gradient|static or dynamic|DEVICE`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import re
import sys
import types
import unittest
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

DTYPES = (
    "float32", "float64", "bfloat16", "float16", "int64", "int32", "uint8", "bool", "complex64",
)  # fmt: skip

# Variant -> what it is. `rejected` and `errors` are calls at which eager raises.
VARIANTS = {
    "samples": "the database's own inputs",
    "reference": "its reference inputs: more of them, broadcast, large, extremal",
    "noncontiguous": "every tensor with gaps between its elements",
    "transposed": "every tensor with its dimensions in memory reversed",
    "expanded": "every tensor with a stride of 0",
    "offset": "every tensor at an odd offset of its storage",
    "empty": "every tensor without elements",
    "scalar": "every tensor with 0 dimensions",
    "special": "NaN, infinities, zeros of both signs, the limits of integers",
    "inplace": "the in-place form of the operator",
    "errors": "the database's inputs at which the operator must raise",
    "rejected": "dtypes that the operator does not take",
}


@dataclass(frozen=True)
class Entry:
    """One entry of a database: `name` is unique over all of them."""

    name: str
    database: str
    info: Any  # an OpInfo

    def takes(self, dtype: str, device: str, gradient: bool) -> bool:
        """Whether the database says that the operator takes the dtype."""
        known = self.info.supported_backward_dtypes if gradient else self.info.supported_dtypes
        if gradient and not self.info.supports_autograd:
            return False
        return getattr(torch, dtype) in known(device)


@dataclass(frozen=True)
class Case:
    """What one line of the results is about."""

    entry: str
    dtype: str
    variant: str
    gradient: bool
    dynamic: bool
    device: str

    @property
    def key(self) -> str:
        what = "gradient" if self.gradient else "forward"
        sizes = "dynamic" if self.dynamic else "static"
        return "|".join((self.entry, self.dtype, self.variant, what, sizes, self.device))

    @staticmethod
    def parse(key: str) -> Case:
        entry, dtype, variant, what, sizes, device = key.split("|")
        return Case(entry, dtype, variant, what == "gradient", sizes == "dynamic", device)

    def number(self, seed: str) -> int:
        """A number that seed, entry, dtype and variant decide, the same on every machine."""
        text = "|".join((seed, self.entry, self.dtype, self.variant))
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


@functools.lru_cache(maxsize=1)
def entries() -> dict[str, Entry]:
    """All entries by name; of the reference database those that no operator's entry names."""
    _stand_in_for_expecttest()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from torch.testing._internal import common_methods_invocations as database
        from torch.testing._internal.custom_op_db import custom_op_db
        from torch.testing._internal.hop_db import hop_db
    # Its lambdas call random operators through this, which sets seeds in ways that no graph holds.
    vars(database)["wrapper_set_seed"] = _call
    operators = {info.full_name for info in database.op_db}
    groups = {
        "operators": database.op_db,
        "references": [
            info
            for info in database.python_ref_db
            if info.full_name.removeprefix("_refs.") not in operators
        ],
        "custom": custom_op_db,
        "higher-order": hop_db,
    }
    found: dict[str, Entry] = {}
    for group, infos in groups.items():
        for info in infos:
            name = info.full_name
            assert name not in found, f"two entries are called {name}"
            found[name] = Entry(name, group, info)
    return found


def _stand_in_for_expecttest() -> None:
    """torch's tests derive from a class of that package, of which the databases use nothing."""
    if importlib.util.find_spec("expecttest") is None:
        module = types.ModuleType("expecttest")
        vars(module)["TestCase"] = unittest.TestCase
        sys.modules["expecttest"] = module


def _call(function: Any, *args: Any, **kwargs: Any) -> Any:
    return function(*args, **kwargs)


@dataclass(frozen=True)
class Selection:
    """Which cases a run has. `ops`: a regular expression, found anywhere in an entry's name."""

    ops: str = ""
    dtypes: tuple[str, ...] = DTYPES
    variants: tuple[str, ...] = tuple(VARIANTS)
    device: str = "cpu"
    forward: bool = True
    gradient: bool = True
    static: bool = True
    dynamic: bool = False
    share: int = 0  # of `shares`
    shares: int = 1
    seed: str = ""


def cases(selection: Selection) -> Iterator[Case]:
    """In an order that is random but always the same, so that a run that is cut short has seen
    something of everything."""
    found = [
        case
        for entry in entries().values()
        if re.search(selection.ops, entry.name)
        for case in _cases_of(entry, selection)
        if case.number(selection.seed) % selection.shares == selection.share
    ]
    yield from sorted(found, key=lambda case: (case.number("order"), case.key))


def _cases_of(entry: Entry, selection: Selection) -> Iterator[Case]:
    for dtype in selection.dtypes:
        takes = entry.takes(dtype, selection.device, gradient=False)
        for variant in selection.variants:
            # The database's errors have dtypes of their own: one case holds them all.
            wanted = dtype == "float32" if variant == "errors" else takes != (variant == "rejected")
            if not wanted or (variant == "inplace" and entry.info.get_inplace() is None):
                continue
            raises = variant in ("errors", "rejected")
            for gradient in (False, True):
                if not (selection.gradient if gradient else selection.forward):
                    continue
                if gradient and (raises or not entry.takes(dtype, selection.device, True)):
                    continue
                if gradient and variant == "inplace" and not entry.info.supports_inplace_autograd:
                    continue
                for dynamic in (False, True):
                    if not (selection.dynamic if dynamic else selection.static):
                        continue
                    yield Case(entry.name, dtype, variant, gradient, dynamic, selection.device)
