# SPDX-License-Identifier: Apache-2.0
"""What people see of a wait for compiles: nothing for a second, then a bar on a terminal.

Elsewhere the logger `tensord` says it at INFO, once. TENSORD_PROGRESS=0 shows nothing, and
TENSORD_PROGRESS=1 a bar wherever standard error goes. Of several ranks the first shows one. It is
all drawn by the thread that waits (`watch`): a job that forks has no thread of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .caller import caller

if TYPE_CHECKING:
    from ..v1 import requests_pb2

log = logging.getLogger("tensord")

FIRST_S = 1.0
EVERY_S = 0.2


@contextlib.contextmanager
def line() -> Iterator[Line | None]:
    """Around one wait; None: nothing is to be shown."""
    if os.environ.get("TENSORD_PROGRESS") == "0":
        yield None
        return
    shown = Line()
    try:
        yield shown
    finally:
        shown.close()


class Line:
    """Shows how far the compiles of this process are."""

    def __init__(self) -> None:
        self._shares: dict[bytes, float] = {}  # by program; of those that have come, 1
        self._bar: Any = None

    def close(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.close()

    def show(self, update: requests_pb2.CompilesUpdate) -> None:
        """What the daemon says; of a process that waits for nothing it says nothing."""
        compiles = update.compiles
        if not compiles:
            return
        is_first = not self._shares
        self._shares = dict.fromkeys(self._shares, 1.0)
        self._shares |= {compile.program_key: compile.share for compile in compiles}
        words = _words(compiles)
        if is_first:
            log.info("tensord: waits for %s", words)
            self._bar = _bar()  # not before: an earlier daemon says nothing
        if self._bar is not None:
            self._bar.n = sum(self._shares.values()) / len(self._shares)
            self._bar.set_postfix_str(words)


def _words(compiles: Any) -> str:
    """Such as "2 programs, kernels 3 of 17", of the CompileProgress of a process."""
    count = len(compiles)
    kernels = sum(compile.kernels for compile in compiles)
    ready = sum(compile.kernels_ready for compile in compiles)
    programs = f"{count} program{'s' if count > 1 else ''}"
    if kernels:
        return f"{programs}, kernels {ready} of {kernels}"
    waiting = all(compile.stage == compile.WAITING for compile in compiles)
    return f"{programs}, {'waiting for a turn' if waiting else 'compiling'}"


def _bar() -> Any:
    """None where there is nobody to look at it, or no tqdm."""
    forced = os.environ.get("TENSORD_PROGRESS") == "1"
    if not forced and (caller().rank > 0 or not sys.stderr.isatty()):
        return None
    try:
        base: Any = importlib.import_module("tqdm").tqdm
    except ImportError:
        return None

    class Bar(base):
        monitor_interval = 0  # tqdm would start a thread

    return Bar(
        total=1.0, desc="tensord compiles", leave=False, file=sys.stderr, mininterval=0,
        bar_format="{desc} {percentage:3.0f}% |{bar:24}| {elapsed}{postfix}",
    )  # fmt: skip
