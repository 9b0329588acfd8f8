# SPDX-License-Identifier: Apache-2.0
"""The kinds of steps: as rows of a profile have them, as the runtime and artifacts number them, and
as people read them."""

from __future__ import annotations

from typing import NamedTuple

from ..bridge import run_times
from ..v1 import profile_pb2

Row = profile_pb2.ProfileRow


class Kind(NamedTuple):
    """row: of ProfileRow. timed: of TensordStepKind. planned: the field of an artifact's Step;
    empty: any. shown: of all together, where a call is in parts."""

    row: profile_pb2.ProfileRow.Kind
    timed: int
    planned: str
    shown: str


KINDS = (
    Kind(Row.KERNEL, run_times.LAUNCH, "launch", "kernels"),
    Kind(Row.LIBRARY_CALL, run_times.CALL, "call", "library calls"),
    Kind(Row.ZERO_FILL, run_times.ZERO_FILL, "zero_fill", "zero fills"),
    Kind(Row.MEMORY, run_times.MEMORY, "", "memory"),
)
OF_TIMED = {kind.timed: kind.row for kind in KINDS}
OF_PLANNED = {kind.planned: kind.row for kind in KINDS if kind.planned}
