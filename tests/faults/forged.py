#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--count` records that the store did not sign for their place are put there; it accepts none.

Forged in turn: one or several bytes changed, cut short, lengthened, sizes moved between the parts,
another program's record, a kernel's, one of a store with another key (a replay, also of the same
store from before its key was replaced), another digest among its blobs, and noise.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import campaign
from stores import Store

PROGRAMS = 64
# Magic, then four sizes of 8 bytes, the signature of 32, digests (server/store/records.h).
_SIZES, _MAC, _BODY = 8, 40, 72


class _Records:
    """What there is to forge from: the record of each program, and others."""

    def __init__(self, own: list[bytes], before: list[bytes], kernels: list[bytes]) -> None:
        self.own, self.before, self.kernels = own, before, kernels


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


def _another_programs(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.own[(number + draw.randint(1, PROGRAMS - 1)) % PROGRAMS]


def _a_kernels(number: int, records: _Records, draw: random.Random) -> bytes:
    return draw.choice(records.kernels)


def _replayed(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.before[number]


def _another_signature(number: int, records: _Records, draw: random.Random) -> bytes:
    other = _another_programs(number, records, draw)
    return records.own[number][:_MAC] + other[_MAC:_BODY] + records.own[number][_BODY:]


def _another_blob(number: int, records: _Records, draw: random.Random) -> bytes:
    # Four programs in a row share a kernel.
    other = records.own[(number + 4 * draw.randint(1, 8)) % PROGRAMS]
    return (
        records.own[number][:_BODY] + other[_BODY : _BODY + 32] + records.own[number][_BODY + 32 :]
    )


def _noise(number: int, records: _Records, draw: random.Random) -> bytes:
    return records.own[number][: draw.choice((0, 8, _MAC))] + draw.randbytes(draw.randint(0, 4000))


FORGERIES: list[Forge] = [
    _bit, _bytes, _truncated, _lengthened, _moved_sizes, _another_programs, _a_kernels, _replayed,
    _another_signature, _another_blob, _noise,
]  # fmt: skip


def _take_records(store: Store, to: Path) -> list[bytes]:
    records = []
    for number in range(PROGRAMS):
        assert store.ask(f"keep {number} {to}") == "done"
        records.append(to.read_bytes())
    return records


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """All in one store, each in the place of a program that was there."""
    draw = random.Random(arguments.seed)
    accepted: list[str] = []
    tried: Counter[str] = Counter()
    with campaign.folder(in_memory=True) as folder:
        root, copy = folder / "store", folder / "record"
        with Store(root) as store:
            store.publish(0, PROGRAMS)
            before = _take_records(store, copy)
        (root / "key").unlink()
        shutil.rmtree(root / "manifests")
        with Store(root) as store:
            store.publish(0, PROGRAMS)
            kernels = [
                path.read_bytes() for path in (root / "kernels").rglob("*") if path.is_file()
            ]
            records = _Records(_take_records(store, copy), before, kernels)
            for turn in range(arguments.count):
                forge = FORGERIES[turn % len(FORGERIES)]
                number = draw.randrange(PROGRAMS)
                copy.write_bytes(forge(number, records, draw))
                answer = store.ask(f"take {number} {copy}")
                name = forge.__name__.strip("_").replace("_", " ")
                tried[name] += 1
                if answer != "missing":
                    accepted.append(f"{name}: {answer}")
            # What was signed is still accepted.
            for number, record in enumerate(records.own):
                copy.write_bytes(record)
                if store.ask(f"take {number} {copy}") != "found":
                    accepted.append(f"the record of {number} is not accepted any more")
    for name, count in sorted(tried.items()):
        table.add(name, count)
    table.none("accepted", accepted)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=10_000)
