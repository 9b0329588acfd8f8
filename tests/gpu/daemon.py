"""The daemon of the GPU tests: its socket and store lie in the tests' own folder."""

from __future__ import annotations

import pathlib
import subprocess
import time
from types import TracebackType

_START_SECONDS = 20.0


class Daemon:
    """Starts `tensord` on entry and ends it by its process id on exit.

    environment: what a process needs to find it, and only it.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self._log = folder / "log"
        self.environment = {
            "TENSORD_ADDRESS": f"unix:{folder}/s",
            "TENSORD_STORE": str(folder / "store"),
            "TENSORD_AUTOSTART": "0",
            "TENSORD_STRICT": "1",
        }

    def __enter__(self) -> Daemon:
        from tensord import autostart

        binary = autostart.find_daemon()
        if binary is None:
            raise RuntimeError("no tensord beside the package; name one by TENSORD_DAEMON")
        address = self.environment["TENSORD_ADDRESS"]
        store = self.environment["TENSORD_STORE"]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [binary, f"--address={address}", f"--store={store}"], stdout=log, stderr=log
            )
        socket = pathlib.Path(address.removeprefix("unix:"))
        deadline = time.monotonic() + _START_SECONDS
        while not socket.exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{binary} did not start:\n{self.log_tail()}")
            time.sleep(0.02)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def log_tail(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:])
