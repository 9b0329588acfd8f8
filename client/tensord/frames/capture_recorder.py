# SPDX-License-Identifier: Apache-2.0
"""Makes a frame of what Dynamo captured, checks it, and gives it to the daemon.

What cannot be recorded is captured by every process; the reason is counted here and by the daemon.
"""

from __future__ import annotations

import logging
import threading
import types
from collections.abc import Callable
from typing import Any

from .. import torch_compat
from ..counters import STATS
from ..errors import TensordError
from ..v1 import frame_pb2
from . import bytecode, code_objects, digests, kinds, record_guards, recorded_graphs
from .entered import Call, Entered
from .errors import UnfitError, UnrecordableError
from .serving import check
from .store import store

log = logging.getLogger("tensord")


class _Guards(threading.local):
    """What the capture under way has told of its guards, or why they cannot be recorded."""

    code: types.CodeType | None = None
    recorded: record_guards.RecordedGuards | None = None
    error: Exception | None = None


_of_capture = _Guards()


def _told(code: types.CodeType, output_graph: Any) -> None:
    if code is not _of_capture.code:
        return
    try:
        _of_capture.recorded = record_guards.record(code, output_graph)
        _of_capture.error = None
    except Exception as error:
        _of_capture.error = error


class CaptureRecorder:
    """One capture: run, and then had as a frame."""

    def __init__(self, entered: Entered, call: Call, capture: int) -> None:
        """capture: the daemon's lease of it; 0: none."""
        self._entered = entered
        self._environment = call.environment
        self._is_entry = call.entry(entered.code)
        self._capture = capture
        self._outcome: Any = None
        self._looked = False

    def run(self, capture: Callable[[], Any]) -> Any:
        """What `capture`, Dynamo's hook, returns; what that raises comes out as it was raised."""
        torch_compat.told_of_guards(_told)
        before = (_of_capture.code, _of_capture.recorded, _of_capture.error)
        _of_capture.code, _of_capture.recorded = self._entered.code, None
        _of_capture.error = None
        seen = torch_compat.looked_into()
        try:
            with recorded_graphs.wanted(), torch_compat.guards_on_defaults():
                self._outcome = capture()
            self._failure = _of_capture.error
        except BaseException as error:
            self._failure = UnrecordableError(f"the capture raised {type(error).__name__}")
            raise
        finally:
            self._looked = torch_compat.looked_into() > seen
            self._recorded = _of_capture.recorded
            _of_capture.code, _of_capture.recorded, _of_capture.error = before
        return self._outcome

    def frame(self) -> frame_pb2.Frame:
        """The capture as a frame, whose guards hold of this very call. Raises UnrecordableError and
        what went wrong while its guards were recorded."""
        if self._failure is not None:
            raise self._failure
        return self._frame(self._recorded)

    def put(self) -> None:
        """Gives the frame to the daemon, or says why there is none. Raises nothing."""
        reason = ""
        try:
            store().put(self.frame(), self._capture)
            STATS.add("frames_recorded")
        except UnrecordableError as refusal:
            reason = str(refusal)
        except TensordError as refusal:
            reason = f"{refusal.reason}: {refusal}"
        except Exception as unexpected:
            log.debug("tensord: a frame was not recorded", exc_info=True)
            reason = f"{type(unexpected).__name__}: {unexpected}"
        if reason:
            STATS.add_unrecorded(reason)
            log.info("tensord: %s is not recorded: %s", self._entered.code.co_name, reason)
            store().end(self._capture, reason)

    def _frame(self, recorded: record_guards.RecordedGuards | None) -> frame_pb2.Frame:
        """Raises UnrecordableError."""
        entered = self._entered
        frame = frame_pb2.Frame(
            code=digests.identity(entered.code, str(entered.globals.get("__name__", ""))),
            environment=self._environment,
        )
        frame.code.digest = entered.digest
        frame.result.SetInParent()
        guarded = getattr(self._outcome, "guarded_code", None)
        if guarded is None:
            if not torch_compat.is_always_left(entered.code, self._outcome):
                # What the user had compiled is asked about by each process.
                if self._is_entry or not torch_compat.found_nothing(self._outcome, self._looked):
                    raise UnrecordableError("torch.compile gave the function up")
                kinds.add_guards(frame, entered)
                self._check(frame)
            return frame
        if recorded is None:
            raise UnrecordableError("Dynamo told nothing of its guards")
        result, graphs = bytecode.write(guarded.code, entered.globals)
        if recorded.addresses & set(code_objects.integers(guarded.code)):
            raise UnrecordableError("the bytecode has an object's address")
        frame.result.CopyFrom(result)
        frame.graphs.extend(graphs)
        frame.sources.extend(recorded.sources)
        frame.guards.extend(recorded.guards)
        frame.inlined.extend(recorded.inlined)
        self._check(frame)
        return frame

    def _check(self, frame: frame_pb2.Frame) -> None:
        """The guards hold of this very call when they are read back."""
        again = frame_pb2.Frame.FromString(frame.SerializeToString())
        try:
            check(again, self._entered)
        except UnfitError as error:
            raise UnrecordableError(
                f"its guards do not hold when they are read back: {error}"
            ) from error
