# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the fleet's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fleet_hosts import Host, make_key  # isort: skip; it says where fleet_tiers is
import fleet_tiers

# Of a miss, where a test asks what hosts do and not how fast: a server of PyPI's beside other tests
# is slower than the daemon's default allows.
PATIENT_MS = 10_000


def need(kind: str) -> None:
    """Skips the test where there is no server of that kind of tier."""
    try:
        fleet_tiers.need(kind)
    except fleet_tiers.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def hosts(clean: Path) -> Iterator[Callable[..., Host]]:
    """Makes hosts, which are ended behind the test. answer_ms: what a miss waits for the fleet."""
    made: list[Host] = []

    def make(
        url: str, trust: Path, sign: Path | None, *flags: str, answer_ms: int = PATIENT_MS
    ) -> Host:
        made.append(Host(url, trust, sign, f"--fleet-answer-ms={answer_ms}", *flags))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def key(clean: Path) -> Path:
    return make_key(clean)
