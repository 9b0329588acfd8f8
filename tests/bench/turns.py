# SPDX-License-Identifier: Apache-2.0
"""Several benchmarks on one device: they compile side by side, and each measures alone."""

from __future__ import annotations

import contextlib
import fcntl
import pathlib
import signal
from collections.abc import Iterator


class OutOfPatience(BaseException):
    """The others have waited long enough. No Exception, which compilers answer with eager."""


class Turns:
    """Of a process among those that share a file; of None, one that has the device for itself.

    Nobody measures while another prepares, and nobody prepares while another measures. patience:
    seconds that one may prepare while the others wait, or None for as many as it takes.
    """

    def __init__(self, file: pathlib.Path | None, patience: float | None = None) -> None:
        self._file = file
        self._patience = patience or 0

    @property
    def shared(self) -> bool:
        """Whether there are others."""
        return self._file is not None

    @contextlib.contextmanager
    def preparing(self) -> Iterator[None]:
        """A block that compiles and tries what will be measured. Raises OutOfPatience in it."""

        def give_up(*_: object) -> None:
            raise OutOfPatience(f"not ready after {self._patience:g} s, for which others waited")

        with self._held(fcntl.LOCK_SH):
            before = signal.signal(signal.SIGALRM, give_up)
            signal.setitimer(signal.ITIMER_REAL, self._patience)
            try:
                yield
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)

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
