# SPDX-License-Identifier: Apache-2.0
"""Tests that `tests/run.sh` leaves to `tests/run.sh --long`: what takes minutes of two cores while
shorter tests look at the same code.

A whole file or test says so by `pytestmark` or a decorator `pytest.mark.long`; `long_but` is for
some of its cases.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def long_but(short: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """Cases for `pytest.mark.parametrize`, of which those that are not `short` are long. A tuple
    is a case of several arguments."""

    def long(case: Any) -> Any:
        return pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.long)

    return [case if case in short else long(case) for case in cases]
