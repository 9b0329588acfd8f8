# SPDX-License-Identifier: Apache-2.0
"""The daemon's statistics reach people whole: every field, by its name, without a list of them."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import tensord
from real_daemon import RealDaemon, binary
from tensord.v1 import stats_pb2

# `tensorctl stats` has a table of its own for the outcomes of requests.
OUTCOMES = {"requests", "hits", "compiled", "joined", "failed", "rejected"}


def _tensorctl(daemon: RealDaemon, *arguments: str) -> str:
    return subprocess.run(
        [str(binary("tensorctl")), "--address", daemon.address, *arguments],
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def _numbers() -> set[str]:
    fields = stats_pb2.Stats.DESCRIPTOR.fields
    return {field.name for field in fields if field.cpp_type == field.CPPTYPE_UINT64}


def test_daemon_stats_has_every_field(tensord_daemon: RealDaemon) -> None:
    fields = {field.name for field in stats_pb2.Stats.DESCRIPTOR.fields}
    assert set(tensord.daemon_stats()) == fields


def test_tensorctl_stats_shows_every_number(tensord_daemon: RealDaemon) -> None:
    shown = _tensorctl(tensord_daemon, "stats")
    rows = {line.split("  ")[0].strip() for line in shown.splitlines()}
    assert {name.replace("_", " ") for name in _numbers() - OUTCOMES} <= rows, shown


@pytest.mark.parametrize("command", ["status", "stats"])
def test_tensorctl_json_has_every_field(tensord_daemon: RealDaemon, command: str) -> None:
    shown = json.loads(_tensorctl(tensord_daemon, "--json", command))
    assert {field.name for field in stats_pb2.Stats.DESCRIPTOR.fields} == set(shown)


def test_units_are_shown(tensord_daemon: RealDaemon) -> None:
    shown = _tensorctl(tensord_daemon, "stats")
    assert re.search(r"^resident bytes +[\d.]+ MiB$", shown, re.M), shown
    assert re.search(r"^uptime seconds +\d+ (s|min)$", shown, re.M), shown
    assert re.search(r"^worker cpu nanoseconds +[\d.]+ (µs|ms|s)$", shown, re.M), shown
    assert re.search(r"^worker restarts +\d+$", shown, re.M), shown
