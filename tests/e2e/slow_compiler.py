# SPDX-License-Identifier: Apache-2.0
"""A C++ compiler that does something else before it makes a kernel; waiting for what follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from real_daemon import RealDaemon

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


class Gate:
    """A daemon whose C++ compiler makes kernels while the gate is open. file: is there then."""

    def __init__(self, folder: Path, start: Callable[..., RealDaemon]) -> None:
        self.file = folder / "open"
        self._begun = folder / "begun"
        wait = f"touch {self._begun}; while ! [ -e {self.file} ]; do sleep 0.02; done"
        script = slow_compiler(folder, wait)
        self.daemon = start(f"--cxx={script}", "--confine=off")

    def open(self) -> None:
        self.file.touch()

    def close(self) -> None:
        self.file.unlink()

    def await_compiler(self) -> None:
        wait_for(self._begun.exists, "a compile")
