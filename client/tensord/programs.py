# SPDX-License-Identifier: Apache-2.0
"""The programs that come with the package: where they are, and the commands `tensord` and
`tensorctl` that pip puts on PATH.

A command becomes its program: the process, its signals and its exit code are the program's own.
"""

from __future__ import annotations

import os
import pathlib
import signal
import sys
from typing import NoReturn

# What Python ignores and a program's callers expect at its default: `tensorctl ls | head` ends.
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


def find(name: str) -> str | None:
    """A program's path: in the package, in an unpacked bundle around it, or in the source tree's
    build."""
    package = pathlib.Path(__file__).resolve().parent
    candidates = [
        package / "bin" / name,
        # An unpacked bundle: <bundle>/python/tensord beside <bundle>/bin.
        package.parent.parent / "bin" / name,
        package.parent.parent / "build" / "bin" / name,
    ]
    for candidate in candidates:
        if candidate.is_file() and os.access(candidate, os.X_OK):
            return str(candidate)
    return None


def tensord() -> NoReturn:
    _become("tensord")


def tensorctl() -> NoReturn:
    _become("tensorctl")


def _become(name: str) -> NoReturn:
    program = find(name)
    if program is None:
        sys.exit(
            f"{name}: this installation of the package has no programs; "
            "install the wheel that deploy/bundle.sh makes, or build them"
        )
    for ignored in _IGNORED_BY_PYTHON:
        signal.signal(getattr(signal, ignored), signal.SIG_DFL)
    os.execv(program, [program, *sys.argv[1:]])
