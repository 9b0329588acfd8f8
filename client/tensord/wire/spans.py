# SPDX-License-Identifier: Apache-2.0
"""What this process did for a program, and when: its capture, its request, its first call.

The daemon hears of it for traces (`tensorctl trace`), once the program has run for the first time.
Where programs come fast, several are told together: with a later one, at the second call of one, or
when the process ends, so that a model of many programs pays for few such calls. What cannot be told
is dropped, and no call fails of it. Imports neither torch nor protobuf.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..v1 import requests_pb2

log = logging.getLogger("tensord")

# By time.monotonic_ns, the clock of every process of the host.
now = time.monotonic_ns

EVERY_S = 0.25
_AFTER_FAILURE_S = 30.0
_TIMEOUT_S = 0.5
_MOST_PENDING = 64
_AT_ONCE = 16  # of the daemon's 64, as they may be large
_MOST_OF_CAPTURE = 100  # of the daemon's 128 for one request
_LONGEST_NAME, _LONGEST_DETAIL = 60, 120


@dataclass(frozen=True)
class _Span:
    name: str
    start: int
    end: int
    detail: str = ""


@dataclass
class _Spans:
    """Of one track, as they end."""

    spans: list[_Span] = field(default_factory=list)

    @contextlib.contextmanager
    def timed(self, name: str, detail: str = "") -> Iterator[None]:
        begun = now()
        try:
            yield
        finally:
            self.add(name, begun, detail)

    def add(self, name: str, begun: int, detail: str = "") -> None:
        if len(self.spans) < _MOST_OF_CAPTURE:
            self.spans.append(_Span(name, begun, now(), detail))


# -- capture --------------------------------------------------------------------------------------


class _Current(threading.local):
    capture: _Spans | None = None
    dynamo: int | None = None  # since when it looks at a function


_current = _Current()


def in_dynamo(capture: Callable[[], Any]) -> Any:
    """Calls `capture`, by which Dynamo looks at a function and comes to the backend."""
    before, _current.dynamo = _current.dynamo, now()
    try:
        return capture()
    finally:
        _current.dynamo = before


@contextlib.contextmanager
def capturing() -> Iterator[None]:
    """A block in which a graph is captured: what is timed there is of the programs asked for."""
    begun, made = now(), _Spans()
    since, _current.dynamo = _current.dynamo or begun, None
    if since < begun:
        made.add("dynamo", since)
    before, _current.capture = _current.capture, made
    try:
        yield
    finally:
        _current.capture = before
        made.spans.append(_Span("capture", since, now()))  # however many there are


@contextlib.contextmanager
def timed(name: str, detail: str = "") -> Iterator[None]:
    """A part of the capture under way; where there is none, nothing."""
    capture = _current.capture
    with capture.timed(name, detail) if capture is not None else contextlib.nullcontext():
        yield


# -- programs -------------------------------------------------------------------------------------


class Asked:
    """A program that this process asks for, from here on. `timed`: of waiting, loading and its
    first call."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._capture = _current.capture
        self._begun = now()
        self._answer: tuple[int, bytes] | None = None
        self._answered = 0
        self._program = _Spans()
        self.timed = self._program.timed

    def answered(self, reply: requests_pb2.CompileReply) -> None:
        """The daemon has it."""
        self._answer, self._answered = (reply.request_id, reply.program_key), now()

    def done(self, first_call: int | None = None) -> None:
        """It has run, or is loaded. Once; what comes later counts for nothing. first_call: when
        the call began that was the first."""
        answer, self._answer = self._answer, None
        if answer is None or self._pid != os.getpid():  # the parent asked, and says so
            return
        if first_call is not None:
            self._program.add("first call", first_call)
        request, key = answer
        tracks = {
            "capture": self._capture.spans if self._capture is not None else [],
            f"request {request}": [_Span("request", self._begun, self._answered)],
            f"program of request {request}": self._program.spans,
        }
        _teller.add(_Program(request, key, tracks))


@dataclass(frozen=True)
class _Program:
    request: int
    key: bytes
    tracks: dict[str, list[_Span]]

    def fill(self, message: requests_pb2.JobSpans, pid: int) -> None:
        message.request_id = self.request
        message.program_key = self.key
        for track, spans in self.tracks.items():
            for span in spans:
                message.spans.add(
                    name=span.name[:_LONGEST_NAME],
                    start_nanoseconds=span.start,
                    nanoseconds=span.end - span.start,
                    process="JOB",
                    pid=pid,
                    track=track,
                    detail=span.detail[:_LONGEST_DETAIL],
                )


# -- telling the daemon ---------------------------------------------------------------------------


class _Teller:
    """Programs of which the daemon has not heard. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pending: list[_Program] = []
        self._due = self._off_until = 0.0  # by time.monotonic()

    def add(self, program: _Program) -> None:
        with self._lock:
            self._pending = [*self._pending[1 - _MOST_PENDING :], program]
            is_due = time.monotonic() >= self._due or len(self._pending) >= _AT_ONCE
        if is_due:
            self.tell()

    def is_waiting(self) -> bool:
        return bool(self._pending)

    def tell(self) -> None:
        """Raises nothing."""
        with self._lock:
            programs, self._pending = self._pending, []
            self._due = time.monotonic() + EVERY_S
        if not programs or time.monotonic() < self._off_until:
            return
        try:
            _put(programs)
        except Exception as error:
            self._off_until = time.monotonic() + _AFTER_FAILURE_S
            log.debug("what this process did for programs was not told: %r", error)


def _put(programs: list[_Program]) -> None:
    from ..v1 import requests_pb2
    from . import rpc  # which has an Asked for each of its compiles
    from .caller import caller

    client, this = rpc.client(), caller()
    if not client.takes_spans():
        return
    for first in range(0, len(programs), _AT_ONCE):
        request = requests_pb2.PutSpansRequest(caller=this)
        for program in programs[first : first + _AT_ONCE]:
            program.fill(request.programs.add(), this.pid)
        client.call("PutSpans", request, _TIMEOUT_S)


_teller = _Teller()


def are_waiting() -> bool:
    """Whether there is something that the daemon has not heard."""
    return _teller.is_waiting()


def tell() -> None:
    """Tells it now. Raises nothing."""
    _teller.tell()


def _in_child() -> None:
    global _teller
    _teller = _Teller()  # a thread of the parent may have held its lock


os.register_at_fork(after_in_child=_in_child)
atexit.register(tell)
