# SPDX-License-Identifier: Apache-2.0
"""Which recorded frame serves a function that is entered: one fetched before, or of the daemon."""

from __future__ import annotations

import logging
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .. import torch_compat
from ..counters import STATS
from ..torch_compat import eval_frame
from ..v1 import frame_pb2
from . import code_objects, digests
from .entered import Call, Entered
from .errors import UnfitError
from .running import running
from .serving import check, is_starting, serve
from .store import store
from .tensorless import has_no_tensors

log = logging.getLogger("tensord")

# What goes on behind a break and was left to Python, by its code's digest and the grad mode. Dynamo
# leaves such a code for the rest of the process, whatever it is given; there it is one code for all
# captures of a function, and here one for each frame. A code that comes again itself was reset.
_left: dict[tuple[bytes, bool], types.CodeType] = {}


@dataclass
class Found:
    """outcome: what the hook's callback returns; None: the function is to be captured, under the
    daemon's lease. frame: what serves."""

    outcome: Any = None
    frame: frame_pb2.Frame | None = None
    lease: int = 0


def look_up(entered: Entered, call: Call) -> Found:
    """Waits while another process captures the function. Raises a TensordError when the daemon does
    not answer."""
    if _left.get(_place(entered), entered.code) is not entered.code:
        return Found(eval_frame.leave_to_python())
    in_place = running().of(entered.code, call.owner)
    known = store().fetched(call.environment, entered.digest)
    latest_first = dict(reversed(known.items()))
    if (found := _first_that_serves(entered, call, latest_first, in_place)) is not None:
        return found
    if not call.entry(entered.code) and has_no_tensors(entered):
        return Found(eval_frame.leave_to_python())
    while True:
        reply = store().find(call.environment, entered.digest, {*known, *in_place})
        if (found := _first_that_serves(entered, call, reply.frames, in_place)) is not None:
            store().end(reply.capture, "another frame serves")
            return found
        if reply.capture or not reply.frames:
            return Found(lease=reply.capture)
        known = {**known, **reply.frames}  # another process has captured it, for another call


def _first_that_serves(
    entered: Entered,
    call: Call,
    frames: Mapping[bytes, frame_pb2.Frame],
    in_place: dict[bytes, types.CodeType],
) -> Found | None:
    # What is left to Python is known by less than what was captured; of what has asked for its
    # programs all guards have held.
    in_order = sorted(
        frames.items(), key=lambda item: (not is_starting(item[0]), not _is_captured(item[1]))
    )
    for key, frame in in_order:
        if key in in_place:
            continue
        try:
            if not _is_captured(frame):
                check(frame, entered)
                _note_use(key, entered)
                _left[_place(entered)] = entered.code
                return Found(eval_frame.leave_to_python())
            served = serve(key, frame, entered, waits=call.waits)
        except UnfitError as error:
            STATS.add_unfit(str(error))
            store().missed(key, str(error), error.found)
            log.info(
                "tensord: a frame of %s does not serve: %s", entered.code.co_name, error.in_words()
            )
            continue
        if served is None:
            STATS.add("calls_before_programs")
            return Found(eval_frame.run_in_python_once())
        in_place[key] = served.code
        # Behind that line: a thread that captures meanwhile has read it, or Dynamo is told here.
        if torch_compat.has_convert_frame():
            torch_compat.note_codes(entered.code, [served.code])
        STATS.add("frames_served")
        _note_use(key, entered)
        name = f"tensord/{key.hex()[:12]}"
        outcome = eval_frame.run_guarded(served.code, served.guards, entered.globals, name)
        return Found(outcome, frame)
    return None


def _is_captured(frame: frame_pb2.Frame) -> bool:
    """And not left to Python."""
    return frame.result.HasField("code")


def _place(entered: Entered) -> tuple[bytes, bool]:
    """The key of `_left`; of what goes on behind no break, one that nothing else has."""
    is_continuation = code_objects.is_continuation(entered.code.co_name)
    digest = digests.of_code(entered.code) if is_continuation else entered.digest
    return digest, torch.is_grad_enabled()


def _note_use(key: bytes, entered: Entered) -> None:
    store().used(key)
    store().entered(entered.digest)
