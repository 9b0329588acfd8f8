#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends a store at each step of opening and of publishing, `--count` times each.

A step is a call that changes or opens a file below the store, SQLite's among them; the table has
them by call and place. A store that is opened again finds what was answered, nothing that is wrong,
and nothing damaged; what was under way can be published again.
"""

from __future__ import annotations

import argparse
import re
import shutil
from collections import Counter
from pathlib import Path

import campaign
from stores import Ended, Orders, Store

BEFORE = 3  # programs that are stored when the one begins whose publishing is cut


def _place(root: Path, killed_at: str) -> str:
    """`CALL PLACE`, with what differs from run to run left out."""
    call, _, path = killed_at.partition(" ")
    place = path.removesuffix(" (deleted)").removeprefix(f"{root}").lstrip("/") or "the root"
    place = re.sub(r"[0-9a-f]{2}/[0-9a-f]{64}$", "AB/DIGEST", place)
    place = re.sub(r"^(blobs|manifests|kernels)/[0-9a-f]{2}$", r"\1/AB", place)
    return f"{call} {re.sub(r'^tmp/.*', 'tmp/FILE', place)}"


def _publish(root: Path, orders: Orders, first: int) -> list[int]:
    """What is answered until the store's process ends."""
    try:
        store = Store(root, environment=orders.environment)
    except Ended:
        return []
    answered = store.publish(first, 2)
    store.process.kill()
    store.end()
    return answered


def _cut(folder: Path, model: Path, before: int, skip: int, first: int) -> tuple[str, list[str]]:
    """A store with `before` programs that ends before its call number `skip`: the step, and what is
    not right."""
    root = folder / "store"
    shutil.copytree(model, root)
    orders = Orders(folder / "orders", root)
    orders.give("any", "kill", skip=skip)
    answered = _publish(root, orders, first)
    killed_at = orders.killed_at()
    step = _place(root, killed_at) if killed_at else ""
    wrong: list[str] = []
    with Store(root) as again:
        if again.opened != "open":
            wrong.append(f"{step}: {again.opened}")
            return step, wrong
        kept = again.lookup(0, before)
        if kept["found"] != before or again.missing(first, len(answered)):
            wrong.append(f"{step}: lost a program: {kept}")
        found = again.lookup(first, 2)
        if found["wrong"] or found["damaged"] or found["unavailable"]:
            wrong.append(f"{step}: {found}")
        if len(again.publish(first, 2)) != 2 or again.lookup(first, 2)["found"] != 2:
            wrong.append(f"{step}: cannot be published again")
        again.ask("reconcile")
        verified = again.numbers("verify")
        if verified["damaged"] or verified["unreadable"]:
            wrong.append(f"{step}: {verified}")
        if again.numbers("count")["programs"] != before + 2:
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
