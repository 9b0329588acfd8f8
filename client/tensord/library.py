# SPDX-License-Identifier: Apache-2.0
"""Where libtensord_runtime is."""

from __future__ import annotations

import os
from pathlib import Path

_NAME = "libtensord_runtime.so"


def find() -> Path:
    """TENSORD_RUNTIME_LIB, the bundle's lib/, or the build folder of a source tree.

    Raises FileNotFoundError, which says where it was looked for.
    """
    override = os.environ.get("TENSORD_RUNTIME_LIB")
    if override:
        return Path(override)
    package = Path(__file__).resolve().parent
    candidates = [package / "lib" / _NAME, package.parents[1] / "build" / "lib" / _NAME]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise FileNotFoundError(f"{_NAME} not found (tried {tried}; set TENSORD_RUNTIME_LIB)")
