# SPDX-License-Identifier: Apache-2.0
"""Why a frame is not recorded, and why one that was is not used."""

from __future__ import annotations


class UnrecordableError(ValueError):
    """What a capture depends on cannot be said to another process; the message is the reason that a
    user reads."""


class UnfitError(ValueError):
    """A frame is not for this process as it is; the message is the reason that a user reads: a
    guard that does not hold, say. found: what was there instead, in words, or ""."""

    def __init__(self, message: str, found: str = "") -> None:
        super().__init__(message)
        self.found = found

    def in_words(self) -> str:
        """Both, for people."""
        return f"{self}: {self.found}" if self.found else str(self)
