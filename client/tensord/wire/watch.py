# SPDX-License-Identifier: Apache-2.0
"""What a wait for the daemon asks it meanwhile: how far the compiles of this process are.

People see some of the answers (`progress`), and all of them are signs of life. Pings of HTTP/2 are
answered by the daemon's transport, whatever has become of the threads behind it and of its disk; so
from a second on a second call has the daemon say several times a second that what this process
waits for still moves. What is answered within a second, as look-ups are, costs no such call.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import DaemonSilentError
from . import progress, transport

if TYPE_CHECKING:
    from ..v1 import requests_pb2

log = logging.getLogger("tensord")

# Without an answer, or with answers that nothing moves: the daemon hangs.
SILENCE_S = 2.0


@contextlib.contextmanager
def watched(
    tells_silence: bool, line: progress.Line | None = None
) -> Iterator[transport.Ticker | None]:
    """Around one wait; the ticker is to be called while it lasts. tells_silence: the daemon does
    (HelloReply); one that does not is asked for what people see alone."""
    if line is None and not tells_silence:
        yield None
        return
    watch = Watch(line, tells_silence)
    try:
        yield watch
    finally:
        watch.close()


class Watch:
    """A transport.Ticker that ends the wait for a daemon that hangs."""

    def __init__(self, line: progress.Line | None, tells_silence: bool) -> None:
        self.due = time.monotonic() + progress.FIRST_S
        self._line = line
        self._tells_silence = tells_silence
        self._call: transport.Call | None = None
        self._heard = 0.0  # when the daemon last said something

    def tick(self) -> None:
        """Takes in what the daemon has said since."""
        self.due = time.monotonic() + progress.EVERY_S
        try:
            updates = self._ask()
        except DaemonSilentError:  # it does not even take the question
            if self._tells_silence:
                raise transport.SilentError(SILENCE_S) from None
            self.due = float("inf")
            return
        except Exception as error:  # the wait itself tells what the matter is
            log.debug("how far compiles are is not known: %r", error)
            self.due = float("inf")
            return
        if self._tells_silence:
            self._judge(updates)
        if self._line is not None:
            for update in updates:
                self._line.show(update)

    def _ask(self) -> list[requests_pb2.CompilesUpdate]:
        if self._call is None:
            from .rpc import client  # which asks here for a watch

            self._call = client().watch_compiles(progress.EVERY_S)
            self._heard = time.monotonic()
            return []
        from ..v1 import requests_pb2

        return [requests_pb2.CompilesUpdate.FromString(said) for said in self._call.arrived()]

    def _judge(self, updates: list[requests_pb2.CompilesUpdate]) -> None:
        now = time.monotonic()
        if not updates:
            if now - self._heard > SILENCE_S:
                raise transport.SilentError(SILENCE_S)
            return
        self._heard = now
        # The last word counts: a process that was stopped itself finds old ones before it.
        silent_s = updates[-1].silent_nanoseconds / 1e9
        if silent_s > SILENCE_S:
            raise transport.SilentError(SILENCE_S, "progress")

    def close(self) -> None:
        """Asks no more."""
        if self._call is not None:
            self._call.close()
