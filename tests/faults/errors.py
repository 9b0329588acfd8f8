#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls on the store's files fail: open, write, sync, rename and mmap, each with EIO, ENOSPC,
EDQUOT, EMFILE and ENOMEM, once at each place where it is made, and for good from there on.

Under the fault the store serves what it has or says that it cannot now, and takes what is
published, in memory if need be; when the fault is gone the same process finds everything and writes
what it kept, and a store that is opened then has it all, with nothing damaged. A store that cannot
open under a fault that lasts opens afterwards. `--stride 7` tries every seventh place.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import campaign
from stores import Ended, Orders, Store

CALLS = ("open", "write", "sync", "rename", "mmap")
ERRORS = ("EIO", "ENOSPC", "EDQUOT", "EMFILE", "ENOMEM")
STORED = 4  # programs before the fault, with a kernel of their own, and frames
ADDED = 2  # under it, and again after it


def _under_fault(store: Store, orders: Orders) -> tuple[bool, list[str]]:
    """What a store does under the order in force, then without it: whether it kept programs in
    memory, and what is not right."""
    wrong = []
    during = store.lookup(0, STORED)
    if during["wrong"] or during["missing"] or during["damaged"]:
        wrong.append(f"a sound program was not kept: {during}")
    if (frames := store.numbers(f"frames 0 {STORED}"))["wrong"]:
        wrong.append(f"frames under the fault: {frames}")
    if len(store.publish(STORED, ADDED)) != ADDED:
        wrong.append("a program was refused")
    if len(store.put(STORED, ADDED)) != ADDED:
        wrong.append("a frame was refused")
    added = store.lookup(STORED, ADDED)
    if added["wrong"] or added["damaged"]:
        wrong.append(f"under the fault: {added}")
    kept = store.ask("problem") != "problem"
    orders.withdraw()
    store.ask("write-back")
    after = store.lookup(0, STORED + ADDED)
    if after["found"] != STORED + ADDED or after["damaged"]:
        wrong.append(f"after the fault: {after}")
    if (frames := store.numbers(f"frames 0 {STORED + ADDED}"))["found"] != STORED + ADDED:
        wrong.append(f"after the fault: frames {frames}")
    store.publish(STORED + ADDED, ADDED)
    if (problem := store.ask("problem")) != "problem":
        wrong.append(f"the fault is remembered: {problem}")
    store.ask("reconcile")
    if store.numbers("count")["programs"] != STORED + 2 * ADDED:
        wrong.append(f"the index stays behind: {store.ask('count')}")
    return kept, wrong


def _sound(root: Path, programs: int, frames: int) -> list[str]:
    """What is not right in a store that is opened after all."""
    wrong = []
    with Store(root) as store:
        if (there := store.numbers(f"frames 0 {frames}"))["found"] != frames:
            wrong.append(f"opened again: frames {there}")
        found = store.lookup(0, programs)
        if found["found"] != programs:
            wrong.append(f"opened again: {found}")
        store.ask("reconcile")
        verified = store.numbers("verify")
        if verified["damaged"] or verified["unreadable"] or verified["programs"] != programs:
            wrong.append(f"opened again: {verified}")
        if store.numbers("count")["programs"] != programs:
            wrong.append(f"the index has {store.ask('count')}")
    return wrong


class _Campaign:
    def __init__(self, folder: Path) -> None:
        self._folder, self._model = folder, folder / "model"
        self.tried, self.opened, self.kept = 0, 0, 0
        self.wrong: list[str] = []
        with Store(self._model) as store:
            store.publish(0, STORED)
            store.put(0, STORED)

    def places(self, call: str) -> int:
        """How often the call is made when nothing fails."""
        root, orders = self._begin()
        orders.give(call, "EIO", skip=1_000_000)
        with Store(root, environment=orders.environment) as store:
            store.lookup(0, STORED)
            store.publish(STORED, ADDED)
            store.put(STORED, ADDED)
            count = orders.matched()
        shutil.rmtree(root)
        return count

    def fail(self, call: str, error: str, skip: int, times: int) -> None:
        """A store that is opened and used while calls fail."""
        root, orders = self._begin()
        orders.give(call, error, skip=skip, times=times)
        wrong: list[str] = []
        opened = False
        try:
            with Store(root, environment=orders.environment) as store:
                opened = store.opened == "open"
                if opened:
                    kept, wrong = _under_fault(store, orders)
                    self.kept += kept
                elif times != 0:
                    wrong.append(f"does not open: {store.opened}")
        except Ended:
            wrong.append("it crashed")
        orders.withdraw()
        wrong += _sound(
            root, STORED + 2 * ADDED if opened else STORED, STORED + ADDED if opened else STORED
        )
        shutil.rmtree(root)
        how = "for good" if times == 0 else f"once, at number {skip}"
        self.tried += 1
        self.opened += opened
        self.wrong += [f"{call} fails with {error} {how}: {what}" for what in wrong]

    def _begin(self) -> tuple[Path, Orders]:
        root = self._folder / "store"
        shutil.copytree(self._model, root)
        return root, Orders(self._folder / "orders", root)


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Every error of every call: once at each place, and for good from each place on."""
    with campaign.folder(in_memory=True) as folder:
        faults = _Campaign(folder)
        for call in CALLS:
            places = faults.places(call)
            table.add(f"{call}: places", places)
            for error in ERRORS:
                for skip in range(0, places, arguments.stride):
                    faults.fail(call, error, skip, times=1)
                    faults.fail(call, error, skip, times=0)
    table.add("faults", faults.tried)
    table.add("under which the store opened", faults.opened)
    table.add("and kept programs in memory", faults.kept)
    table.none("crashed, lost, damaged or remembered", faults.wrong)


if __name__ == "__main__":
    campaign.main(run, __doc__, stride=1)
