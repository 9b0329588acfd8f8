# SPDX-License-Identifier: Apache-2.0
"""What of frames the native extension does where it is built, and Python where it is not."""

from __future__ import annotations

from typing import Any

from ..bridge import runtime
from . import in_python


def extension() -> Any:
    """The native extension; None where it is not built (yet)."""
    return runtime.native_extension()


def module() -> Any:
    """What checks guards, by the same names: `GuardTree`, `dispatch_keys`, `type_version` and
    `thread_state`."""
    return extension() or in_python
