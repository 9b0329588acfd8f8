# SPDX-License-Identifier: Apache-2.0
"""Dynamo's compilations, resets and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch


def around_compiles(begins: Callable[..., None], ends: Callable[..., None]) -> bool:
    """Has Dynamo call `begins` before and `ends` after its compilations, those within others left
    out, whatever the backend; once, however often this is called. True when it was not so before.

    2.11 to 2.13: torch._dynamo.reset() drops both. Where it is missing nothing is called.
    """
    handler = getattr(torch._dynamo, "callback_handler", None)
    if handler is None or begins in handler.start_callbacks:
        return False
    handler.register_end_callback(ends)
    handler.register_start_callback(begins)
    return True


def told_of_resets(backend: Any) -> None:
    """Has the next torch._dynamo.reset() call `backend.reset()`, once, even if asked several times.

    A reset forgets all backends, and torch.compile notes the one that it is given.
    Where that is missing nothing is called.
    """
    backends = getattr(torch._dynamo.eval_frame, "cached_backends", None)
    if isinstance(backends, dict):
        backends[id(backend)] = backend


def errors_for_dynamo() -> tuple[type[BaseException], ...]:
    """What a backend may raise to tell Dynamo that a graph cannot be traced: sizes or values that
    depend on data, and the like."""
    return tuple(getattr(torch._dynamo.exc, "exceptions_allowed_to_be_fallback", ()))


@contextmanager
def breaks() -> Iterator[list[Any]]:
    """A block whose graph breaks are in the list at its end, in order: `reason`, and `user_stack`
    of traceback.FrameSummary, outermost first (GraphCompileReason, 2.11 to 2.13)."""
    from torch._dynamo import utils

    noted: list[Any] = utils.graph_break_reasons
    before = len(noted)
    found: list[Any] = []
    try:
        yield found
    finally:
        found += noted[before:]
