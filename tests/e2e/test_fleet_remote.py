# SPDX-License-Identifier: Apache-2.0
"""Real caches of the Remote Execution API: who they know, what they evict, what they refuse."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import remote_cache
from fleet_fixtures import need
from fleet_hosts import Host, load
from remote_cache import RemoteCache

pytest_plugins = ["fleet_fixtures"]
pytestmark = pytest.mark.long  # servers from PyPI


def _cache(kind: str, folder: Path, updates: bool = True) -> RemoteCache:
    need(kind)
    return RemoteCache(kind, folder / "r", updates)


@pytest.mark.parametrize("fault", ["authority", "host", "token", "plain", "instance"])
def test_what_is_wrong_with_tls_or_the_token_is_said(
    hosts: Callable[..., Host], key: Path, clean: Path, fault: str
) -> None:
    with _cache("buildgrid", clean) as cache:
        ca, token = cache.flags
        url, flags, words = {
            "authority": (cache.url, (token,), "certificate verify failed"),
            "host": (cache.url.replace("localhost", "127.0.0.1"), (ca, token), "peer certificate"),
            "token": (cache.url, (ca,), "authorization"),
            "plain": (cache.url.replace("grpcs", "grpc"), (token,), ""),
            "instance": (f"{cache.url}/none", (ca, token), "main/none"),
        }[fault]
        host = hosts(url, key.parent / "trust", key, *flags)
        assert host.ask(1)[0] == "COMPILED"
        stats = host.stats()
        problem = stats["fleet_problem"]
        assert problem and words in problem and cache.token.read_text().strip() not in problem
        assert stats["fleet_errors"] >= 1 and stats["fleet_misses"] == 0
        assert problem in host.tensorctl("status")


def test_a_token_may_be_replaced(hosts: Callable[..., Host], key: Path, clean: Path) -> None:
    with _cache("buildgrid", clean) as cache:
        cache.new_token(-10)
        host = hosts(cache.url, key.parent / "trust", key, *cache.flags)
        assert host.ask(1)[0] == "COMPILED"
        assert host.stats()["fleet_put"] == 0
        cache.new_token()
        assert host.ask(2)[0] == "COMPILED"
        host.wait_for("fleet_put", 1)


def _unpacked_bytes(path: Path) -> int:
    """Of a blob of 256 bytes to 64 KiB, by its zstd frame (RFC 8878, 3.1.1.1); else 0."""
    head = path.read_bytes()[:7]
    return int.from_bytes(head[5:], "little") + 256 if head[:5] == b"\x28\xb5\x2f\xfd\x60" else 0


@pytest.mark.parametrize("kind", remote_cache.KINDS)
def test_what_was_evicted_is_made_again(
    hosts: Callable[..., Host], key: Path, clean: Path, kind: str
) -> None:
    with _cache(kind, clean) as cache:
        one, two, three = (
            hosts(cache.url, key.parent / "trust", key, *cache.flags) for _ in range(3)
        )
        one.ask(1)
        one.wait_for("fleet_put", 1)
        # The largest blob is the program's kernel: without it the rest is of no use.
        files = [path for path in (cache.folder / "storage").rglob("*") if path.is_file()]
        max(files, key=_unpacked_bytes).unlink()
        assert two.ask(1)[0] == "COMPILED"
        stats = two.stats()
        # Misses of the program, and of its kernel.
        assert (stats["fleet_misses"], stats["fleet_errors"], stats["fleet_refused"]) == (2, 0, 0)
        two.wait_for("fleet_put", 1)
        assert three.ask(1)[0] == "HIT"


def test_a_cache_that_takes_nothing_still_gives(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    with _cache("buildgrid", clean, updates=False) as cache:
        host = hosts(cache.url, key.parent / "trust", key, *cache.flags)
        for i in range(5):
            assert host.ask(i)[0] == "COMPILED"
        host.wait_for("fleet_dropped", 5)
        stats = host.stats()
        assert stats["fleet_misses"] == 10  # of programs, and of their kernels
        assert stats["fleet_breaker_opened"] == 0
        assert stats["fleet_put"] == 0


def test_a_cache_that_dies_and_comes_back(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    with _cache("casd", clean) as cache:
        one = hosts(cache.url, key.parent / "trust", key)
        two = hosts(cache.url, key.parent / "trust", key)
        one.ask(1)
        one.wait_for("fleet_put", 1)
        cache.stop()
        for i in range(2, 6):
            assert two.ask(i)[0] == "COMPILED"
        assert two.stats()["fleet_breaker_open"] == 1
        cache.start()
        two.wait_until_closed()
        assert two.ask(1)[0] == "HIT"


@pytest.mark.parametrize("kind", remote_cache.KINDS)
def test_large_blobs_are_streams(key: Path, clean: Path, kind: str) -> None:
    with _cache(kind, clean) as cache:
        found = load(
            cache.url, key, cache.flags, "--hosts=2", "--compile-ms=50", f"--bytes={24 << 20}",
            "--blobs=3", "--answer-ms=10000",
        )  # fmt: skip
        assert (found["compiled"], found["found"], found["failed"]) == (1, 1, 0)
        assert found["bytes_in_most"] > found["program_bytes"]


def test_a_cache_that_was_emptied_is_filled(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    with _cache("casd", clean) as cache:
        one, two = (hosts(cache.url, key.parent / "trust", key) for _ in range(2))
        one.ask(1)
        one.wait_for("fleet_put", 1)
        cache.stop()
        shutil.rmtree(cache.folder / "storage")
        cache.start()
        assert two.ask(1)[0] == "COMPILED"
        two.wait_for("fleet_put", 1)
        assert hosts(cache.url, key.parent / "trust", None).ask(1)[0] == "HIT"
