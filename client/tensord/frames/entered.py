# SPDX-License-Identifier: Apache-2.0
"""A function that is entered, and what torch.compile was told when it was to be compiled."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..v1 import frame_pb2
from . import digests


@dataclass(frozen=True)
class Entered:
    """Its code, the globals that it runs with, and its locals: its arguments and the contents of
    its closure's cells."""

    code: types.CodeType
    globals: dict[str, Any]
    locals: dict[str, Any]

    @functools.cached_property
    def digest(self) -> bytes:
        """Raises ValueError (digests.of_code)."""
        return digests.of_entered(self.code, self.locals, self.globals)


@dataclass(frozen=True)
class Call:
    """By whom it is to be compiled.

    owner: whose compiled codes torch's hook tries before it calls us. entry: the code that the user
    had compiled; of what that calls, functions without tensors are left to Python. capture: has
    Dynamo capture what is entered, and gives what its hook returns. waits: for programs of frames
    that serve; otherwise calls run in Python until they have come. recompile_limit: of this
    torch.compile alone; None: torch's.
    """

    environment: frame_pb2.FrameEnvironment
    owner: object
    entry: Callable[[types.CodeType], bool]
    capture: Callable[[], Any]
    waits: bool
    recompile_limit: int | None = None
