#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends a store at each step of opening, of publishing and of putting frames, `--count` times each.

A step is a call that changes or opens a file below the store, SQLite's among them; the table has
them by call and place. A store that is opened again finds what was answered, nothing that is wrong,
and nothing damaged; what was under way can be published and put again.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections import Counter
from pathlib import Path

import campaign
from stores import Ended, Orders, Store

BEFORE = 3  # programs and frames that are stored when what is cut begins
ADDED = 2  # of each, then


def _place(root: Path, killed_at: str) -> str:
    """`CALL PLACE`, with what differs from run to run left out."""
    call, _, path = killed_at.partition(" ")
    place = path.removesuffix(" (deleted)").removeprefix(f"{root}").lstrip("/") or "the root"
    place = re.sub(r"[0-9a-f]{2}/[0-9a-f]{64}$", "AB/DIGEST", place)
    place = re.sub(r"^(blobs|manifests|kernels|frames)/[0-9a-f]{2}$", r"\1/AB", place)
    return f"{call} {re.sub(r'^tmp/.*', 'tmp/FILE', place)}"


def _add(root: Path, orders: Orders, first: int) -> tuple[int, int]:
    """How many programs and frames are answered until the store's process ends."""
    try:
        store = Store(root, environment=orders.environment)
    except Ended:
        return 0, 0
    programs, frames = store.publish(first, ADDED), store.put(first, ADDED)
    store.process.kill()
    store.end()
    return len(programs), len(frames)


def _wrong_frames(store: Store, before: int, first: int, answered: int) -> list[str]:
    """What is not right of the frames before, of those answered, and of the others."""
    wrong = []
    kept = store.numbers(f"frames 0 {before}") if before else {"found": 0}
    if kept["found"] != before:
        wrong.append(f"lost a frame: {kept}")
    if answered and (found := store.numbers(f"frames {first} {answered}"))["found"] != answered:
        wrong.append(f"lost a frame: {found} of {answered}")
    if (found := store.numbers(f"frames {first} {ADDED}"))["wrong"]:
        wrong.append(f"frames: {found}")
    store.put(first, ADDED)
    if (found := store.numbers(f"frames {first} {ADDED}"))["found"] != ADDED:
        wrong.append(f"frames cannot be put again: {found}")
    return wrong


def _cut(folder: Path, model: Path, before: int, skip: int, first: int) -> tuple[str, list[str]]:
    """A store with `before` programs and frames that ends before its call number `skip`: the step,
    and what is not right."""
    root = folder / "store"
    shutil.copytree(model, root)
    orders = Orders(folder / "orders", root)
    orders.give("any", "kill", skip=skip)
    programs, frames = _add(root, orders, first)
    killed_at = orders.killed_at()
    step = _place(root, killed_at) if killed_at else ""
    wrong: list[str] = []
    with Store(root) as again:
        if again.opened != "open":
            wrong.append(f"{step}: {again.opened}")
            return step, wrong
        kept = again.lookup(0, before)
        if kept["found"] != before or again.missing(first, programs):
            wrong.append(f"{step}: lost a program: {kept}")
        wrong += [f"{step}: {what}" for what in _wrong_frames(again, before, first, frames)]
        found = again.lookup(first, ADDED)
        if found["wrong"] or found["damaged"] or found["unavailable"]:
            wrong.append(f"{step}: {found}")
        published = len(again.publish(first, ADDED))
        if published != ADDED or again.lookup(first, ADDED)["found"] != ADDED:
            wrong.append(f"{step}: cannot be published again")
        again.ask("reconcile")
        verified = again.numbers("verify")
        if verified["damaged"] or verified["unreadable"]:
            wrong.append(f"{step}: {verified}")
        if again.numbers("count")["programs"] != before + ADDED:
            wrong.append(f"{step}: the index has {again.ask('count')}")
    shutil.rmtree(root)
    return step, wrong


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Cuts at every step, a round of all steps at a time: of a store that has programs, and of a
    new one."""
    steps: Counter[str] = Counter()
    wrong: list[str] = []
    with campaign.folder(in_memory=True) as folder:
        model, empty = folder / "model", folder / "empty"
        empty.mkdir(mode=0o700)
        with Store(model) as store:
            store.publish(0, BEFORE)
            store.put(0, BEFORE)
        for turn in range(arguments.count):
            # Other programs each time, which lie in other folders.
            first = 100 + 8 * (turn + 1000 * arguments.seed)
            for start, before in ((model, BEFORE), (empty, 0)):
                for skip in range(0, 1000, arguments.stride):
                    step, found = _cut(folder, start, before, skip, first)
                    if not step:  # it came to its end
                        break
                    steps[step] += 1
                    wrong += found
    for step, kills in sorted(steps.items()):
        table.add(step, kills)
    table.add("kills", steps.total())
    table.must("steps", len(steps), len(steps) >= 10, "at least 10")
    table.none("wrong, lost or damaged", wrong)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=20, stride=1)
