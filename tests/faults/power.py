#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Power is lost at `--count` moments of a store's life: what disk.py says may then be on the disk
is made, and a store opened on it.

A preloaded library records the calls, since only there SQLite's are seen with their bytes. Nothing
wrong may be served; and what had been answered before the power went, programs and frames, with the
key that signs it, is there: the store syncs a file and every folder that leads to it before it
answers.
"""

from __future__ import annotations

import argparse
import random
import shutil
from pathlib import Path

import campaign
from disk import Call, Disk, read_calls, write_state
from stores import INTERPOSE, Store

PROGRAMS = 12  # and frames
AGAIN = 3  # programs that are published once more, over their records


def _record(folder: Path) -> list[Call]:
    """A store that is made, filled, opened again and filled on; its calls."""
    environment = {
        "LD_PRELOAD": str(INTERPOSE),
        "TENSORD_FAULTS_FOLDER": str(folder / "store"),
        "TENSORD_FAULTS_RECORD": str(folder / "record"),
    }
    half = PROGRAMS // 2
    with Store(folder / "store", environment=environment) as store:
        store.publish(0, half)
        store.put(0, half)
    with Store(folder / "store", environment=environment) as store:
        store.publish(half, PROGRAMS - half)
        store.publish(0, AGAIN)
        store.put(half, PROGRAMS - half)
    return read_calls(folder / "record")


def _check(root: Path, answered: set[int], frames: int, where: str) -> tuple[int, list[str]]:
    """Opens a store on what was left: how many programs it has lost, and what is not right.

    answered: programs. frames: how many were put, from number 0 on.
    """
    with Store(root) as store:
        if store.opened != "open":
            return 0, [f"{where}: {store.opened}"]
        found = store.lookup(0, PROGRAMS)
        lost = answered & set(store.missing(0, PROGRAMS))
        wrong = [f"{where}: {found}"] if found["wrong"] or found["unavailable"] else []
        if (found := store.numbers(f"frames 0 {PROGRAMS}"))["wrong"]:
            wrong.append(f"{where}: {found} of frames")
        store.ask("reconcile")
        # Frames are found through the index.
        if (found := store.numbers(f"frames 0 {frames}"))["found"] != frames:
            wrong.append(f"{where}: {found} of {frames} frames")
        store.put(0, PROGRAMS)
        if (found := store.numbers(f"frames 0 {PROGRAMS}"))["found"] != PROGRAMS:
            wrong.append(f"{where}: {found} after all frames were put again")
        if len(store.publish(0, PROGRAMS)) != PROGRAMS:
            wrong.append(f"{where}: does not take programs")
        if (found := store.lookup(0, PROGRAMS))["found"] != PROGRAMS:
            wrong.append(f"{where}: {found} after all was published again")
        if (counted := store.numbers("count")["programs"]) != PROGRAMS:
            wrong.append(f"{where}: {counted} programs in the index")
        if (kept := store.ask("problem")) != "problem":
            wrong.append(f"{where}: {kept}")
    return len(lost), wrong


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Half of the moments under each model of a disk."""
    draw = random.Random(arguments.seed)
    states, with_index, wrong, lost = 0, 0, [], []
    with campaign.folder(in_memory=True) as folder:
        calls = _record(folder)
        root = str(folder / "store")
        moments = sorted(draw.choices(range(1, len(calls) + 1), k=arguments.count))
        disk, made = Disk(root), 0
        answered: set[int] = set()
        frames = 0
        for turn, moment in enumerate(moments):
            for call in calls[made:moment]:
                disk.make(call)
                words = call.data.split() if call.kind == "o" else []
                if words and words[0] == b"published":
                    answered.add(int(words[1]))
                elif words and words[0] == b"put":
                    frames += 1
            made = moment
            left = folder / "left"
            state = disk.after_power_loss(draw, journal=turn % 2 == 0)
            write_state(state, root, left)
            states += 1
            with_index += (left / "index.sqlite").exists()
            where = f"call {moment} of {len(calls)}"
            gone, found = _check(left, answered, frames, where)
            if gone:
                lost.append(f"{where}: {gone} of {len(answered)}")
            wrong += found
            shutil.rmtree(left)
    table.add("calls recorded", len(calls))
    table.add("states of the disk", states)
    table.add("of these with an index", with_index)
    table.add("frames put at the last", frames)
    table.none("wrong, or of no use", wrong)
    table.none("with an answered program lost", lost)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=1000)
