# SPDX-License-Identifier: Apache-2.0
"""A C++ compiler that does something else before it makes a kernel; waiting for what follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

WAIT_S = 60.0


def slow_compiler(folder: Path, command: str) -> Path:
    """A program of that folder for a daemon's `cxx`. command: the shell's. What it touches is for a
    daemon without walls (confine = off)."""
    script = folder / "slow-c++"
    script.write_text(f'#!/bin/sh\ncase "$*" in *shared*) {command};; esac\nexec c++ "$@"\n')
    script.chmod(0o755)
    return script


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Until the condition holds; what: for who reads that it never did."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {WAIT_S:.0f} s"
        time.sleep(0.02)
