# SPDX-License-Identifier: Apache-2.0
"""A store in a process of its own, and files that fail there when they are told to.

native/store_driver.cc and native/interpose.cc say what they do.
"""

from __future__ import annotations

import errno
import mmap
import os
import struct
import subprocess
from pathlib import Path
from types import TracebackType

from campaign import ROOT

DRIVER = ROOT / "build" / "tests" / "store_driver"
INTERPOSE = ROOT / "build" / "tests" / "libtensord_faults.so"
_ORDERS_BYTES = 4096
_HEAD = struct.Struct("<QQ")


class Ended(Exception):
    """The store's process ended before it answered."""


class Orders:
    """Which calls on files fail, in all processes that were started with `environment`."""

    def __init__(self, path: Path, folder: Path) -> None:
        path.write_bytes(bytes(_ORDERS_BYTES))
        self._file = path.open("r+b")
        self._map = mmap.mmap(self._file.fileno(), _ORDERS_BYTES)
        self._number = 0
        self.environment = {
            "LD_PRELOAD": str(INTERPOSE),
            "TENSORD_FAULTS_FOLDER": f"{folder}",
            "TENSORD_FAULTS_ORDERS": str(path),
        }

    def give(self, call: str, action: str, place: str = "*", skip: int = 0, times: int = 0) -> None:
        """After `skip` calls that match, the next `times` (0: all) fail with the errno that
        `action` names, are the process's last (`kill`), or take as long as the order is in force
        (`hang`)."""
        what = action if action in ("kill", "hang") else str(getattr(errno, action))
        self._write(f"{call} {place} {what} {skip} {times}")

    def withdraw(self) -> None:
        """Nothing fails."""
        self._write("")

    def matched(self) -> int:
        """How many calls the order in force was for, so far."""
        return _HEAD.unpack_from(self._map)[1]

    def killed_at(self) -> str:
        """`CALL PATH` at which a process was ended; empty: none was."""
        text = bytes(self._map[_HEAD.size :]).split(b"\0")[0].decode().strip()
        return text.removeprefix("killed ") if text.startswith("killed ") else ""

    def _write(self, text: str) -> None:
        self._number += 1
        # No order is read half: it has five words or is none.
        self._map[_HEAD.size :] = bytes(_ORDERS_BYTES - _HEAD.size)
        _HEAD.pack_into(self._map, 0, self._number, 0)
        data = text.encode()
        self._map[_HEAD.size : _HEAD.size + len(data)] = data


class Store:
    """A store_driver on `root`. Raises Ended when its process has ended instead of answering.

    kernels: how many different ones its programs have, at most.
    """

    def __init__(
        self,
        root: Path,
        limit: int = 0,
        environment: dict[str, str] | None = None,
        kernels: int = 1024,
    ) -> None:
        self.process = subprocess.Popen(
            [str(DRIVER), str(root), str(limit), str(kernels)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **(environment or {})},
            text=True,
        )
        self.opened = self._line()  # "open", or "error WHY"

    def ask(self, line: str) -> str:
        """One line of answer."""
        self._send(line)
        return self._line()

    def publish(self, first: int, count: int, size: int = 6000) -> list[int]:
        """The numbers of the programs that were answered, up to where the process ended."""
        return self._answered(f"publish {first} {count} {size}", "published", count)

    def put(self, first: int, count: int) -> list[int]:
        """The same of frames."""
        return self._answered(f"put {first} {count}", "put", count)

    def _answered(self, line: str, word: str, count: int) -> list[int]:
        done: list[int] = []
        try:
            self._send(line)
            for _ in range(count):
                words = self._line().split()
                if words[0] == word:
                    done.append(int(words[1]))
        except Ended:
            pass
        return done

    def numbers(self, line: str) -> dict[str, int]:
        """An answer of names and numbers."""
        words = self.ask(line).split()
        return {name: int(number) for name, number in zip(words[::2], words[1::2], strict=True)}

    def lookup(self, first: int, count: int) -> dict[str, int]:
        """found, missing, unavailable, wrong, and damaged so far."""
        return self.numbers(f"lookup {first} {count}")

    def missing(self, first: int, count: int) -> list[int]:
        """Programs that are not found and right."""
        return [int(word) for word in self.ask(f"first {first} {count}").split()[1:]]

    def end(self) -> int:
        """Closes the store; the process's exit code."""
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass
        code = self.process.wait(60)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return code

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.end()

    def _send(self, line: str) -> None:
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except BrokenPipeError as error:
            raise Ended from error

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise Ended
        return line.strip()
