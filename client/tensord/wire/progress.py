# SPDX-License-Identifier: Apache-2.0
"""What people see of a wait for compiles: nothing for a second, then a bar on a terminal.

Elsewhere the logger `tensord` says it at INFO, once. TENSORD_PROGRESS=0 shows nothing, and
TENSORD_PROGRESS=1 a bar wherever standard error goes. Of several ranks the first shows one. It is
all drawn by the thread that waits: a job that forks has no thread of ours.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from . import transport
from .caller import caller

log = logging.getLogger("tensord")

FIRST_S = 1.0
EVERY_S = 0.2


@contextlib.contextmanager
def line() -> Iterator[transport.Ticker | None]:
    """Around one wait; the ticker is to be called while it lasts."""
    if os.environ.get("TENSORD_PROGRESS") == "0":
        yield None
        return
    shown = Line()
    try:
        yield shown
    finally:
        shown.close()


class Line:
    """A transport.Ticker that asks the daemon how far the compiles of this process are."""

    def __init__(self) -> None:
        self.due = time.monotonic() + FIRST_S
        self._watch: transport.Call | None = None
        self._shares: dict[bytes, float] = {}  # by program; of those that have come, 1
        self._bar: Any = None

    def tick(self) -> None:
        """Shows what the daemon has said since; what it does not say is not shown."""
        self.due = time.monotonic() + EVERY_S
        try:
            if self._watch is None:
                from .rpc import client  # which asks here for a line

                self._watch = client().watch_compiles(EVERY_S)
                return
            for update in self._watch.arrived():
                self._show(update)
        except Exception as error:  # the wait itself tells what the matter is
            log.debug("how far compiles are cannot be shown: %r", error)
            self.due = float("inf")

    def close(self) -> None:
        """Takes the bar away."""
        if self._watch is not None:
            self._watch.close()
        if self._bar is not None:
            self._bar.close()

    def _show(self, message: bytes) -> None:
        from ..v1 import requests_pb2

        compiles = requests_pb2.CompilesUpdate.FromString(message).compiles
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
