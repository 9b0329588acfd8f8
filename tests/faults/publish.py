#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Ends a store at each step of publishing a program, `--count` times each.

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
from stores import Orders, Store

BEFORE = 3  # programs that are stored when the one begins whose publishing is cut


def _place(root: Path, killed_at: str) -> str:
    """`CALL PLACE`, with what differs from run to run left out."""
    call, _, path = killed_at.partition(" ")
    place = path.removesuffix(" (deleted)").removeprefix(f"{root}").lstrip("/") or "the root"
    place = re.sub(r"[0-9a-f]{2}/[0-9a-f]{64}$", "AB/DIGEST", place)
    place = re.sub(r"^(blobs|manifests|kernels)/[0-9a-f]{2}$", r"\1/AB", place)
    return f"{call} {re.sub(r'^tmp/.*', 'tmp/FILE', place)}"


def _cut(folder: Path, model: Path, skip: int, first: int) -> tuple[str, list[str]]:
    """One publication that ends before its call number `skip`: the step, and what is not right."""
    root = folder / "store"
    shutil.copytree(model, root)
    orders = Orders(folder / "orders", root)
    store = Store(root, environment=orders.environment)
    orders.give("any", "kill", skip=skip)
    answered = store.publish(first, 2)
    store.process.kill()
    store.end()
    step = _place(root, orders.killed_at())
    wrong: list[str] = []
    with Store(root) as again:
        if again.opened != "open":
            wrong.append(f"{step}: {again.opened}")
            return step, wrong
        kept = again.lookup(0, BEFORE)
        if kept["found"] != BEFORE or again.missing(first, len(answered)):
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
        if again.numbers("count")["programs"] != BEFORE + 2:
            wrong.append(f"{step}: the index has {again.ask('count')}")
    shutil.rmtree(root)
    return step, wrong


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Cuts at every step, a round of all steps at a time."""
    steps: Counter[str] = Counter()
    wrong: list[str] = []
    with campaign.folder(in_memory=True) as folder:
        model = folder / "model"
        with Store(model) as store:
            store.publish(0, BEFORE)
        for turn in range(arguments.count):
            # Programs of other folders, and with another kernel or the same as the one before.
            first = 100 + 8 * (turn + 1000 * arguments.seed) + turn % 2 * 3
            for skip in range(0, 1000, arguments.stride):
                step, found = _cut(folder, model, skip, first)
                if not step.strip():
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
