# SPDX-License-Identifier: Apache-2.0
"""Makes something that fails smaller, step by step, as long as it fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

T = TypeVar("T")


def shrink(
    first: T,
    candidates: Callable[[T], Iterable[T]],
    fails: Callable[[T], bool],
    key: Callable[[T], Hashable],
    seconds: float,
) -> T:
    """The smallest that is found in the time; where time was left, none of its candidates fails.

    candidates: what is a step smaller, the boldest steps first. fails: whether it fails as the
    first did. key: equal for what need not be tried twice.
    """
    deadline = time.monotonic() + seconds
    smallest, seen = first, {key(first)}
    progress = True
    while progress:
        progress = False
        for candidate in candidates(smallest):
            if time.monotonic() > deadline:
                return smallest
            if key(candidate) in seen:
                continue
            seen.add(key(candidate))
            if fails(candidate):
                smallest, progress = candidate, True
                break
    return smallest
