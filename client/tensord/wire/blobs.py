# SPDX-License-Identifier: Apache-2.0
"""Blobs that a job does not find in the daemon's store: fetched once, by digest, into a folder of
its own."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..errors import RuntimeLoadError
from . import address as addresses
from . import rpc

if TYPE_CHECKING:
    from ..v1 import requests_pb2


def folder_for(reply: requests_pb2.CompileReply) -> str:
    """The folder to load the artifact's blobs from; fetches them if they are not in the daemon's:
    that folder is not seen here or is another user's, or its disk is full and the daemon has them
    in memory.

    Raises RuntimeLoadError when a blob is not what its digest says, or cannot be kept anywhere.
    """
    digests = [module.sha256 for module in reply.artifact.modules]
    if all(_may_be_loaded(_path(reply.blob_folder, digest), digest) for digest in digests):
        return reply.blob_folder
    problem: OSError | None = None
    for folder in _folders():
        try:
            for digest in digests:
                path = _path(folder, digest)
                if not _is_intact(path, digest):
                    _publish(path, _fetch(digest))
            return folder
        except OSError as error:  # this disk may be the one that is full
            problem = error
    raise RuntimeLoadError(f"the daemon's blobs cannot be kept here: {problem}") from problem


def _path(folder: str, digest: bytes) -> str:
    name = digest.hex()
    return os.path.join(folder, name[:2], name)


def _folders() -> Iterator[str]:
    """Where fetched blobs may be kept: for all jobs of the user, or else for this process."""
    yield os.path.join(_cache_folder(), "fetched")
    for place in (tempfile.gettempdir(), "/dev/shm"):
        if os.access(place, os.W_OK):
            yield _private_folder(place, os.getpid())


@functools.cache
def _private_folder(place: str, pid: int) -> str:
    """Of one process, which removes it at its end; a fork has its own."""
    made = tempfile.mkdtemp(prefix="tensord-", dir=place)

    def remove() -> None:
        if os.getpid() == pid:
            shutil.rmtree(made, ignore_errors=True)

    atexit.register(remove)
    return made


def _cache_folder() -> str:
    return os.environ.get("TENSORD_STORE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensord"
    )


def _may_be_loaded(path: str, sha256: bytes) -> bool:
    """Whether the runtime takes a file of the daemon's folder: it must be the user's or root's,
    which of a daemon elsewhere it may not be."""
    try:
        if os.stat(path).st_uid not in (0, os.geteuid()):
            return False
    except OSError:
        return False
    # A daemon elsewhere mends no folder that only has the name of its own.
    return addresses.resolve().path is not None or _is_intact(path, sha256)


def _is_intact(path: str, sha256: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            return hashlib.sha256(file.read()).digest() == sha256
    except OSError:
        return False


def _fetch(sha256: bytes) -> bytes:
    data = rpc.client().get_blob(sha256)
    if hashlib.sha256(data).digest() != sha256:
        raise RuntimeLoadError(f"the blob {sha256.hex()} arrived with another digest")
    return data


def _publish(path: str, data: bytes) -> None:
    """Writes a file that appears whole or not at all; jobs may race."""
    folder = os.path.dirname(path)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
        os.chmod(temporary, 0o500)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
