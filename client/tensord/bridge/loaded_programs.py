# SPDX-License-Identifier: Apache-2.0
"""Which programs this process has loaded: the runtime's numbers of them, and their keys."""

from __future__ import annotations

import contextlib

_MOST = 1 << 16  # programs that are known, the newest: a process may load and drop many more
_keys: dict[int, bytes] = {}  # every use is one operation of the dictionary


def note(number: int, key: bytes) -> None:
    """A program of this key was loaded."""
    _keys[number] = key
    if len(_keys) > _MOST:
        with contextlib.suppress(KeyError, RuntimeError, StopIteration):  # another thread does it
            del _keys[next(iter(_keys))]


def renumber(before: int, after: int) -> None:
    """A program was loaded once more, for a faster bridge. Runs that were timed before have the
    number of before."""
    if (key := _keys.get(before)) is not None:
        note(after, key)


def key_of(number: int) -> bytes:
    """The key of 32 bytes; empty: no daemon gave it."""
    return _keys.get(number, b"")
