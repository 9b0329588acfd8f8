# SPDX-License-Identifier: Apache-2.0
"""Frames in the daemon, and those of them that this process has fetched.

One reply brings the frames of a code and of the codes that jobs entered behind it, so that a model
of many frames asks once.
"""

from __future__ import annotations

import atexit
import copy
import logging
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from ..errors import TensordError
from ..v1 import frame_pb2, requests_pb2
from ..wire import rpc
from ..wire.caller import caller
from . import environment as environments

log = logging.getLogger("tensord")

# How long a process waits for another one that captures the same code.
WAIT_S = 60.0
_FIND_TIMEOUT_S = 10.0  # beyond the wait
_PUT_TIMEOUT_S = 60.0
_MOST_PENDING_USES = 256
# Of frames, as they came; in memory they take some three times as much. They are for calls yet to
# come, as of another shape; one that went is asked for again.
_MOST_FETCHED_BYTES = 32 << 20
_MOST_FETCHED = 512  # small ones take ten times their bytes

Place = tuple[bytes, bytes]  # environment and code


@dataclass
class Reply:
    """frames: by their keys. capture: the lease under which this process captures; 0: none."""

    frames: dict[bytes, frame_pb2.Frame] = field(default_factory=dict)
    capture: int = 0


class _Fetched:
    """Frames of codes, the latest that came; not thread-safe."""

    def __init__(self) -> None:
        self._bytes = 0
        # With sizes as they came; the oldest first.
        self._frames: OrderedDict[tuple[Place, bytes], tuple[frame_pb2.Frame, int]] = OrderedDict()

    def of(self, place: Place) -> dict[bytes, frame_pb2.Frame]:
        return {key: frame for (at, key), (frame, _) in self._frames.items() if at == place}

    def came_again(self, place: Place, key: bytes) -> bool:
        """Whether it is here, and from now on the latest."""
        if (place, key) not in self._frames:
            return False
        self._frames.move_to_end((place, key))
        return True

    def add(self, place: Place, key: bytes, frame: frame_pb2.Frame) -> None:
        """One that would push out all others is not kept."""
        size = frame.ByteSize()
        if size > _MOST_FETCHED_BYTES or self.came_again(place, key):
            return
        self._frames[place, key] = frame, size
        self._bytes += size
        while self._bytes > _MOST_FETCHED_BYTES or len(self._frames) > _MOST_FETCHED:
            _, (_, size) = self._frames.popitem(last=False)
            self._bytes -= size


class FrameStore:
    """Thread-safe; `store()` is the process's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._fetched = _Fetched()
        self._uses: list[bytes] = []
        self._misses: Counter[tuple[bytes, str, str]] = Counter()  # of key, guard, what was there
        self._behind = b""  # the code whose frame this process entered last

    def keeps_frames(self) -> bool:
        """Whether there is a daemon that keeps frames of this format. Raises a TensordError."""
        return bool(rpc.client().hello().frame_format == environments.FORMAT)

    def fetched(
        self, environment: frame_pb2.FrameEnvironment, code: bytes
    ) -> dict[bytes, frame_pb2.Frame]:
        """Frames of the code that have come, by their keys, the latest last; a process keeps
        512, no more than 32 MiB."""
        with self._lock:
            return self._fetched.of((environment.options, code))

    def find(
        self,
        environment: frame_pb2.FrameEnvironment,
        code: bytes,
        known: Iterable[bytes],
        *,
        captures: bool = True,
    ) -> Reply:
        """Asks for frames of the code beside those that are known. A process that captures it when
        there are none waits while another one does. Raises a TensordError."""
        self.send_uses()
        request = requests_pb2.FindFramesRequest(
            environment=environment,
            code=code,
            known=known,
            captures=captures,
            wait_milliseconds=int(WAIT_S * 1000),
            caller=caller(),
        )
        reply: requests_pb2.FindFramesReply = rpc.client().call(
            "FindFrames", request, WAIT_S + _FIND_TIMEOUT_S
        )
        # Copies: a part of a message keeps the memory of all of it, here of the whole reply.
        found = {stored.key: copy.deepcopy(stored.frame) for stored in reply.frames}
        with self._lock:
            # The last of a reply are those that are used least.
            for stored in reversed(reply.following):
                place = (environment.options, stored.frame.code.digest)
                if not self._fetched.came_again(place, stored.key):
                    self._fetched.add(place, stored.key, copy.deepcopy(stored.frame))
            for key, frame in reversed(found.items()):
                self._fetched.add((environment.options, frame.code.digest), key, frame)
        return Reply(found, reply.capture)

    def put(self, frame: frame_pb2.Frame, capture: int) -> bytes:
        """Sends a frame, which ends the capture; its key. Raises a TensordError."""
        request = requests_pb2.PutFrameRequest(
            frame=frame, behind=self._behind, capture=capture, caller=caller()
        )
        key: bytes = rpc.client().call("PutFrame", request, _PUT_TIMEOUT_S).key
        return key

    def end(self, capture: int, reason: str) -> None:
        """Ends a capture from which no frame came."""
        if not capture:
            return
        request = requests_pb2.EndCaptureRequest(capture=capture, reason=reason[:500])
        try:
            rpc.client().call("EndCapture", request, _FIND_TIMEOUT_S)
        except TensordError as error:
            log.debug("a capture was not ended: %s", error)

    def entered(self, code: bytes) -> None:
        """The process runs a frame of that code: those that it enters next come behind it."""
        with self._lock:
            self._behind = code

    def used(self, key: bytes) -> None:
        """The frame served; the daemon hears of it with the next question, or at the end."""
        with self._lock:
            self._uses.append(key)
        self._send_if_many()

    def missed(self, key: bytes, guard: str, found: str) -> None:
        """The frame did not serve, and why; the daemon hears of it as of uses."""
        with self._lock:
            self._misses[key, guard, found] += 1
        self._send_if_many()

    def _send_if_many(self) -> None:
        if len(self._uses) + len(self._misses) >= _MOST_PENDING_USES:
            self.send_uses()

    def send_uses(self) -> None:
        """Tells the daemon which frames served, and why others did not."""
        with self._lock:
            keys, self._uses = self._uses, []
            misses, self._misses = self._misses, Counter()
        if not keys and not misses:
            return
        request = requests_pb2.UseFramesRequest(keys=keys, caller=caller())
        for (key, guard, found), count in misses.items():
            request.misses.add(key=key, guard=guard, found=found, count=count)
        try:
            rpc.client().call("UseFrames", request)
        except TensordError as error:
            log.debug("uses of frames were not told: %s", error)


_store = FrameStore()


def store() -> FrameStore:
    """This process's frames."""
    return _store


def _in_child() -> None:
    # The parent's lock may be held by a thread that the child does not have, amid a change.
    before = None if _store._lock.locked() else _store._fetched
    _store.__init__()  # type: ignore[misc]
    if before is not None:
        _store._fetched = before


os.register_at_fork(after_in_child=_in_child)
atexit.register(_store.send_uses)
