"""The RPCs to the daemon, from a process that forks.

A job forks its data loaders, and neither a thread, a socket nor a lock of ours may break a child.
So a channel is opened for a compile and closed shortly after the last one; a fork closes an idle
one first; and a child forgets its parent's channel without touching it. A compile that was under
way when the process forked is sent again by a child that needs it.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from . import address as addresses
from . import autostart
from ._version import VERSION
from .errors import (
    CompilerFailedError,
    DaemonOverloadedError,
    DaemonTimeoutError,
    DaemonUnavailableError,
    DaemonVersionError,
    GraphRejectedError,
    HostSetupError,
    TensordError,
)

PROTOCOL = 1
CONNECT_TIMEOUT_S = 2.0
IDLE_GRACE_S = 1.0
MAX_MESSAGE_BYTES = 256 << 20
# After a daemon could not be reached, further graphs of the process do not wait for it again at
# once.
UNAVAILABLE_MEMORY_S = 30.0
_SERVICE = "/tensord.v1.Compiler/"

# gRPC code name -> what it means here; every other code is the compiler's failure.
_ERRORS: dict[str, type[TensordError]] = {
    "UNAVAILABLE": DaemonUnavailableError,
    "DEADLINE_EXCEEDED": DaemonTimeoutError,
    "RESOURCE_EXHAUSTED": DaemonOverloadedError,
    "INVALID_ARGUMENT": GraphRejectedError,
    "UNIMPLEMENTED": GraphRejectedError,
    "FAILED_PRECONDITION": HostSetupError,
}


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
    """One process's connection to the daemon. Thread-safe; use `client()` rather than making
    one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._channel: Any = None
        self._address: addresses.Address | None = None
        self._users = 0  # RPCs under way
        self._closer: threading.Timer | None = None
        self._hello: Any = None
        self._unavailable: tuple[float, str, DaemonUnavailableError] | None = None

    # -- RPCs ---------------------------------------------------------------------------------

    def hello(self) -> Any:
        """The daemon's greeting (HelloReply), kept for the process; starts a daemon if allowed.

        Raises DaemonUnavailableError or DaemonVersionError; a failure is remembered for a while.
        """
        address = addresses.resolve()
        with self._lock:
            # A daemon may have ended since, idle or killed; then another is greeted, or started.
            if self._hello is not None and self._address == address:
                if addresses.listens(address):
                    return self._hello
                self._hello = None
            if self._unavailable is not None:
                until, at, error = self._unavailable
                if at == str(address) and time.monotonic() < until:
                    raise error
        try:
            reply = self._greet(address)
        except DaemonUnavailableError as error:
            with self._lock:
                until = time.monotonic() + UNAVAILABLE_MEMORY_S
                self._unavailable = (until, str(address), error)
            raise
        if reply.protocol != PROTOCOL:
            raise DaemonVersionError(
                f"the daemon {reply.daemon_version} on {address} speaks protocol "
                f"{reply.protocol}; this package speaks {PROTOCOL}"
            )
        with self._lock:
            self._hello = reply
            self._unavailable = None
        return reply

    def compile(self, request: Any) -> CompileCall:
        """Sends a CompileRequest and returns at once."""
        return CompileCall(self, request)

    def call(self, method: str, request: Any, timeout_s: float = CONNECT_TIMEOUT_S) -> Any:
        """One blocking RPC by its method's name; raises a TensordError."""
        return self._start(method, request, timeout_s).wait()

    def get_blob(self, sha256: bytes, timeout_s: float = 60.0) -> bytes:
        """A blob's bytes, for a job that cannot map the daemon's store."""
        import grpc

        from .v1 import service_pb2

        channel = self._acquire()
        try:
            stream = channel.unary_stream(
                f"{_SERVICE}GetBlob",
                request_serializer=service_pb2.GetBlobRequest.SerializeToString,
                response_deserializer=service_pb2.BlobPiece.FromString,
            )(service_pb2.GetBlobRequest(sha256=sha256), timeout=timeout_s)
            return b"".join(piece.data for piece in stream)
        except grpc.RpcError as error:
            raise to_error(error) from error
        finally:
            self._release()

    def forget(self) -> None:
        """Drops what is known of the daemon and closes an idle channel."""
        with self._lock:
            self._hello = None
            self._unavailable = None
            self._close_idle_locked()

    # -- the channel --------------------------------------------------------------------------

    def _greet(self, address: addresses.Address) -> Any:
        import torch

        from .v1 import service_pb2

        just_started = autostart.ensure_running(address)
        owner = addresses.foreign_owner(address)
        if owner is not None:
            raise DaemonUnavailableError(
                f"{address} belongs to user {owner}; set TENSORD_ADDRESS to use it all the same"
            )
        request = service_pb2.HelloRequest(
            client_version=VERSION, torch_version=str(torch.__version__)
        )
        timeout_s = autostart.START_TIMEOUT_S if just_started else CONNECT_TIMEOUT_S
        try:
            return self.call("Hello", request, timeout_s)
        except DaemonTimeoutError as error:
            raise DaemonUnavailableError(
                f"the daemon on {address} did not greet within {timeout_s:.0f} s"
            ) from error

    def _start(self, method: str, request: Any, timeout_s: float) -> _Call:
        from .v1 import service_pb2

        channel = self._acquire()
        try:
            stub = channel.unary_unary(
                _SERVICE + method,
                request_serializer=type(request).SerializeToString,
                response_deserializer=getattr(service_pb2, _REPLIES[method]).FromString,
            )
            future = stub.future(request, timeout=timeout_s)
        except BaseException:
            self._release()
            raise
        return _Call(self, future)

    def _acquire(self) -> Any:
        address = addresses.resolve()
        with self._lock:
            if self._channel is not None and self._address != address:
                self._close_idle_locked()
                if self._channel is not None:
                    self._channel = None  # calls under way keep the old one alive
                self._hello = None
            if self._channel is None:
                self._channel = _open_channel(address)
                self._address = address
            self._users += 1
            return self._channel

    def _release(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users > 0 or self._channel is None:
                return
            if self._closer is not None:
                self._closer.cancel()
            self._closer = threading.Timer(IDLE_GRACE_S, self._close_if_idle)
            self._closer.daemon = True
            self._closer.start()

    def _close_if_idle(self) -> None:
        with self._lock:
            self._close_idle_locked()

    def _close_idle_locked(self) -> None:
        if self._users == 0 and self._channel is not None:
            self._channel.close()
            self._channel = None

    # -- forks --------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Holds the lock over the fork, so that no child gets half-changed state."""
        self._lock.acquire()
        self._close_idle_locked()

    def after_fork_in_parent(self) -> None:
        """Ends before_fork."""
        self._lock.release()


# Method -> the name of its reply's message.
_REPLIES = {
    "Hello": "HelloReply",
    "Compile": "CompileReply",
    "GetStats": "Stats",
    "ListPrograms": "ListProgramsReply",
    "GetProgram": "ProgramDetail",
}


class _Call:
    """One unary RPC under way; releases the channel when it ends, whether anyone waits or not."""

    def __init__(self, owner: Client, future: Any) -> None:
        self._future = future
        future.add_done_callback(lambda _: owner._release())

    def wait(self) -> Any:
        import grpc

        try:
            return self._future.result()
        except grpc.RpcError as error:
            raise to_error(error) from error
        except grpc.FutureCancelledError as error:
            raise DaemonUnavailableError("the call was cancelled") from error


class CompileCall:
    """A compile under way. `wait` may be called in any process that inherited it."""

    def __init__(self, owner: Client, request: Any) -> None:
        self._request = request
        self._start(owner)

    def _start(self, owner: Client) -> None:
        self._pid = os.getpid()
        self._call = owner._start("Compile", self._request, compile_timeout_s())

    def wait(self) -> Any:
        """The CompileReply; raises a TensordError."""
        if self._pid != os.getpid():
            _leaked.append(self._call)  # the parent's: never touched here, not even to free it
            self._start(client())
        return self._call.wait()

    def again(self) -> Any:
        """Sends the same request once more, so that the daemon checks what it stored, and waits."""
        self._start(client())
        return self._call.wait()


def to_error(error: Any) -> TensordError:
    """The TensordError for a grpc.RpcError, with the daemon's own message."""
    code = error.code().name if hasattr(error, "code") and error.code() else "UNKNOWN"
    details = error.details() if hasattr(error, "details") else str(error)
    return _ERRORS.get(code, CompilerFailedError)(f"{code}: {details}")


def _open_channel(address: addresses.Address) -> Any:
    # grpc's own handlers make a child of a process with an open channel usable. They are on by
    # default; this only fills in what nobody set.
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes to the job's stderr on every fork
    import grpc

    return grpc.insecure_channel(
        address.grpc_target,
        options=[
            ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
            ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),  # a job's http_proxy is not for a local daemon
            ("grpc.use_local_subchannel_pool", 1),  # a new channel never inherits a back-off
            ("grpc.default_authority", "localhost"),
        ],
    )


_client = Client()
_leaked: list[Any] = []


def client() -> Client:
    """This process's client."""
    return _client


def _reset_in_child() -> None:
    global _client
    _leaked.append(_client)
    _client = Client()


# The handlers look the client up at every fork: a child has one of its own.
os.register_at_fork(
    before=lambda: _client.before_fork(),
    after_in_parent=lambda: _client.after_fork_in_parent(),
    after_in_child=_reset_in_child,
)
