# SPDX-License-Identifier: Apache-2.0
"""Kernels that daemons of earlier test runs compiled, in `$TENSORD_TEST_CACHE/kernels`.

A kernel is found by all that decides it (docs/caching.md), so an old one serves as well as a new
one; programs are not kept, so each run compiles its graphs. Without the variable nothing is kept.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

# What of a store is kept: content-addressed blobs, and the signed records that name them.
_FOLDERS = ("blobs", "kernels")


def _folder() -> Path | None:
    cache = os.environ.get("TENSORD_TEST_CACHE")
    return Path(cache) / "kernels" if cache else None


def _link(source: Path, target: Path) -> None:
    """A second name of a file that nobody writes to, or a copy on another file system."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with contextlib.suppress(FileExistsError):
        try:
            os.link(source, target)
        except OSError as error:
            if isinstance(error, FileExistsError):
                raise
            shutil.copy2(source, target)


def _link_all(source: Path, target: Path) -> None:
    for name in _FOLDERS:
        for file in (source / name).glob("??/*"):
            _link(file, target / name / file.parent.name / file.name)


def _key(folder: Path) -> bytes:
    """The key that signs what is kept: one for all runs, made by the first."""
    fresh = folder / f"key.{os.getpid()}"
    fresh.write_bytes(os.urandom(32))
    with contextlib.suppress(FileExistsError):
        os.link(fresh, folder / "key")
    fresh.unlink()
    return (folder / "key").read_bytes()


def lend(store: Path) -> None:
    """Makes the folder of a store that has all kept kernels, and nothing else."""
    if (folder := _folder()) is None:
        return
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    store.mkdir(parents=True, mode=0o700)
    (store / "key").write_bytes(_key(folder))
    (store / "key").chmod(0o600)
    _link_all(folder, store)


def keep(store: Path) -> None:
    """Keeps the kernels of a store that `lend` made; its daemon has ended."""
    if (folder := _folder()) is None:
        return
    if (store / "key").read_bytes() == _key(folder):
        _link_all(store, folder)
