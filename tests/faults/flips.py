#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One bit is flipped in each of `--count` files of every kind: blobs, records of programs, of
kernels and of frames, the index, its log, the key, and the prelude that kernels are compiled with.

What is served is right. A flip in a blob, a record or the prelude is found; one in the index or the
key may cost programs and frames their rows or their signatures, never a wrong one, and the store
takes what is published again.
"""

from __future__ import annotations

import argparse
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import campaign
from stores import Store

SHARED = 4  # programs of one kernel (native/store_driver.cc)
FEW = 12  # programs of a store whose index or key is flipped


def flip(path: Path, draw: random.Random) -> None:
    """Another value of one bit; the file stays the same otherwise."""
    path.chmod(0o600)
    with path.open("r+b") as file:
        at = draw.randrange(path.stat().st_size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1 << draw.randrange(8)]))


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True)
class _Kind:
    """A folder of the store. asks: what looks its files up. of_each: how many answers need one of
    them, of the `of_all` that are asked for per file."""

    folder: str
    asks: str
    what: str
    of_each: int
    of_all: int


KINDS = (
    # Each blob and each kernel is of four programs, of which every one is looked up.
    _Kind("blobs", "lookup", "programs", SHARED, SHARED),
    _Kind("manifests", "lookup", "programs", 1, SHARED),
    _Kind("kernels", "kernels", "programs", SHARED, SHARED),
    _Kind("frames", "frames", "frames", 1, 1),
)


def _all_of_a_kind(
    model: Path, kind: _Kind, count: int, draw: random.Random
) -> tuple[int, int, int]:
    """One bit in `count` files of a folder of the store: files, and what is served afterwards,
    right and wrong."""
    root = model.parent / kind.folder
    shutil.copytree(model, root)
    paths = _files(root / kind.folder)[:count]
    for path in paths:
        flip(path, draw)
    with Store(root) as store:
        found = store.numbers(f"{kind.asks} 0 {kind.of_all * count}")
    shutil.rmtree(root)
    return len(paths), found["found"], found["wrong"] + found.get("unavailable", 0)


def _one_file(model: Path, name: str, count: int, draw: random.Random) -> tuple[int, list[str]]:
    """One bit in a file of which a store has one, in `count` stores: programs that are served all
    the same, and what is not right. Its frames are found by the index, so that they may be lost
    until that is compared with the files."""
    served, wrong = 0, []
    for turn in range(count):
        root = model.parent / "store"
        shutil.copytree(model, root)
        flip(root / name, draw)
        with Store(root) as store:
            if store.opened != "open":
                wrong.append(f"flip {turn} of {name}: {store.opened}")
            else:
                found = store.lookup(0, FEW)
                served += found["found"]
                bad = found["wrong"] or found["unavailable"]
                if bad or (name != "key" and found["found"] != FEW):
                    wrong.append(f"flip {turn} of {name}: {found}")
                frames = store.numbers(f"frames 0 {FEW}")
                if frames["wrong"]:
                    wrong.append(f"flip {turn} of {name}: frames {frames}")
                store.put(0, FEW)
                for _ in range(2):  # as the daemon does where the index proves damaged, also in it
                    store.ask("reconcile")
                if (frames := store.numbers(f"frames 0 {FEW}"))["found"] != FEW:
                    wrong.append(f"flip {turn} of {name}: frames {frames} after they were put")
                again = store.publish(0, FEW + 1)
                if len(again) != FEW + 1 or store.lookup(0, FEW + 1)["found"] != FEW + 1:
                    wrong.append(f"flip {turn} of {name}: takes no programs")
        shutil.rmtree(root)
    return served, wrong


def _with_log(folder: Path) -> Path:
    """A store whose process was killed: its index is in part in the log."""
    store = Store(folder / "log")
    store.publish(0, FEW)
    store.put(0, FEW)
    store.process.kill()
    store.end()
    return folder / "log"


def _prelude(folder: Path, count: int, draw: random.Random) -> int:
    """Flips of a sealed folder that were not found."""
    sealed = folder / "sealed"
    shutil.copytree(campaign.ROOT / "kernels" / "cpu", sealed)
    missed = 0
    with Store(folder / "seals") as store:
        store.ask(f"seal {sealed}")
        assert store.ask(f"sealed {sealed}") == "yes"
        paths = _files(sealed)
        for turn in range(count):
            path = paths[turn % len(paths)]
            before = path.read_bytes()
            flip(path, draw)
            missed += store.ask(f"sealed {sealed}") != "no"
            path.write_bytes(before)
        assert store.ask(f"sealed {sealed}") == "yes"
    return missed


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Kind after kind."""
    draw = random.Random(arguments.seed)
    count: int = arguments.count
    with campaign.folder(in_memory=True) as folder:
        model = folder / "model"
        with Store(model) as store:
            store.publish(0, SHARED * count, 4500)
            store.put(0, count)
        for kind in KINDS:
            spared = (kind.of_all - kind.of_each) * count
            files, right, wrong = _all_of_a_kind(model, kind, count, draw)
            table.add(f"{kind.folder}: files flipped", files)
            table.must(f"{kind.folder}: {kind.what} served", right, right == spared, f"{spared}")
            table.none(f"{kind.folder}: served wrong", wrong)
        small = folder / "small"
        with Store(small) as store:
            store.publish(0, FEW)
            store.put(0, FEW)
        kinds: list[tuple[str, Callable[[], Path]]] = [
            ("index.sqlite", lambda: small),
            ("key", lambda: small),
            ("index.sqlite-wal", lambda: _with_log(folder)),
        ]
        for name, make in kinds:
            served, bad = _one_file(make(), name, count, draw)
            table.add(f"{name}: flips", count)
            table.add(f"{name}: programs served", f"{served} of {count * FEW}")
            table.none(f"{name}: wrong, lost or of no use", bad)
        table.none("prelude: flips that were not found", _prelude(folder, count, draw))


if __name__ == "__main__":
    campaign.main(run, __doc__, count=1000)
