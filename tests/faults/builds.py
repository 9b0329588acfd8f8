# SPDX-License-Identifier: Apache-2.0
"""Builds of tensord to be tried with each other: this checkout, one of its revisions, a bundle."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from campaign import ROOT, Skipped

_TARGETS = ("tensord", "tensord-worker", "tensorctl", "tensord_runtime")
# The revision before jobs knew of progress, traces and TCP; taken where there is no release yet.
BEFORE_RELEASES = "babe6fd319f37c32aa519271bbb8ef26701cc990"


@dataclass(frozen=True)
class Build:
    """name: for people. programs: the folder of the binaries. client: that of the package."""

    name: str
    programs: Path
    client: Path
    versions: dict[str, int]  # of base/version.h, by name; empty: a bundle does not say

    def worker_digest(self) -> str:
        """What program keys know the compiler by."""
        return hashlib.sha256((self.programs / "tensord-worker").read_bytes()).hexdigest()

    def environment(self) -> dict[str, str]:
        """Of a job that imports this client, and of nothing else of tensord's."""
        kept = {name: value for name, value in os.environ.items() if not _is_ours(name)}
        return {**kept, "PYTHONPATH": str(self.client), "PYTHONDONTWRITEBYTECODE": "1"}


def _is_ours(variable: str) -> bool:
    return variable.startswith("TENSORD_") and variable != "TENSORD_NATIVE_CACHE"


def of_folder(name: str, folder: Path) -> Build:
    """Of a checkout that is built, or of an unpacked bundle (deploy/bundle.sh).

    Raises Skipped where it is neither.
    """
    if (folder / "build" / "bin" / "tensord").exists():
        return Build(name, folder / "build" / "bin", folder / "client", _versions(folder))
    if (folder / "bin" / "tensord").exists():
        return Build(name, folder / "bin", folder / "python", {})
    raise Skipped(f"{folder} is neither a checkout that is built nor an unpacked bundle")


def of_revision(name: str, revision: str) -> Build:
    """Of a revision of git's, built in build/versions/ and kept there for the next time.

    revision: empty for the last release before this checkout, or BEFORE_RELEASES without one.
    Raises Skipped where git does not know it.
    """
    commit = _commit_of(revision or _last_release() or BEFORE_RELEASES)
    folder = ROOT / "build" / "versions" / commit[:12]
    if not (folder / "client").exists():
        folder.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(
            ["git", "-C", ROOT, "archive", commit], check=True, capture_output=True
        ).stdout
        subprocess.run(["tar", "-x", "-C", folder], check=True, input=archive)
    _build(folder)
    return of_folder(name, folder)


def _build(folder: Path) -> None:
    environment = {**os.environ, "PYTHON": sys.executable}
    settings = ("-DTENSORD_BUILD_TESTS=OFF", f"-DPython3_EXECUTABLE={sys.executable}")
    commands: tuple[tuple[str, ...], ...] = (
        ("cmake", "--preset", "release", *settings),
        ("cmake", "--build", "build", "--target", *_TARGETS),
        ("sh", "client/generate_protos.sh"),
    )
    for command in commands:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def _last_release() -> str:
    """The tag before this checkout's commit; empty: none."""
    command = ["git", "-C", ROOT, "describe", "--tags", "--abbrev=0", "HEAD^"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def _commit_of(revision: str) -> str:
    command = ["git", "-C", ROOT, "rev-parse", "--verify", f"{revision}^{{commit}}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise Skipped(f"git does not know {revision} here")
    return done.stdout.strip()


def _versions(folder: Path) -> dict[str, int]:
    """The numbers of base/version.h; those of magics by their last byte."""
    text = (folder / "base" / "version.h").read_text()
    found = re.findall(r'constexpr [\w:]+ (k\w+) = (?:(\d+)|".*?(\d+)");', text)
    return {name: int(number or last) for name, number, last in found}
