# SPDX-License-Identifier: Apache-2.0
"""What can go wrong between a captured graph and its compiled program.

Each class is one *reason*: the unit in which fallbacks are counted and warned about.
"""

from __future__ import annotations


class TensordError(RuntimeError):
    """Base of all errors of this package.

    reason: short and stable, for statistics; advice: what a user can do about it.
    """

    reason = "error"
    advice = "please report it with the log of the daemon"


class DaemonUnavailableError(TensordError):
    """No daemon answers on the socket and none could be started."""

    reason = "daemon unavailable"
    advice = "start one with `tensord`, or look into the log that it names"


class DaemonSilentError(DaemonUnavailableError):
    """Somebody listens on the socket and gives no sign of life: a daemon that is stopped or swapped
    out, or no daemon."""

    reason = "daemon silent"
    advice = "see what state the daemon's process is in; `tensord` starts another"


class DaemonRefusedError(DaemonUnavailableError):
    """UNAUTHENTICATED: the daemon does not let this process in, or is not the one it should be."""

    reason = "daemon refused"
    advice = "see TENSORD_TLS_CA, TENSORD_TLS_CERT, TENSORD_TLS_KEY and TENSORD_TOKEN_FILE"


class DaemonGoingError(DaemonUnavailableError):
    """The daemon takes no more calls, for it ends; another may follow it."""


class DaemonVersionError(TensordError):
    """The daemon speaks another version of the protocol."""

    reason = "daemon version"
    advice = "stop the running daemon and install the same version on both sides"


class DaemonTimeoutError(TensordError):
    """The daemon did not answer within the deadline (TENSORD_TIMEOUT_S for a compile)."""

    reason = "timeout"
    advice = "raise TENSORD_TIMEOUT_S, or see `tensorctl stats` for what the daemon does"


class DaemonOverloadedError(TensordError):
    """RESOURCE_EXHAUSTED: too many requests wait, this one waited too long or is too large."""

    reason = "daemon overloaded"
    advice = "try again later, or give the daemon more workers"


class GraphRejectedError(TensordError):
    """INVALID_ARGUMENT or UNIMPLEMENTED: the daemon does not take this graph."""

    reason = "graph rejected"
    advice = "the message names the node; the rest of the model is still compiled"


class HostSetupError(TensordError):
    """FAILED_PRECONDITION: the daemon's host lacks something, such as a C++ compiler."""

    reason = "daemon not ready"
    advice = "the message says what the daemon's host lacks"


class CompilerFailedError(TensordError):
    """INTERNAL and every other code: the compiler failed."""

    reason = "compiler failed"
    advice = "the daemon kept the graph as a repro; please report it"


class ExportError(TensordError):
    """The captured graph holds something that the wire format cannot say."""

    reason = "export"
    advice = "the message names the operator; the rest of the model is still compiled"


class RuntimeLoadError(TensordError):
    """The runtime could not load the compiled program."""

    reason = "runtime load"
    advice = "check that libtensord_runtime.so is installed and TENSORD_STORE is readable"


class InputMismatchError(TensordError):
    """A call brought inputs that the compiled program does not take (TENSORD_INVALID)."""

    reason = "inputs mismatched"
    advice = "the call ran in eager; please report it"


class FrameMismatchError(TensordError):
    """TENSORD_FRAMES=verify: a function is captured otherwise than it was recorded."""

    reason = "frame mismatch"
    advice = "please report it; TENSORD_FRAMES=0 captures every function anew"


class BackendFailedError(TensordError):
    """An error of this package that nothing else describes."""

    reason = "backend failed"
    advice = "please report it with this message"
