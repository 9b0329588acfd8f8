# SPDX-License-Identifier: Apache-2.0
"""Which programs this process has loaded: the runtime's numbers of them, and their keys."""

from __future__ import annotations

_keys: dict[int, bytes] = {}  # every use is one operation of the dictionary


def note(number: int, key: bytes) -> None:
    """A program of this key was loaded."""
    _keys[number] = key


def renumber(before: int, after: int) -> None:
    """A program was loaded once more, for a faster bridge."""
    if (key := _keys.pop(before, None)) is not None:
        _keys[after] = key


def key_of(number: int) -> bytes:
    """The key of 32 bytes; empty: no daemon gave it."""
    return _keys.get(number, b"")
