# SPDX-License-Identifier: Apache-2.0
"""Several benchmarks on one device: they compile side by side, and each measures alone."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
from collections.abc import Iterator


class Turns:
    """Of a process among those that share a file; of None, one that has the device for itself.

    Nobody measures while another prepares, and nobody prepares while another measures.
    """

    def __init__(self, file: pathlib.Path | None) -> None:
        self._file = file

    def preparing(self) -> contextlib.AbstractContextManager[None]:
        """A block that compiles and tries what will be measured."""
        return self._held(fcntl.LOCK_SH)

    def measuring(self) -> contextlib.AbstractContextManager[None]:
        """A block that has the device for itself."""
        return self._held(fcntl.LOCK_EX)

    @contextlib.contextmanager
    def _held(self, kind: int) -> Iterator[None]:
        if self._file is None:
            yield
            return
        with self._file.open("a") as file:
            fcntl.flock(file, kind)
            yield  # closing the file ends it
