# SPDX-License-Identifier: Apache-2.0
"""A disk that loses power: what may be on it, given the calls that were made.

The model, as in the work on crash consistency of ALICE and CrashMonkey:

- A file's content is durable when the file is synced. Of writes (and truncations) since, each may
  be on the disk, or not, or in part, by sectors, in any order; what lies between is zeros.
- The names in a folder (made, renamed, linked, removed) change in their order. They are durable
  when the folder is synced; of changes since, any number of the first ones may be on the disk. With
  `journal`, all folders share one order and syncing one makes all earlier changes durable (ext4,
  XFS); without, every folder has its own, which is the least that POSIX promises. A rename between
  folders happens in both or in neither.
- What was not changed since it was durable stays as it is.
"""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = struct.Struct("<c7xQQII")
SECTOR = 512


@dataclass(frozen=True)
class Call:
    """A change that was made; native/interpose.cc says what the kinds are."""

    kind: str
    inode: int
    offset: int
    path: str
    data: bytes

    @property
    def other(self) -> str:
        """The second path, of a call that has two."""
        return self.data.decode()


def read_calls(path: Path) -> list[Call]:
    """What was recorded."""
    data, at, calls = path.read_bytes(), 0, []
    while at < len(data):
        kind, inode, offset, path_bytes, data_bytes = _HEAD.unpack_from(data, at)
        at += _HEAD.size
        name = data[at : at + path_bytes].decode()
        at += path_bytes
        calls.append(Call(kind.decode(), inode, offset, name, data[at : at + data_bytes]))
        at += data_bytes
    return calls


@dataclass
class _File:
    """Writes in order, as (offset, data), truncations as (size, None); how many are synced."""

    changes: list[tuple[int, bytes | None]] = field(default_factory=list)
    synced: int = 0

    def content(self, draw: random.Random) -> bytes:
        data = bytearray()
        for change in self.changes[: self.synced]:
            _apply(data, change)
        later = self.changes[self.synced :]
        # All, none, or any of them: a disk that is merely late is the likely one.
        how = draw.choice(("all", "none", "any"))
        if how == "any":
            draw.shuffle(later)
            later = [_torn(change, draw) for change in later if draw.random() < 0.5]
        for change in later if how != "none" else []:
            _apply(data, change)
        return bytes(data)


def _apply(data: bytearray, change: tuple[int, bytes | None]) -> None:
    at, written = change
    if written is None:
        del data[at:]
        data.extend(bytes(at - len(data)))
        return
    data.extend(bytes(max(0, at + len(written) - len(data))))
    data[at : at + len(written)] = written


def _torn(change: tuple[int, bytes | None], draw: random.Random) -> tuple[int, bytes | None]:
    at, written = change
    if written is None or len(written) <= SECTOR or draw.random() < 0.5:
        return change
    first = SECTOR * draw.randrange(len(written) // SECTOR)
    last = first + SECTOR * draw.randint(1, (len(written) - first + SECTOR - 1) // SECTOR)
    return at + first, written[first:last]


@dataclass
class _Change:
    """Of names: what is given a name, or None, in which folders."""

    gives: dict[str, object]
    takes: list[str]
    folders: set[str]


class Disk:
    """A folder of a disk, `root`, after the calls so far."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._files: dict[int, _File] = {}  # by inode, which a new file may have again
        self._names: dict[str, _File | None] = {root: None}  # None: a folder
        self._changes: list[_Change] = []
        self._synced: dict[str, int] = {}  # folder -> changes that were there at its last sync

    def make(self, call: Call) -> None:
        """Takes the next call."""
        if call.kind == "c":
            self._files[call.inode] = _File()
            self._name({call.path: self._files[call.inode]}, [])
        elif call.kind in "wt":
            file = self._files.setdefault(call.inode, _File())
            file.changes.append((call.offset, call.data if call.kind == "w" else None))
        elif call.kind == "s":
            self._sync(call)
        elif call.kind == "m":
            self._name({call.path: None}, [])
        elif call.kind == "u":
            self._name({}, [call.path])
        elif call.kind in "rl":
            taken = [call.path] if call.kind == "r" else []
            if call.path in self._names:
                self._name({call.other: self._names[call.path]}, taken)

    def after_power_loss(self, draw: random.Random, journal: bool) -> dict[str, bytes | None]:
        """A state that may be found: path -> content, None for a folder."""
        names: dict[str, object] = {self._root: None}
        for change in self._kept(draw, journal):
            for path in change.takes:
                names.pop(path, None)
            names.update(change.gives)
        contents = {}
        found: dict[str, bytes | None] = {}
        for path, file in sorted(names.items()):
            # A name is lost with its folder.
            if path != self._root and os.path.dirname(path) not in found:
                continue
            if isinstance(file, _File):
                # A file has one content, by whatever names.
                found[path] = contents.setdefault(id(file), file.content(draw))
            else:
                found[path] = None
        return found

    def _sync(self, call: Call) -> None:
        path = call.path.removesuffix(" (deleted)")
        if path in self._names and self._names[path] is None:
            self._synced[path] = len(self._changes)
        elif call.inode in self._files:
            file = self._files[call.inode]
            file.synced = len(file.changes)

    def _name(self, gives: dict[str, object], takes: list[str]) -> None:
        paths = [*gives, *takes]
        self._changes.append(_Change(gives, takes, {os.path.dirname(p) for p in paths}))
        for path in takes:
            self._names.pop(path, None)
        self._names.update(gives)  # type: ignore[arg-type]

    def _kept(self, draw: random.Random, journal: bool) -> Iterator[_Change]:
        """The changes of names that are on the disk."""
        if journal:
            yield from self._changes[: draw.randint(max(self._synced.values(), default=0),
                                                    len(self._changes))]  # fmt: skip
            return
        last = {
            folder: draw.randint(self._synced.get(folder, 0), len(self._changes))
            for folder in sorted({f for change in self._changes for f in change.folders})
        }
        for number, change in enumerate(self._changes):
            # Of a rename between folders, the one that was synced last decides.
            if any(number < last[folder] for folder in change.folders):
                yield change


def write_state(state: dict[str, bytes | None], root: str, to: Path) -> None:
    """Makes the files of a state, with those of `root` in `to`."""
    for path, content in state.items():
        place = to / os.path.relpath(path, root)
        if content is None:
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
        else:
            place.write_bytes(content)
            place.chmod(0o600)
