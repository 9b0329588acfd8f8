# SPDX-License-Identifier: Apache-2.0
"""A tier that is dead, silent or mad costs a few misses a moment, and hits nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis_server
from bad_server import KINDS, SCHEMES, BadServer
from fleet_hosts import Host
from redis_server import RedisServer
from stalling_proxy import StallingProxy

pytest_plugins = ["fleet_fixtures"]

# What a miss may wait for a tier, and misses that may: those that open the breaker, and one after a
# probe.
BUDGET_MS = 200
MISSES = 4


Answer = tuple[str, float]  # Host.ask's


def assert_cost_a_moment(answers: list[tuple[Answer, Answer]]) -> None:
    """answers: of a host with the tier, and beside each one without."""
    ours, theirs = (sum(pair[i][1] for pair in answers) for i in (0, 1))
    # Compiles of a busy machine differ by half.
    assert ours < 1.5 * theirs + MISSES * BUDGET_MS / 1000 + 1.0


def assert_is_given_up(stats: dict[str, Any]) -> None:
    assert stats["fleet_errors"] >= 3
    assert stats["fleet_breaker_opened"] >= 1
    assert stats["fleet_skipped"] > 0, "nobody is sent there any more"


@pytest.mark.long
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("kind", KINDS)
def test_bad_servers_cost_a_moment(
    hosts: Callable[..., Host], key: Path, kind: str, scheme: str
) -> None:
    server = BadServer(kind, scheme)
    try:
        host = hosts(server.url, key.parent / "trust", key, answer_ms=BUDGET_MS)
        plain = hosts("file:///nowhere", key.parent / "trust", None)
        plain.ask(0), host.ask(0)  # the workers start
        answers = [(host.ask(i), plain.ask(i)) for i in range(1, 7)]
        assert {outcome for pair in answers for outcome, _ in pair} == {"COMPILED"}
        assert_cost_a_moment(answers)
        stats = host.stats()
        assert stats["compiled"] == 7 and stats["failed"] == 0
        assert stats["fleet_misses"] == 0
        assert_is_given_up(stats)
        assert "no" in host.tensorctl("status").split("fleet answers")[1].split("\n")[0]
        asked = server.connections
        assert all(host.ask(i)[0] == "HIT" for i in range(7))
        assert server.connections <= asked + 2, "only probes"
    finally:
        server.close()


def test_a_server_that_dies_and_comes_back(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    if redis_server.program() is None:
        pytest.skip("no redis-server")
    with RedisServer(clean / "r") as server:
        one = hosts(server.url, key.parent / "trust", key)
        two = hosts(server.url, key.parent / "trust", key)
        one.ask(1)
        one.wait_for("fleet_put", 1)
        assert two.ask(1)[0] == "HIT"
        server.stop()
        assert two.ask(1)[0] == "HIT", "its own by now"
        for i in range(2, 8):
            assert two.ask(i)[0] == "COMPILED"
        assert two.stats()["fleet_breaker_open"] == 1
        server.start()
        two.wait_until_closed()
        assert two.ask(20)[0] == "COMPILED"
        two.wait_for("fleet_put", 1)
        one.wait_until_closed()
        assert one.ask(20)[0] == "HIT"


def test_a_server_that_stalls_behind_the_manifest(
    hosts: Callable[..., Host], key: Path, clean: Path
) -> None:
    """What it names is waited for as long as a slow network takes for it, and no longer."""
    if redis_server.program() is None:
        pytest.skip("no redis-server")
    with RedisServer(clean / "r") as server:
        one = hosts(server.url, key.parent / "trust", key)
        for i in range(1, 7):
            one.ask(i)
        one.wait_for("fleet_put", 6)
        proxy = StallingProxy(clean / "r", clean / "r" / "redis", b"tensord:blob:")
        with contextlib.closing(proxy):
            url = f"redis+unix://{proxy.path}"
            two = hosts(url, key.parent / "trust", key, answer_ms=BUDGET_MS)
            two.ask(0)  # the worker starts
            answers = [(two.ask(i), one.ask(100 + i)) for i in range(1, 7)]
            assert {outcome for pair in answers for outcome, _ in pair} == {"COMPILED"}
            assert proxy.stalled >= 3
            stats = two.stats()
            assert stats["fleet_hits"] == 0
            assert_is_given_up(stats)
            assert_cost_a_moment(answers)
            assert two.ask(1)[0] == "HIT", "its own by now"


def test_a_daemon_with_a_fleet_that_is_no_fleet_does_not_start(clean: Path, key: Path) -> None:
    with pytest.raises(RuntimeError, match="fleet_trust"):
        Host("file:///shared", clean / "none")
    with pytest.raises(RuntimeError, match="redis"):
        Host("http://host", key.parent / "trust")
