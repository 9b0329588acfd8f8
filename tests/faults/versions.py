#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Client, daemon and store of this checkout and of the version before, in all eight combinations.

The version before is built of `--base`, a revision of git's (without it the last release, else one
that knew neither progress nor traces nor TCP), in build/versions/, or is `--bundle`: an unpacked
bundle, or another checkout that is built. Stores are made by each version's client and daemon, and
copied. In a combination a job infers and trains, a second one finds all of that, a third compiles a
new function; both versions' tensorctl ask; then who made the store comes back to it.

Numbers are eager's; nothing runs in eager or complains unless a number of base/version.h says why,
and then it is told; programs of one compiler are found, others compiled once; nothing in the store
is lost or damaged.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import builds
import campaign
from builds import Build
from real_daemon import RealDaemon

JOB = Path(__file__).resolve().parent / "version_job.py"
PROGRAMS = 3  # of a job without a new function: inference, forward, backward
FRAMES = 2
NEW = 7  # the number of the new function
JOB_TIMEOUT_S = 300.0
# Numbers by which a client may refuse a daemon, or a runtime a program; it says so then.
REFUSED_BY = ("kProtocolVersion", "kArtifactFormat")
# Commands that every tensorctl has, then those that a daemon of the version before may not know.
ASKED = ("status", "stats", "ls", "frames")
NEWER = (("in-flight",), ("jobs",), ("trace", "--last"))


def _run_job(build: Build, daemon: RealDaemon, number: int = 0) -> dict[str, Any]:
    """What a job of that client says (version_job.py); `errors`: what it wrote beside it."""
    done = subprocess.run(
        [sys.executable, str(JOB), str(number)],
        capture_output=True,
        text=True,
        timeout=JOB_TIMEOUT_S,
        env={
            **build.environment(),
            "TENSORD_ADDRESS": daemon.address,
            "TENSORD_AUTOSTART": "0",
            "TENSORD_STORE": str(daemon.folder / "fetched"),
        },
        cwd=daemon.folder,
        check=False,
    )
    if done.returncode != 0:
        return {"failed": f"the job ended with {done.returncode}: {done.stderr[-600:]}"}
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return said | {"errors": done.stderr}


def _verify(build: Build, store: Path) -> tuple[int, list[str]]:
    """Sound programs of a store, as that version's tensorctl says, and what is not right."""
    command = [build.programs / "tensorctl", "--json", "verify", f"--store={store}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return 0, [f"verify of {build.name}: {done.stdout}{done.stderr}"]
    return int(json.loads(done.stdout)["programs"]), []


class _Combination:
    """What is not right goes into `wrong`, as text; `figures` is a line for people."""

    def __init__(self, client: Build, daemon: Build, store: Build, folder: Path) -> None:
        self._client, self._daemon, self._store, self._folder = client, daemon, store, folder
        self._before = 0
        self._newest_form = max(one.versions.get("kStoreForm", 0) for one in (daemon, store))
        self.wrong: list[str] = []
        self.lost: list[str] = []
        self.eager = 0
        self.figures = ""

    @property
    def name(self) -> str:
        return f"{self._client.name}, {self._daemon.name}, {self._store.name}"

    def run(self) -> None:
        """The whole course; the folder has the store."""
        self._before, wrong = _verify(self._store, self._folder / "store")
        self.wrong += wrong
        daemon = RealDaemon(self._folder, program=self._daemon.programs / "tensord")
        try:
            first = self._job("the first job", self._client, daemon)
            again = self._job("the next job", self._client, daemon)
            fresh = self._job("a job with a new function", self._client, daemon, NEW)
            self._ask(daemon)
        finally:
            code = daemon.stop()
        self._check_log(daemon, code)
        self._check_first(first)
        self._check_found("the next job", again)
        if fresh and not self.eager:
            stats = fresh["stats"]
            made = {name: stats[name] for name in ("compiled", "frames_recorded")}
            if made != {"compiled": 1, "frames_recorded": 1}:
                self.wrong.append(f"the new function: {made}")
        self._come_back()
        if first:
            stats = first["stats"]
            self.figures = (
                f"compiled {stats['compiled']}, found {stats['hits']}, of kernels "
                f"{stats['kernels'] - stats['kernels_compiled']} of {stats['kernels']}, "
                f"frames served {stats['frames_served']}; then "
                f"{again['stats']['frames_served'] if again else 0}"
            )

    def _job(
        self, what: str, build: Build, daemon: RealDaemon, number: int = 0
    ) -> dict[str, Any] | None:
        """What a job says; None, and noted, where it says nothing or what it should not."""
        told = _run_job(build, daemon, number)
        if "failed" in told:
            self.wrong.append(f"{what}: {told['failed']}")
            return None
        if not Path(told["client"]).is_relative_to(build.client):
            self.wrong.append(f"{what} imported {told['client']}")
        self.wrong += [f"{what}: {difference}" for difference in told["wrong"]]
        if told["errors"]:
            self.wrong.append(f"{what} writes: {told['errors'][-300:]}")
        in_eager = told["stats"]["fallbacks"] + told["stats"]["calls_in_eager"]
        self.eager += in_eager
        if self._may_refuse(build):
            if in_eager and not told["said"]:
                self.wrong.append(f"{what} runs in eager and does not say so")
        elif in_eager or told["said"]:
            self.wrong.append(f"{what}: {in_eager} in eager; {told['said']}")
        if told["store_problem"] and not self._may_refuse_store():
            self.wrong.append(f"{what}: {told['store_problem']}")
        return told

    def _may_refuse(self, client: Build) -> bool:
        return any(self._daemon.versions.get(name) != client.versions.get(name)
                   for name in REFUSED_BY)  # fmt: skip

    def _may_refuse_store(self, build: Build | None = None) -> bool:
        """Whether the store's index is of a form that came after that of `build`, or of the daemon:
        such a daemon leaves the store alone."""
        # A bundle does not say; it is of no older form.
        of = (build or self._daemon).versions
        return of.get("kStoreForm", self._newest_form) < self._newest_form

    def _check_first(self, told: dict[str, Any] | None) -> None:
        """Programs are found by the compiler that made them, and by no other."""
        if told is None or self.eager:
            return
        stats = told["stats"]
        is_shared = self._daemon.worker_digest() == self._store.worker_digest()
        found = stats["hits"] if is_shared else 0
        if is_shared and self._client == self._store:
            found = PROGRAMS
        if (stats["compiled"], stats["hits"]) != (PROGRAMS - found, found):
            self.wrong.append(f"the first job: {stats['compiled']} compiled, {stats['hits']} found")

    def _check_found(self, what: str, told: dict[str, Any] | None) -> None:
        """All of it was there."""
        if told is None or self.eager:
            return
        stats = told["stats"]
        if (stats["compiled"], stats["hits"]) != (0, PROGRAMS):
            self.wrong.append(f"{what}: {stats['compiled']} compiled, {stats['hits']} found")
        if (stats["frames_captured"], stats["frames_served"]) != (0, FRAMES):
            unfit = stats.get("frames_unfit")
            self.wrong.append(f"{what}: {stats['frames_served']} frames served; unfit: {unfit}")

    def _ask(self, daemon: RealDaemon) -> None:
        for build in (self._client, self._store, self._daemon):
            for command in ASKED:
                done = self._tensorctl(build, daemon, command)
                if done.returncode != 0 or done.stderr:
                    self.wrong.append(f"tensorctl {command} of {build.name}: {done.stderr}")
        if self._client.name != "new":
            return
        for words in NEWER:
            done = self._tensorctl(self._client, daemon, *words)
            told = done.returncode == 1 and "does not know" in done.stderr
            if done.returncode != 0 and not (told and self._daemon.name == "old"):
                self.wrong.append(f"tensorctl {words}: {done.returncode}, {done.stderr!r}")

    def _tensorctl(
        self, build: Build, daemon: RealDaemon, *words: str
    ) -> subprocess.CompletedProcess[str]:
        command = [build.programs / "tensorctl", "--address", daemon.address, *words]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    def _check_log(self, daemon: RealDaemon, code: int | None) -> None:
        if code != 0:
            self.wrong.append(f"the daemon ended with {code}")
        for line in daemon.log_text().splitlines():
            told = "event=store_fallback" in line and self._may_refuse_store()
            if ("level=warning" in line or "level=error" in line) and not told:
                self.wrong.append(f"the daemon's log: {line}")
        daemon.log.unlink()

    def _come_back(self) -> None:
        """Nothing of the store is lost to those who made it."""
        store = self._folder / "store"
        for build in {one.name: one for one in (self._daemon, self._store)}.values():
            if self._may_refuse_store(build):
                continue
            programs, wrong = _verify(build, store)
            self.lost += wrong
            if programs < self._before:
                self.lost.append(f"{programs} of {self._before} programs, says {build.name}")
        refused = self._may_refuse_store(self._store)
        self._daemon, maker = self._store, self._daemon
        daemon = RealDaemon(self._folder, program=self._store.programs / "tensord")
        try:
            told = self._job("the store's maker", self._store, daemon)
        finally:
            daemon.stop()
            self._daemon = maker
        if told is None or (refused and told["store_problem"]):
            return
        if (told["stats"]["compiled"], told["stats"]["hits"]) != (0, PROGRAMS):
            self.lost.append(f"its maker: {told['stats']['compiled']} compiled")


def _make_store(build: Build, folder: Path) -> list[str]:
    """A store of that version's client and daemon; what is not right."""
    folder.mkdir(mode=0o700)
    daemon = RealDaemon(folder, program=build.programs / "tensord")
    try:
        told = _run_job(build, daemon)
    finally:
        daemon.stop()
    if "failed" in told:
        return [told["failed"]]
    stats = told["stats"]
    made = stats["compiled"] == PROGRAMS and stats["frames_recorded"] == FRAMES
    return told["wrong"] + ([] if made else [f"{build.name} makes its store: {stats}"])


def _combinations(
    table: campaign.Table, folder: Path, pair: list[Build], most: int
) -> Iterator[_Combination]:
    for build in pair:
        table.none(f"making the store of {build.name}", _make_store(build, folder / build.name))
    chosen = itertools.islice(itertools.product(pair, repeat=3), most)
    for number, (client, daemon, store) in enumerate(chosen):
        place = folder / str(number)
        place.mkdir(mode=0o700)
        shutil.copytree(folder / store.name / "store", place / "store")
        yield _Combination(client, daemon, store, place)
        shutil.rmtree(place, ignore_errors=True)


def _build_native(build: Build) -> None:
    """The native extension, without which no frame is served."""
    command = [sys.executable, str(build.client / "tensord" / "_native" / "build.py")]
    subprocess.run(command, check=True, capture_output=True, env=build.environment())


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Every combination of client, daemon and store, in that order."""
    new = builds.of_folder("new", campaign.ROOT)
    if arguments.bundle:
        old = builds.of_folder("old", Path(arguments.bundle).resolve())
    else:
        old = builds.of_revision("old", arguments.base)
    for build in (new, old):
        _build_native(build)
        table.add(f"{build.name}: its numbers", " ".join(
            f"{name.removeprefix('k')}={number}" for name, number in build.versions.items()
        ))  # fmt: skip
    tried = []
    with campaign.folder() as folder:
        for combination in _combinations(table, folder, [new, old], arguments.most):
            combination.run()
            table.add(f"client, daemon, store: {combination.name}", combination.figures)
            tried.append(combination)
    table.add("combinations", len(tried))
    table.add("graphs and calls in eager, told", sum(one.eager for one in tried))
    table.none("wrong numbers, errors, or words without a cause",
               [f"{one.name}: {what}" for one in tried for what in one.wrong])  # fmt: skip
    table.none("lost or damaged in a store",
               [f"{one.name}: {what}" for one in tried for what in one.lost])  # fmt: skip


if __name__ == "__main__":
    campaign.main(run, __doc__, base="", bundle="", most=8)
