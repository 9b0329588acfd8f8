# SPDX-License-Identifier: Apache-2.0
"""A job never dies of the compiler: what fails here runs in eager, is counted and is said once.

TENSORD_STRICT=1 turns every fallback into its error, for tests.
"""

from __future__ import annotations

import logging
import os
import warnings

from .counters import STATS
from .errors import BackendFailedError, TensordError

log = logging.getLogger("tensord")


class TensordWarning(UserWarning):
    """Says that something runs in eager; one per process and reason."""


_said: set[str] = set()


def strict() -> bool:
    """True when TENSORD_STRICT=1."""
    return os.environ.get("TENSORD_STRICT", "0") == "1"


def note(error: BaseException, what: str, outcome: str = "runs in eager") -> None:
    """Counts a fallback and warns once per reason; raises instead when strict.

    what: the thing that failed, for the message ("the forward graph"). outcome: what comes of it.
    """
    known = error if isinstance(error, TensordError) else None
    if known is None:
        known = BackendFailedError(f"{type(error).__name__}: {error}")
        known.__cause__ = error
    if strict():
        raise known
    STATS.add_fallback(known.reason)
    message = f"tensord: {what} {outcome}: {known.reason}: {known} ({known.advice})"
    if known.reason in _said:
        log.debug(message)
        return
    _said.add(known.reason)
    log.warning(message, exc_info=known.__cause__ if type(known) is BackendFailedError else None)
    warnings.warn(message, TensordWarning, stacklevel=3)


def forget_said() -> None:
    """Lets every reason be said once more (for tests)."""
    _said.clear()
