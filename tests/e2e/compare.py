# SPDX-License-Identifier: Apache-2.0
"""What counts as a difference from eager: the package's own judgement, which `minify` uses too."""

from __future__ import annotations

from tensord.debug.compare import (
    EAGER_FACTOR,
    TOLERANCE,
    Mismatch,
    check,
    check_relative,
    flatten,
    wide,
)

__all__ = ["EAGER_FACTOR", "TOLERANCE", "Mismatch", "check", "check_relative", "flatten", "wide"]
