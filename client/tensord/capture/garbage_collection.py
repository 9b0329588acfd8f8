# SPDX-License-Identifier: Apache-2.0
"""Full garbage collections wait while a graph is captured.

Python walks every object of the process once the objects that survived are a quarter more than at
its last walk. A job has a million of them before it compiles anything, and capture adds several
hundred thousand that live on, so each graph of a model sets off a walk or more of some tenths of a
second. Younger generations are collected as ever: what capture makes and drops goes at once. The
next full collection comes when the job itself has made enough objects.
"""

from __future__ import annotations

import contextlib
import gc
import os
import threading
from collections.abc import Iterator
from typing import Any

from .. import torch_compat

_NEVER = 1 << 30  # collections of the middle generation until a full one


class Pause:
    """Full collections of this process, which wait while anybody holds them. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # a finalizer may compile
        self._holders: set[object] = set()
        self._before: tuple[int, int, int] | None = None

    def hold(self, holder: object) -> None:
        """Until release(holder); holding twice is holding once."""
        with self._lock:
            self._holders.add(holder)
            if self._before is None:
                self._before = gc.get_threshold()
                gc.set_threshold(*self._before[:2], _NEVER)

    def release(self, holder: object) -> None:
        """Once nobody holds any more the thresholds are as before, unless others set them since."""
        with self._lock:
            self._holders.discard(holder)
            if self._holders or self._before is None:
                return
            before, self._before = self._before, None
            if gc.get_threshold() != (*before[:2], _NEVER):
                return
            gc.set_threshold(*before)
        _count_anew()

    def end(self) -> None:
        """In a forked child: nobody captures there."""
        self._lock = threading.RLock()
        for holder in [*self._holders, None]:
            self.release(holder)


def _count_anew() -> None:
    """Has Python count from here to its next full collection, which is long due."""
    if gc.isenabled() and gc.get_freeze_count() == 0:  # else what the user froze would thaw
        gc.freeze()
        gc.unfreeze()  # into the oldest generation, all counts zero


_pause = Pause()
_DYNAMO = object()


def _dynamo_begins(*_: Any) -> None:
    _pause.hold(_DYNAMO)


def _dynamo_ends(*_: Any) -> None:
    _pause.release(_DYNAMO)


def watch_dynamo() -> None:
    """Has full collections wait while Dynamo compiles, from before it calls any backend.

    To be called again now and then: torch._dynamo.reset() undoes it.
    """
    if torch_compat.around_compiles(_dynamo_begins, _dynamo_ends):
        _pause.release(_DYNAMO)  # what began before that will not be heard to end


@contextlib.contextmanager
def waits() -> Iterator[None]:
    """A block in which full collections wait."""
    holder = object()
    _pause.hold(holder)
    try:
        yield
    finally:
        _pause.release(holder)


os.register_at_fork(after_in_child=_pause.end)
