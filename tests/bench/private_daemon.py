# SPDX-License-Identifier: Apache-2.0
"""A daemon of a test's or benchmark's own, which this process and its children use."""

from __future__ import annotations

import os
import pathlib
import sys
import tempfile
from types import TracebackType

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "deploy" / "lib"), str(ROOT / "tests" / "tools")]

import process_facts  # noqa: E402
from daemon import Daemon  # noqa: E402


class PrivateDaemon(Daemon):
    """Starts `tensord` on entry, points this process at it, and ends it by its pid on exit.

    Its socket, log and store lie in a temporary folder (`root`), which is made in `folder`; `store`
    is another place for the store.
    """

    def __init__(
        self, *flags: str, folder: pathlib.Path | None = None, store: pathlib.Path | None = None
    ) -> None:
        from tensord.wire import autostart

        self._folder = tempfile.TemporaryDirectory(prefix="tensord-", dir=folder)
        self.root = pathlib.Path(self._folder.name)
        binary = autostart.find_daemon() or ROOT / "build" / "bin" / "tensord"
        store = self.root / "store" if store is None else store.resolve()
        super().__init__(binary, self.root, store, flags)
        self.environment = {
            "TENSORD_ADDRESS": self.address,
            "TENSORD_STORE": str(store),
            "TENSORD_AUTOSTART": "0",
            "TENSORD_STRICT": "1",
            # What is measured or compared is captured, unless somebody wants recorded frames.
            "TENSORD_FRAMES": os.environ.get("TENSORD_FRAMES", "0"),
        }

    def __enter__(self) -> PrivateDaemon:
        os.environ.update(self.environment)
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, trace)
        self._folder.cleanup()

    def resident_bytes(self) -> int:
        """Of the daemon's process, without its workers."""
        return process_facts.resident_bytes(self.process.pid)

    def peak_resident_bytes(self) -> int:
        """The most that the daemon's process has had."""
        return process_facts.peak_resident_bytes(self.process.pid)

    def cpu_seconds(self) -> float:
        """User and system time of the daemon's process so far."""
        return process_facts.cpu_seconds(self.process.pid)
