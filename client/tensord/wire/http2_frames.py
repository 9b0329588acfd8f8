# SPDX-License-Identifier: Apache-2.0
"""Frames of HTTP/2 (RFC 9113, section 4.1) in a stream of bytes, for what `h2` leaves to its user.

A server that is going to end says so (GOAWAY, section 6.8) and still answers the calls that it
names. `h2` takes the connection for closed from then on, so that these frames never get to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_HEADER_BYTES = 9
_GOAWAY = 7
_STREAM_BITS = (1 << 31) - 1


@dataclass(frozen=True)
class Goaway:
    """The last stream that is answered, and an error code, 0 where the server just ends."""

    last_stream: int
    error: int


class Frames:
    """Cuts what is received into frames."""

    def __init__(self, most_bytes: int) -> None:
        """most_bytes: of a frame's payload; a larger one is given on as it comes, to be refused."""
        self._most_bytes = most_bytes
        self._received = bytearray()

    def take(self, data: bytes) -> Iterator[bytes | Goaway]:
        """Frames that are whole by now."""
        self._received += data
        while len(self._received) >= _HEADER_BYTES:
            size = int.from_bytes(self._received[:3], "big")
            end = _HEADER_BYTES + size
            if len(self._received) < end and size <= self._most_bytes:
                return
            frame = bytes(self._received[:end])
            del self._received[:end]
            payload = frame[_HEADER_BYTES:]
            if frame[3] == _GOAWAY and len(payload) >= 8:
                last = int.from_bytes(payload[:4], "big") & _STREAM_BITS
                yield Goaway(last, int.from_bytes(payload[4:8], "big"))
            else:
                yield frame
