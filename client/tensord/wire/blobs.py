# SPDX-License-Identifier: Apache-2.0
"""Blobs for a job that cannot map the daemon's store: fetched once, by digest, into a folder of its
own."""

from __future__ import annotations

import hashlib
import os
import tempfile
from typing import TYPE_CHECKING

from ..errors import RuntimeLoadError
from . import rpc

if TYPE_CHECKING:
    from ..v1 import service_pb2


def folder_for(reply: service_pb2.CompileReply) -> str:
    """The folder to load the artifact's blobs from; fetches them if the daemon's is not here.

    Raises RuntimeLoadError when a blob is not what its digest says.
    """
    if not reply.artifact.modules or os.path.isdir(reply.blob_folder):
        return reply.blob_folder
    folder = os.path.join(_cache_folder(), "fetched")
    for module in reply.artifact.modules:
        digest = module.sha256.hex()
        path = os.path.join(folder, digest[:2], digest)
        if not _is_intact(path, module.sha256):
            _publish(path, _fetch(module.sha256))
    return folder


def _cache_folder() -> str:
    return os.environ.get("TENSORD_STORE") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "tensord"
    )


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
