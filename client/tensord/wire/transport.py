# SPDX-License-Identifier: Apache-2.0
"""One gRPC call over a socket, with neither a thread nor a lock of its own.

A job forks its data loaders at any moment, and a gRPC library in the job would not survive that: it
keeps threads and locks, which a fork copies in the middle of things. So a call here is a blocking
socket that speaks HTTP/2 through `h2`, as https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
lays down, opened for the call and closed at its end. A child of a fork inherits no more than a file
descriptor of each call under way, which `close_inherited` gives back.
"""

from __future__ import annotations

import math
import socket
import time
import urllib.parse
import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from .endpoint import Endpoint, UnixEndpoint
from .http2_frames import Frames, Goaway

MAX_MESSAGE_BYTES = 256 << 20
# What each step of connecting, TLS's handshake too, may take without a heartbeat that says less: a
# compile's deadline is no time to wait for somebody who says nothing.
CONNECT_TIMEOUT_S = 2.0
# What the daemon may send ahead of our acknowledgement.
_WINDOW_BYTES = 8 << 20
_READ_BYTES = 1 << 18
_PING = b"tensord?"
_LEAST_WAIT_S = 0.001
# Of what lies in the socket when a ping's time is up: as little of a wait as there is, and so often
# that all of a window is taken in, by records of TLS.
_NO_WAIT_S = 1e-6
_MOST_LATE_READS = 600
_PREFIX_BYTES = 5  # of a message: whether it is compressed, and its length

# https://grpc.io/docs/guides/status-codes
CODES = (
    "OK",
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)


class CallError(Exception):
    """A call that did not end with OK: the gRPC code's name and the server's message."""

    def __init__(self, code: str, details: str) -> None:
        super().__init__(f"{code}: {details}")
        self.code = code
        self.details = details


_open_sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
# What a call has before it has one of its own.
_CLOSED = socket.socket(socket.AF_UNIX)
_CLOSED.close()


# In a forked child: what OpenSSL had of its parent's connections.
_inherited: list[object] = []


def close_inherited() -> None:
    """In a forked child: closes its copies of the parent's sockets. The parent's calls go on."""
    for inherited in list(_open_sockets):
        # OpenSSL frees a connection under locks that a thread of the parent may have held, which
        # the child does not have: of TLS only the descriptor is given back.
        _inherited.append(getattr(inherited, "_sslobj", None))
        inherited.close()
    _open_sockets.clear()


class GoingError(CallError):
    """The server ends, and takes no more calls: another may follow it."""

    def __init__(self) -> None:
        super().__init__("UNAVAILABLE", "the daemon is shutting down")


class SilentError(CallError):
    """The server does not even answer a ping: it is stopped, swapped out, or no server at all. Or
    it does, and nothing moves behind it.

    what: that has not been seen for so long."""

    def __init__(self, seconds: float, what: str = "sign of life") -> None:
        super().__init__("UNAVAILABLE", f"no {what} for {seconds:g} s")


@dataclass(frozen=True)
class Heartbeat:
    """Pings of HTTP/2, which a server answers whatever its calls wait for."""

    silence_s: float  # without an answer to a ping, while somebody waits: SilentError
    every_s: float | None = None  # from an answer to the next ping; None: one ping, at the start


class Ticker(Protocol):
    """Somebody who wants to be called now and then while a call waits."""

    due: float  # when, by time.monotonic()

    def tick(self) -> None:
        """Moves `due` on. Raises a CallError to end the call, and nothing else."""


class Call:
    """One call with one message to send. It is sent when made; `messages` and `message` wait.

    server: where it goes, or the path of a Unix socket. path: "/package.Service/Method".
    timeout_s: from now to the last byte of the answer. ticker: called while the server does not
    take the message.
    Raises CallError, here and while waiting. For one thread at a time.
    """

    def __init__(
        self,
        server: Endpoint | str,
        path: str,
        message: bytes,
        timeout_s: float,
        heartbeat: Heartbeat | None = None,
        ticker: Ticker | None = None,
    ) -> None:
        self._server = UnixEndpoint(server) if isinstance(server, str) else server
        self._deadline = time.monotonic() + timeout_s
        self._heartbeat = heartbeat
        # When the ping that is not answered was sent, or is due where none is; None: never.
        self._pinged: float | None = None
        self._ping_due = self._deadline if heartbeat is None else time.monotonic()
        self._late_reads = 0  # since the time of a ping was up
        self._greeted = False  # something has come
        self._received = bytearray()
        self._status: CallError | None = None
        self._ended = False
        self._ticker = ticker
        self._http = h2.connection.H2Connection(
            h2.config.H2Configuration(
                client_side=True,
                header_encoding="utf-8",
                validate_inbound_headers=False,
                validate_outbound_headers=False,
                normalize_outbound_headers=False,
            )
        )
        self._http.local_settings = h2.settings.Settings(
            client=True,
            initial_values={
                h2.settings.SettingCodes.ENABLE_PUSH: 0,
                h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _WINDOW_BYTES,
            },
        )
        self._frames = Frames(self._http.max_inbound_frame_size)
        self._socket = _CLOSED
        try:
            self._connect()
            self._send(path, message, timeout_s)
        except BaseException:
            self.close()
            raise
        self._ticker = None

    def message(self, ticker: Ticker | None = None) -> bytes:
        """The answer of a call with exactly one message. ticker: called while it waits."""
        self._ticker = ticker
        messages = list(self.messages())
        if len(messages) != 1:
            raise CallError("INTERNAL", f"{len(messages)} messages where one was due")
        return messages[0]

    def messages(self) -> Iterator[bytes]:
        """The answer's messages, as they come."""
        try:
            while True:
                while (message := self._next_message()) is not None:
                    yield message
                if self._ended:
                    break
                self._receive()
            if self._status is None:
                raise CallError("UNAVAILABLE", "the answer ended without a status")
            if self._status.code != "OK":
                raise self._status
            if self._received:
                raise CallError("INTERNAL", "the answer ended within a message")
        finally:
            self.close()

    def answered(self) -> bool:
        """Whether `message` has no need to wait, for an answer or an error. Does not wait. Raises
        CallError, UNAVAILABLE, where no answer comes because the server has gone."""
        if self._socket.fileno() >= 0:
            self._take_in_what_came()
        status = self._status
        if self._ended and status is not None and status.code == "UNAVAILABLE":
            raise status
        return self._ended or self._socket.fileno() < 0 or time.monotonic() > self._deadline

    def arrived(self) -> list[bytes]:
        """The messages that have come since; does not wait. Raises CallError when none follows."""
        self._take_in_what_came()
        messages = []
        while (message := self._next_message()) is not None:
            messages.append(message)
        if self._ended and not messages:
            raise self._status or CallError("UNAVAILABLE", "the answer ended")
        return messages

    def close(self) -> None:
        """Ends the call, whatever its state; the daemon sees it as cancelled."""
        _open_sockets.discard(self._socket)
        self._socket.close()

    # -- sending ------------------------------------------------------------------------------

    def _adopt(self, made: socket.socket) -> socket.socket:
        """Has it for the call's socket, in place of one that did not connect."""
        self.close()
        self._socket = made
        _open_sockets.add(made)
        return made

    def _connect(self) -> None:
        silence_s = self._heartbeat.silence_s if self._heartbeat else CONNECT_TIMEOUT_S
        start = time.monotonic()
        while True:
            try:
                return self._server.open(self._adopt, lambda: self._arm_for(silence_s))
            except BlockingIOError:  # the queue is full: the server is busy, or stopped
                if time.monotonic() > start + silence_s:
                    raise self._silent_or_late(silence_s) from None
                time.sleep(_LEAST_WAIT_S)
            except TimeoutError:
                raise self._silent_or_late(silence_s) from None
            except OSError as error:
                raise self._lost(error) from error

    def _lost(self, error: OSError | None) -> CallError:
        """error: what the socket raised; None: the server closed the connection."""
        return CallError(*self._server.failure(error, self._greeted))

    def _send(self, path: str, message: bytes, timeout_s: float) -> None:
        if len(message) > MAX_MESSAGE_BYTES:
            raise CallError("RESOURCE_EXHAUSTED", f"a request of {len(message)} bytes is too large")
        http = self._http
        http.initiate_connection()
        http.increment_flow_control_window(_WINDOW_BYTES)
        self._stream = http.get_next_available_stream_id()
        http.send_headers(
            self._stream,
            [
                (":method", "POST"),
                (":scheme", self._server.scheme),
                (":path", path),
                (":authority", self._server.authority),
                ("te", "trailers"),
                ("grpc-timeout", f"{max(1, min(99999999, int(timeout_s * 1000)))}m"),
                ("content-type", "application/grpc"),
                ("user-agent", "tensord-python"),
                ("tensord-request-bytes", str(len(message))),  # for the daemon's memory
                *self._server.headers,
            ],
        )
        framed = memoryview(b"\0" + len(message).to_bytes(4, "big") + message)
        while framed and not self._ended:
            room = min(http.local_flow_control_window(self._stream), http.max_outbound_frame_size)
            if room == 0:
                self._flush()
                self._receive()
                continue
            http.send_data(self._stream, framed[:room].tobytes(), end_stream=room >= len(framed))
            framed = framed[room:]
        self._flush()

    def _flush(self) -> None:
        self._arm_sending()
        try:
            self._socket.sendall(self._http.data_to_send())
        except TimeoutError:
            raise self._silent_or_late() from None
        except OSError as error:
            # A server that refuses a call may answer and close before all was sent.
            if not self._drain():
                raise self._lost(error) from error

    def _drain(self) -> bool:
        """Reads what is there already; true when it is the answer."""
        try:
            while not self._ended:
                self._receive()
        except CallError:
            return False
        return True

    # -- receiving ----------------------------------------------------------------------------

    def _take_in_what_came(self) -> None:
        # Asking whether the socket is readable would not do: TLS keeps records that it has read,
        # and has some that are of no message.
        while not self._ended:
            self._socket.settimeout(0)
            try:
                data = self._socket.recv(_READ_BYTES)
            except self._server.nothing_yet:
                return
            except OSError as error:
                raise self._lost(error) from error
            self._take_bytes(data)

    def _receive(self) -> None:
        """Waits for bytes, or until a ping or the ticker is due, and takes them in."""
        self._ping()
        self._arm()
        try:
            data = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            if self._ticker is not None and time.monotonic() >= self._ticker.due:
                return self._ticker.tick()
            if self._pinged is None and time.monotonic() < self._deadline:
                return  # the next ping is due
            raise self._silent_or_late() from None
        except OSError as error:
            raise self._lost(error) from error
        self._take_bytes(data)

    def _take_bytes(self, data: bytes) -> None:
        if not data:
            raise self._lost(None)
        self._greeted = True
        try:
            for frame in self._frames.take(data):
                self._take_frame(frame)
        except h2.exceptions.ProtocolError as error:
            raise CallError("UNAVAILABLE", f"no gRPC server there: {error}") from error
        if not self._ended and (answer := self._http.data_to_send()):
            self._arm_sending()
            try:
                self._socket.sendall(answer)  # acknowledgements
            except TimeoutError:
                raise self._silent_or_late() from None
            except OSError as error:
                raise self._lost(error) from error

    def _take_frame(self, frame: bytes | Goaway) -> None:
        if not isinstance(frame, Goaway):
            for event in self._http.receive_data(frame):
                self._take(event)
        elif frame.last_stream < self._stream:
            self._ended = True
            self._status = GoingError()

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.DataReceived():
                self._late_reads = 0
                self._received += event.data
                self._http.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self._take_headers({str(name): str(value) for name, value in event.headers})
            case h2.events.PingAckReceived():
                self._pinged = None
                every_s = self._heartbeat.every_s if self._heartbeat else None
                self._ping_due = time.monotonic() + every_s if every_s else self._deadline
            case h2.events.StreamEnded():
                self._ended = True
            case h2.events.StreamReset():
                self._ended = True
                if self._status is None:
                    self._status = CallError("UNAVAILABLE", f"reset: {event.error_code!r}")

    def _take_headers(self, headers: dict[str, str]) -> None:
        if (http_status := headers.get(":status", "200")) != "200":
            self._status = CallError("UNAVAILABLE", f"HTTP status {http_status}")
        if (number := headers.get("grpc-status")) is not None:
            known = number.isdigit() and int(number) < len(CODES)
            details = urllib.parse.unquote(headers.get("grpc-message", ""))
            self._status = CallError(CODES[int(number)] if known else "UNKNOWN", details)

    def _next_message(self) -> bytes | None:
        if len(self._received) < _PREFIX_BYTES:
            return None
        if self._received[0]:
            raise CallError("INTERNAL", "the answer is compressed, which was not asked for")
        end = _PREFIX_BYTES + int.from_bytes(self._received[1:_PREFIX_BYTES], "big")
        if end - _PREFIX_BYTES > MAX_MESSAGE_BYTES:
            raise CallError("RESOURCE_EXHAUSTED", "an answer is too large")
        if len(self._received) < end:
            return None
        message = bytes(self._received[_PREFIX_BYTES:end])
        del self._received[:end]
        return message

    # -- time ---------------------------------------------------------------------------------

    def _ping(self) -> None:
        """Sends a ping when one is due."""
        if self._pinged is not None or time.monotonic() < self._ping_due or self._ended:
            return
        self._http.ping(_PING)
        # From when somebody waits: what came before lies in the socket.
        self._pinged = time.monotonic()
        self._arm_sending()
        try:
            self._socket.sendall(self._http.data_to_send())
        except TimeoutError:
            raise self._silent_or_late() from None
        except OSError:
            pass  # receiving tells what the matter is, after what was answered before

    def _arm(self) -> None:
        now = time.monotonic()
        left = self._deadline - now
        if left <= 0:
            raise self._late()
        late = False
        if self._heartbeat is not None:
            if self._pinged is None:
                left = min(left, self._ping_due - now)
            else:
                left = min(left, self._pinged + self._heartbeat.silence_s - now)
                late = left <= 0
        if self._ticker is not None:
            left = min(left, self._ticker.due - now)
        # A process that was stopped itself finds in the socket what came meanwhile; somebody who
        # says anything but answers is silent all the same.
        self._late_reads = self._late_reads + 1 if late else 0
        if self._late_reads > _MOST_LATE_READS:
            raise self._silent_or_late()
        self._socket.settimeout(max(left, _NO_WAIT_S if self._late_reads else _LEAST_WAIT_S))

    def _arm_sending(self) -> None:
        """A server that takes nothing for so long is as silent as one that says nothing."""
        self._arm_for(self._heartbeat.silence_s if self._heartbeat else math.inf)

    def _arm_for(self, silence_s: float) -> None:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise self._late()
        self._socket.settimeout(min(left, silence_s))

    def _silent_or_late(self, silence_s: float | None = None) -> CallError:
        """silence_s: what was waited for, where it is not the heartbeat's."""
        if silence_s is None and self._heartbeat is not None:
            silence_s = self._heartbeat.silence_s
        if silence_s is not None and time.monotonic() < self._deadline:
            return SilentError(silence_s)
        return self._late()

    @staticmethod
    def _late() -> CallError:
        return CallError("DEADLINE_EXCEEDED", "the deadline passed")
