# SPDX-License-Identifier: Apache-2.0
"""Every operator of tests/e2e/op_table.py against eager and float64."""

from __future__ import annotations

import functools
from collections.abc import Callable

import op_check


def checks() -> list[tuple[str, Callable[[], None]]]:
    """In an order that mixes kinds, so that one that is cut short has seen all of them."""
    runs = [
        (f"{case.name}-{how}", functools.partial(op_check.run, case, how))
        for case, how in op_check.RUNS
    ]
    stride = 7
    return [run for start in range(stride) for run in runs[start::stride]]
