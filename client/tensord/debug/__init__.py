# SPDX-License-Identifier: Apache-2.0
"""Finds out where a compiled program and eager differ.

    tensord.debug.minify(function, args)

`minify` writes the smallest graph that differs or fails as a script; `show` is what such a script
calls. Both compare as judge.py says.
"""

from __future__ import annotations

from .minifier import minify
from .verdict import DifferenceError, show

__all__ = ["DifferenceError", "minify", "show"]
