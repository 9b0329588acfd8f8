#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--count` records that the store did not sign for their place are put there, of programs and of
frames; it accepts none.

Forged in turn: one or several bytes changed, cut short, lengthened, sizes moved between the parts,
another program's or frame's record, one of another kind, one of a store with another key (a replay,
also of the same store from before its key was replaced), another digest among a program's blobs,
and noise.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import campaign
from stores import Store

PROGRAMS = 64
# Magic, then four sizes of 8 bytes, the signature of 32, digests (server/store/records.h).
_SIZES, _MAC, _BODY = 8, 40, 72


class _Records:
    """What there is to forge from: the record of each program, or of each frame, and others."""

    def __init__(self, own: list[bytes], before: list[bytes], others: list[bytes]) -> None:
        self.own, self.before, self.others = own, before, others


Forge = Callable[[int, _Records, random.Random], bytes]


def _bit(number: int, records: _Records, draw: random.Random) -> bytes:
    data = bytearray(records.own[number])
    data[draw.randrange(len(data))] ^= 1 << draw.randrange(8)
    return bytes(data)


def _bytes(number: int, records: _Records, draw: random.Random) -> bytes:
    data = bytearray(records.own[number])
    for _ in range(draw.randint(2, 40)):
        at = draw.randrange(len(data))
        data[at] = (data[at] + draw.randint(1, 255)) % 256
    return bytes(data) if bytes(data) != records.own[number] else bytes(data[:-1])


def _truncated(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.own[number][: draw.randrange(len(records.own[number]))]


def _lengthened(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.own[number] + draw.randbytes(draw.randint(1, 200))


def _moved_sizes(number: int, records: _Records, draw: random.Random) -> bytes:
    """The same sum: bytes of one part are said to be another's."""
    data = bytearray(records.own[number])
    one, other = draw.sample(range(3), 2)
    for at, by in ((one, -1), (other, 1)):
        place = slice(_SIZES + 8 * at, _SIZES + 8 * at + 8)
        data[place] = ((int.from_bytes(data[place], "little") + by) % 2**64).to_bytes(8, "little")
    return bytes(data)


def _anothers(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.own[(number + draw.randint(1, PROGRAMS - 1)) % PROGRAMS]


def _of_another_kind(number: int, records: _Records, draw: random.Random) -> bytes:
    return draw.choice(records.others)


def _replayed(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.before[number]


def _another_signature(number: int, records: _Records, draw: random.Random) -> bytes:
    other = _anothers(number, records, draw)
    return records.own[number][:_MAC] + other[_MAC:_BODY] + records.own[number][_BODY:]


def _another_blob(number: int, records: _Records, draw: random.Random) -> bytes:
    # Four programs in a row share a kernel.
    other = records.own[(number + 4 * draw.randint(1, 8)) % PROGRAMS]
    return (
        records.own[number][:_BODY] + other[_BODY : _BODY + 32] + records.own[number][_BODY + 32 :]
    )


def _noise(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.own[number][: draw.choice((0, 8, _MAC))] + draw.randbytes(draw.randint(0, 4000))


FORGERIES: tuple[Forge, ...] = (
    _bit, _bytes, _truncated, _lengthened, _moved_sizes, _anothers, _of_another_kind, _replayed,
    _another_signature, _noise,
)  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    """What the driver's `keep` and `take` say of it, where its records lie, and what is forged."""

    name: str
    words: str
    folder: str
    forgeries: tuple[Forge, ...]


KINDS = (
    _Kind("program", "", "manifests", (*FORGERIES, _another_blob)),
    _Kind("frame", "frames", "frames", FORGERIES),  # which has no blobs
)


def _take_records(store: Store, kind: _Kind, to: Path) -> list[bytes]:
    records = []
    for number in range(PROGRAMS):
        assert store.ask(f"keep {number} {to} {kind.words}") == "done"
        records.append(to.read_bytes())
    return records


def _files(folder: Path) -> list[bytes]:
    return [path.read_bytes() for path in folder.rglob("*") if path.is_file()]


class _Campaign:
    """All in one store, each in the place of a program or a frame that was there."""

    def __init__(self, folder: Path) -> None:
        self._root, self._copy = folder / "store", folder / "record"
        with Store(self._root) as store:
            self._fill(store)
            self._before = {kind: _take_records(store, kind, self._copy) for kind in KINDS}
        (self._root / "key").unlink()
        for kind in KINDS:
            shutil.rmtree(self._root / kind.folder)
        self.accepted: list[str] = []
        self.tried: Counter[str] = Counter()

    @staticmethod
    def _fill(store: Store) -> None:
        assert len(store.publish(0, PROGRAMS)) == len(store.put(0, PROGRAMS)) == PROGRAMS

    def run(self, count: int, draw: random.Random) -> None:
        """So many forgeries."""
        with Store(self._root) as store:
            self._fill(store)
            own = {kind: _take_records(store, kind, self._copy) for kind in KINDS}
            kernels = _files(self._root / "kernels")
            for kind in KINDS:
                foreign = [record for other in KINDS if other != kind for record in own[other]]
                records = _Records(own[kind], self._before[kind], [*kernels, *foreign])
                for turn in range(count // len(KINDS)):
                    forge = kind.forgeries[turn % len(kind.forgeries)]
                    self._forge(store, kind, forge, records, draw)
                self._take_own(store, kind, records.own)

    def _forge(
        self, store: Store, kind: _Kind, forge: Forge, records: _Records, draw: random.Random
    ) -> None:
        number = draw.randrange(PROGRAMS)
        self._copy.write_bytes(forge(number, records, draw))
        answer = store.ask(f"take {number} {self._copy} {kind.words}")
        name = f"{kind.name}: {forge.__name__.strip('_').replace('_', ' ')}"
        self.tried[name] += 1
        if answer != "missing":
            self.accepted.append(f"{name}: {answer}")

    def _take_own(self, store: Store, kind: _Kind, own: list[bytes]) -> None:
        """What was signed is still accepted."""
        for number, record in enumerate(own):
            self._copy.write_bytes(record)
            if store.ask(f"take {number} {self._copy} {kind.words}") != "found":
                self.accepted.append(f"the record of {kind.name} {number} is not, any more")


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Programs, then frames."""
    with campaign.folder(in_memory=True) as folder:
        forged = _Campaign(folder)
        forged.run(arguments.count, random.Random(arguments.seed))
    for name, count in sorted(forged.tried.items()):
        table.add(name, count)
    table.none("accepted", forged.accepted)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=10_000)
