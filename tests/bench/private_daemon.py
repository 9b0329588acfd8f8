"""A daemon of the benchmark's own: its socket and store lie in a temporary folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
import time
from types import TracebackType

ROOT = pathlib.Path(__file__).resolve().parents[2]
_START_SECONDS = 10.0


class PrivateDaemon:
    """Starts `tensord` on entry, points this process at it, and ends it by its pid on exit."""

    def __init__(self, *flags: str) -> None:
        self._flags = flags
        self._folder = tempfile.TemporaryDirectory(prefix="tensord-bench-")
        self.root = pathlib.Path(self._folder.name)
        self.environment = {
            "TENSORD_ADDRESS": f"unix:{self.root}/tensord.sock",
            "TENSORD_STORE": str(self.root / "store"),
            "TENSORD_AUTOSTART": "0",
            "TENSORD_STRICT": "1",
        }

    def __enter__(self) -> PrivateDaemon:
        from tensord import address, autostart

        os.environ.update(self.environment)
        binary = autostart.find_daemon() or str(ROOT / "build" / "bin" / "tensord")
        with open(self.root / "tensord.log", "wb") as log:
            self.process = subprocess.Popen([binary, *self._flags], stdout=log, stderr=log)
        deadline = time.monotonic() + _START_SECONDS
        while not address.listens(address.resolve()):
            if self.process.poll() is not None or time.monotonic() > deadline:
                text = (self.root / "tensord.log").read_text()
                raise RuntimeError(f"{binary} did not start:\n{text}")
            time.sleep(0.01)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.terminate()
        try:
            self.process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._folder.cleanup()

    def resident_bytes(self) -> int:
        """Of the daemon's process, without its workers."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        return 0

    def cpu_seconds(self) -> float:
        """User and system time of the daemon's process so far."""
        text = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text()
        fields = text.rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
