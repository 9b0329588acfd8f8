# SPDX-License-Identifier: Apache-2.0
"""The RPCs to the daemon, from a process that forks.

Each RPC has a connection of its own (`transport`), so there is nothing to share, to keep alive or
to lock across a fork: a child closes what it inherited, and a compile that was under way when the
process forked is sent again by a child that needs it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._version import VERSION
from ..errors import (
    CompilerFailedError,
    DaemonGoingError,
    DaemonOverloadedError,
    DaemonRefusedError,
    DaemonSilentError,
    DaemonTimeoutError,
    DaemonUnavailableError,
    DaemonVersionError,
    GraphRejectedError,
    HostSetupError,
    TensordError,
)
from . import address as addresses
from . import autostart, progress, spans, transport, watch
from .endpoint import Endpoint, UnixEndpoint

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from ..v1 import requests_pb2

PROTOCOL = 1
# After a daemon could not be reached, further graphs of the process do not wait for it again at
# once.
UNAVAILABLE_MEMORY_S = 30.0
# How long who had a daemon that ended waits for the next one.
NEXT_DAEMON_S = 2.0
# In whose words it says so to who waits for it to begin (server/pool/stopping.h).
STOPPING = "the daemon is stopping"
_POLL_S = 0.04
# What a socket that says nothing may cost a graph, and a process until it remembers.
GREETING_SILENCE_S = 0.25
MOST_SILENCE_S = 1.0
# What the greeting of one that answers pings may take: the first daemon of a store asks a worker
# for its operators, and on a starved host that takes seconds.
GREETING_S = 10.0
# The daemon receives longer ones when it has memory for them.
LARGE_REQUEST_BYTES = 128 << 10
# A daemon that runs answers pings, however long a compile takes; `watch` finds out whether it
# hangs.
_AT_WORK = transport.Heartbeat(silence_s=2.0, every_s=1.0)
_SERVICE = "/tensord.v1.Compiler/"

# gRPC code name -> what it means here; every other code is the compiler's failure.
_ERRORS: dict[str, type[TensordError]] = {
    "UNAVAILABLE": DaemonUnavailableError,
    "CANCELLED": DaemonGoingError,  # by a daemon that ends; nobody waits for what we cancel
    "DEADLINE_EXCEEDED": DaemonTimeoutError,
    "RESOURCE_EXHAUSTED": DaemonOverloadedError,
    "INVALID_ARGUMENT": GraphRejectedError,
    "UNIMPLEMENTED": GraphRejectedError,
    "FAILED_PRECONDITION": HostSetupError,
    "UNAUTHENTICATED": DaemonRefusedError,
}
# Asking once more a moment later would not help.
_NO_USE_WAITING = (DaemonSilentError, DaemonRefusedError)


def compile_timeout_s() -> float:
    """The deadline of one compile in seconds (TENSORD_TIMEOUT_S, 600 by default)."""
    text = os.environ.get("TENSORD_TIMEOUT_S", "600")
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if value <= 0:
        raise ValueError(f"TENSORD_TIMEOUT_S={text!r} is not a positive number of seconds")
    return value


class Client:
    """What one process knows of its daemon, and the RPCs. Thread-safe; use `client()` rather than
    making one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._address: addresses.Address | None = None  # of the greeting
        self._hello: requests_pb2.HelloReply | None = None
        self._unavailable: tuple[float, str, DaemonUnavailableError] | None = None
        self._silence_s = 0.0  # that greetings waited for nothing

    # -- RPCs ---------------------------------------------------------------------------------

    def hello(self) -> requests_pb2.HelloReply:
        """The daemon's greeting (HelloReply), kept for the process; starts a daemon if allowed.

        Raises DaemonUnavailableError or DaemonVersionError; a failure is remembered for a while.
        """
        address = addresses.resolve()
        with self._lock:
            greeted_before = self._address == address
            # A daemon may have ended since, idle or killed; then another is greeted, or started.
            if self._hello is not None and self._address == address:
                if addresses.listens(address):
                    return self._hello
                self._hello = None
        self._raise_remembered(address)
        try:
            try:
                reply = self._greet_patiently(address) if greeted_before else self._greet(address)
            except DaemonGoingError:  # which was there a moment ago
                reply = self._greet_patiently(address)
        except DaemonSilentError as error:
            with self._lock:
                self._silence_s += GREETING_SILENCE_S
                patient = self._silence_s < MOST_SILENCE_S
            if not patient:
                self._remember_unavailable(address, error)
            raise
        except DaemonUnavailableError as error:
            self._remember_unavailable(address, error)
            raise
        if reply.protocol != PROTOCOL:
            raise DaemonVersionError(
                f"the daemon {reply.daemon_version} on {address} speaks protocol "
                f"{reply.protocol}; this package speaks {PROTOCOL}"
            )
        with self._lock:
            self._hello = reply
            self._address = address
            self._unavailable = None
            self._silence_s = 0.0
        return reply

    def heartbeat(self) -> transport.Heartbeat | None:
        """How a call finds out that the daemon lives; None: this one does not answer pings."""
        with self._lock:
            return _AT_WORK if self._hello is not None and self._hello.answers_pings else None

    def has_compile_large(self) -> bool:
        """Whether large requests have a method of their own."""
        with self._lock:
            return self._hello is not None and self._hello.has_compile_large

    def takes_spans(self) -> bool:
        """Whether the daemon wants to hear what this process did for programs."""
        with self._lock:
            return self._hello is not None and self._hello.takes_spans

    def takes_profiles(self) -> bool:
        """Whether the daemon, which this process has greeted, wants to hear of profiles."""
        with self._lock:
            return self._hello is not None and self._hello.takes_profiles

    def lowers(self, operator: str) -> bool:
        """Whether the daemon, which this process has greeted, lowers an operator itself."""
        with self._lock:
            return self._hello is not None and operator in self._hello.operators

    def tells_silence(self) -> bool:
        """Whether the daemon says of itself that it hangs (`watch`)."""
        with self._lock:
            return self._hello is not None and self._hello.tells_silence

    def break_off(self, error: DaemonUnavailableError) -> None:
        """The daemon stopped answering in the middle of a call, or lets nobody in any more: nobody
        waits for it for a while."""
        with self._lock:
            self._hello = None
        self._remember_unavailable(addresses.resolve(), error)

    def _remember_unavailable(
        self, address: addresses.Address, error: DaemonUnavailableError
    ) -> None:
        with self._lock:
            until = time.monotonic() + UNAVAILABLE_MEMORY_S
            self._unavailable = (until, str(address), error)

    def _raise_remembered(self, address: addresses.Address) -> None:
        with self._lock:
            if self._unavailable is None:
                return
            until, at, error = self._unavailable
        if at == str(address) and time.monotonic() < until:
            raise error

    def compile(self, request: requests_pb2.CompileRequest) -> CompileCall:
        """Sends a CompileRequest and returns: a large one when the daemon has room for it, others
        at once. Raises, as `hello`, what is remembered: a capture greets once, and asks for its
        backward graph after its forward graph has met the silence."""
        self._raise_remembered(addresses.resolve())
        return CompileCall(request)

    def call(
        self, method: str, request: Message, timeout_s: float = transport.CONNECT_TIMEOUT_S
    ) -> Any:
        """One blocking RPC by its method's name; raises a TensordError. One that may take longer
        than a daemon may be silent is watched as compiles are."""
        message = request.SerializeToString()
        if timeout_s <= transport.CONNECT_TIMEOUT_S:
            return _wait(_start(method, message, timeout_s), method)
        with _breaking_the_circuit(), watch.watched(self.tells_silence()) as ticker:
            call = _start(method, message, timeout_s, self.heartbeat(), ticker)
            return _wait(call, method, ticker)

    def watch_compiles(self, every_s: float) -> transport.Call:
        """A call whose messages (CompilesUpdate) say how far the compiles of this process are."""
        from ..v1 import requests_pb2
        from .caller import caller

        request = requests_pb2.WatchCompilesRequest(
            interval_milliseconds=int(every_s * 1000), caller=caller()
        )
        # It is opened within another call's wait, whose own pings it holds up.
        return _start(
            "WatchCompiles", request.SerializeToString(), compile_timeout_s(), self.heartbeat()
        )

    def get_blob(self, sha256: bytes, timeout_s: float = 60.0) -> bytes:
        """A blob's bytes, for a job that cannot map the daemon's store."""
        from ..v1 import requests_pb2

        request = requests_pb2.GetBlobRequest(sha256=sha256)
        stream = _start("GetBlob", request.SerializeToString(), timeout_s)
        try:
            pieces = [requests_pb2.BlobPiece.FromString(piece).data for piece in stream.messages()]
        except transport.CallError as error:
            raise to_error(error) from error
        return b"".join(pieces)

    def forget(self) -> None:
        """Drops what is known of the daemon."""
        with self._lock:
            self._hello = None
            self._unavailable = None
            self._silence_s = 0.0

    def _greet_patiently(self, address: addresses.Address) -> requests_pb2.HelloReply:
        """Of a daemon after one that ended, which may be in between."""
        deadline = time.monotonic() + NEXT_DAEMON_S
        while True:
            _await_restart(address)
            try:
                return self._greet(address)
            except _NO_USE_WAITING:
                raise
            except DaemonUnavailableError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)

    def _greet(self, address: addresses.Address) -> requests_pb2.HelloReply:
        import torch

        from ..v1 import requests_pb2

        just_started = autostart.ensure_running(address)
        owner = addresses.foreign_owner(address)
        if owner is not None:
            raise DaemonUnavailableError(
                f"{address} belongs to user {owner}; set TENSORD_ADDRESS to use it all the same"
            )
        request = requests_pb2.HelloRequest(
            client_version=VERSION, torch_version=str(torch.__version__)
        )
        timeout_s = autostart.START_TIMEOUT_S if just_started else GREETING_S
        silence_s = timeout_s if just_started else GREETING_SILENCE_S
        greeting = transport.Heartbeat(silence_s, every_s=transport.CONNECT_TIMEOUT_S)
        try:
            reply: requests_pb2.HelloReply = _wait(
                _start("Hello", request.SerializeToString(), timeout_s, greeting), "Hello"
            )
            return reply
        except DaemonTimeoutError as error:
            raise DaemonUnavailableError(
                f"the daemon on {address} did not greet within {timeout_s:.0f} s"
            ) from error


def _start(
    method: str,
    request: bytes,
    timeout_s: float,
    heartbeat: transport.Heartbeat | None = None,
    ticker: transport.Ticker | None = None,
) -> transport.Call:
    server = _endpoint(addresses.resolve())
    try:
        return transport.Call(server, _SERVICE + method, request, timeout_s, heartbeat, ticker)
    except transport.CallError as error:
        raise to_error(error) from error


def _endpoint(address: addresses.Address) -> Endpoint:
    if address.path is not None:
        return UnixEndpoint(address.path)
    from . import tls  # which no job with a socket needs

    try:
        return tls.TlsEndpoint(address)
    except tls.SettingsError as error:
        raise DaemonRefusedError(str(error)) from error


def _wait(call: transport.Call, method: str, ticker: transport.Ticker | None = None) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    from ..v1 import service_pb2

    try:
        answer = call.message(ticker)
    except transport.CallError as error:
        raise to_error(error) from error
    service = service_pb2.DESCRIPTOR.services_by_name["Compiler"]
    return GetMessageClass(service.methods_by_name[method].output_type).FromString(answer)


def _await_restart(address: addresses.Address) -> None:
    """Waits up to NEXT_DAEMON_S until something listens again, where we may not start it."""
    if autostart.allowed(address):
        return
    deadline = time.monotonic() + NEXT_DAEMON_S
    while not addresses.listens(address) and time.monotonic() < deadline:
        time.sleep(_POLL_S)


@contextlib.contextmanager
def _breaking_the_circuit() -> Iterator[None]:
    try:
        yield
    except _NO_USE_WAITING as error:
        client().break_off(error)
        raise


class CompileCall:
    """A compile under way. `wait` may be called once in any process that inherited it. spans: what
    this process does for it."""

    def __init__(self, request: requests_pb2.CompileRequest) -> None:
        self.spans = spans.Asked()
        self._request = request.SerializeToString()
        # Of this call: another's failure may have had the greeting forgotten meanwhile.
        self._heartbeat = client().heartbeat()
        self._tells_silence = client().tells_silence()
        # Of a daemon that ended before all was sent: `wait` asks the next one.
        self._not_sent: DaemonUnavailableError | None = None
        self._lost_at: float | None = None  # when `answered` first saw so
        try:
            self._send()
        except _NO_USE_WAITING:
            raise
        except DaemonUnavailableError as error:
            self._not_sent = error

    def _send(self) -> None:
        self._pid = os.getpid()
        # A large request waits here until the daemon has memory for it.
        with _breaking_the_circuit(), watch.watched(self._tells_silence) as ticker:
            large = len(self._request) > LARGE_REQUEST_BYTES and client().has_compile_large()
            method = "CompileLarge" if large else "Compile"
            self._call = _start(method, self._request, compile_timeout_s(), self._heartbeat, ticker)

    def wait(self) -> requests_pb2.CompileReply:
        """The reply; raises a TensordError.

        A daemon that ends in the middle of a call is replaced by the next one, which is asked once
        more: a restart loses no graph.
        """
        deadline: float | None = None
        while True:
            try:
                if deadline is None and self._not_sent is not None:
                    raise self._not_sent
                # A call that was inherited is the parent's.
                inherited = self._pid != os.getpid()
                return self._reply() if deadline is None and not inherited else self.again()
            except _NO_USE_WAITING:
                raise
            except DaemonUnavailableError:
                # One that is stopping says so when it ends, and listens a little longer.
                deadline = deadline or time.monotonic() + NEXT_DAEMON_S
                if time.monotonic() > deadline:
                    raise
                time.sleep(_POLL_S)
                self._greet_the_next()

    def _greet_the_next(self) -> None:
        try:
            client().hello()
        except DaemonUnavailableError:
            client().forget()  # the next graph may find one
            raise
        self._tells_silence = client().tells_silence()

    def answered(self) -> bool:
        """Whether `wait` would return, or raise, at once. Does not wait: of a daemon that ends, the
        next one is asked meanwhile."""
        now = time.monotonic()
        try:
            # A call that was inherited is the parent's.
            if self._not_sent is not None or self._pid != os.getpid():
                self._send()
                self._not_sent = None
            answered = self._call.answered()
            self._lost_at = None
            return answered
        except transport.CallError as error:
            lost: TensordError = to_error(error)
        except TensordError as error:
            lost = error
        if not isinstance(lost, DaemonUnavailableError) or isinstance(lost, _NO_USE_WAITING):
            return True
        self._not_sent = lost
        self._lost_at = self._lost_at or now
        return now > self._lost_at + NEXT_DAEMON_S

    def _reply(self) -> requests_pb2.CompileReply:
        with _breaking_the_circuit():
            with progress.line() as line, watch.watched(self._tells_silence, line) as ticker:
                reply: requests_pb2.CompileReply = _wait(self._call, "Compile", ticker)
        self.spans.answered(reply)
        return reply

    def again(self) -> requests_pb2.CompileReply:
        """Sends the same request once more, so that the daemon checks what it stored, and waits."""
        self._send()
        return self._reply()


def to_error(error: transport.CallError) -> TensordError:
    """The TensordError for a call's failure, with the daemon's own message."""
    if isinstance(error, transport.SilentError):
        return DaemonSilentError(f"the daemon on {addresses.resolve()} shows {error.details}")
    if isinstance(error, transport.GoingError) or error.details == STOPPING:
        return DaemonGoingError(str(error))
    return _ERRORS.get(error.code, CompilerFailedError)(str(error))


_client = Client()


def client() -> Client:
    """This process's client."""
    return _client


def _reset_in_child() -> None:
    # The parent's lock may be held by a thread that the child does not have.
    global _client
    _client = Client()
    transport.close_inherited()


os.register_at_fork(after_in_child=_reset_in_child)
