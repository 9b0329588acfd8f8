# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the fleet's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fleet_hosts import Host, make_key  # isort: skip; it says where fleet_tiers is
import fleet_tiers


def need(kind: str) -> None:
    """Skips the test where there is no server of that kind of tier."""
    try:
        fleet_tiers.need(kind)
    except fleet_tiers.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def hosts(clean: Path) -> Iterator[Callable[..., Host]]:
    """Makes hosts, which are ended behind the test."""
    made: list[Host] = []

    def make(*arguments: Any) -> Host:
        made.append(Host(*arguments))
        return made[-1]

    yield make
    for host in made:
        host.close()


@pytest.fixture
def key(clean: Path) -> Path:
    return make_key(clean)
