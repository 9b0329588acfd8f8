# SPDX-License-Identifier: Apache-2.0
"""What every campaign shares: its arguments, its table, and how it ends.

A campaign is a function `run(arguments, table)`. It adds figures to the table, of which those that
`must` be something decide the exit code: 1 when one was not.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "e2e"), str(ROOT / "tests" / "tools")]


NUMBER = 24  # characters; what is longer is text, and stands as it is


class Table:
    """Figures in the order in which they were added."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str, str]] = []
        self.failed = False

    def add(self, name: str, value: Any) -> None:
        """A figure for people."""
        self._lines.append((name, _text(value), ""))

    def must(self, name: str, value: Any, holds: bool, wanted: str) -> None:
        """A figure that decides; `wanted` says what it had to be."""
        self._lines.append((name, _text(value), "ok" if holds else f"FAILED: must be {wanted}"))
        self.failed = self.failed or not holds

    def none(self, name: str, found: int | list[Any]) -> None:
        """A count, or what was found, which must be 0; the first of them are shown."""
        number = found if isinstance(found, int) else len(found)
        self.must(name, number, number == 0, "0")
        for what in found[:5] if isinstance(found, list) else []:
            self._lines.append(("", str(what), ""))

    def print(self) -> None:
        """The table, to standard output."""
        wide = max((len(name) for name, _, _ in self._lines), default=0)
        numbers = [value for _, value, _ in self._lines if len(value) <= NUMBER]
        values = max((len(value) for value in numbers), default=0)
        for name, value, verdict in self._lines:
            print(f"{name:<{wide}}  {value:>{values}}  {verdict}".rstrip(), flush=True)


def _text(value: Any) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


Run = Callable[[argparse.Namespace, Table], None]


def main(run: Run, what: str | None, **defaults: Any) -> None:
    """Runs a campaign as a command; a flag for every default, `--seed` among them."""
    parser = argparse.ArgumentParser(
        description=what, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in {"seed": 0, **defaults}.items():
        flag = f"--{name.replace('_', '-')}"
        parser.add_argument(flag, type=type(value), default=value, help=f"default {value}")
    arguments = parser.parse_args()
    table, start = Table(), time.monotonic()
    try:
        run(arguments, table)
    except Skipped as why:
        print(f"skipped: {why}")
        sys.exit(0)
    table.add("seconds", time.monotonic() - start)
    table.print()
    sys.exit(1 if table.failed else 0)


class Skipped(Exception):
    """This machine cannot run the campaign."""


@contextlib.contextmanager
def folder(in_memory: bool = False) -> Iterator[Path]:
    """A temporary folder; its path is short enough for sockets.

    in_memory: where syncing costs nothing, if there is such a place; for thousands of small stores.
    """
    place = "/dev/shm" if in_memory and os.access("/dev/shm", os.W_OK) else None
    made = Path(tempfile.mkdtemp(prefix="tf", dir=place))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)
