# SPDX-License-Identifier: Apache-2.0
"""The native extension, without which no frame is recorded or used."""

from __future__ import annotations

from typing import Any

from .. import _native
from ..bridge import runtime
from ..bridge.call_backs import run_step
from .errors import UnfitError


def module() -> Any:
    """Raises UnfitError where the extension is not built."""
    loaded = _native.load(runtime.find_runtime_library(), runtime.runtime_error, run_step)
    if loaded is None:
        raise UnfitError("the native extension is not built")
    return loaded
