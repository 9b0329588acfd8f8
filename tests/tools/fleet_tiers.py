# SPDX-License-Identifier: Apache-2.0
"""Tiers of a test's own, by kind: a folder, Redis without and with TLS and users, and caches of the
Remote Execution API."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import redis_server
import remote_cache
from redis_server import RedisServer
from remote_cache import RemoteCache

KINDS = ("folder", "redis", "rediss", *remote_cache.KINDS)


class Missing(Exception):
    """There is no server of that kind on this machine; says why."""


def need(kind: str) -> None:
    """Installs what a kind needs. Raises Missing."""
    if kind.startswith("redis") and redis_server.program() is None:
        raise Missing("no redis-server (redis-tools of deploy/packages-debian.txt)")
    if kind in remote_cache.KINDS and (why := remote_cache.install(kind)):
        raise Missing(why)


@contextlib.contextmanager
def tier(kind: str, folder: Path) -> Iterator[tuple[str, ...]]:
    """A URL, and the daemon's flags that belong to it. Raises Missing."""
    need(kind)
    if kind == "folder":
        (folder / "shared").mkdir()
        yield (f"file://{folder}/shared",)
    elif kind in remote_cache.KINDS:
        with RemoteCache(kind, folder / "r") as cache:
            yield (cache.url, *cache.flags)
    else:
        with RedisServer(folder / "r", tls=kind == "rediss") as server:
            yield (server.url, f"--fleet-ca={server.ca}") if server.tls else (server.url,)
