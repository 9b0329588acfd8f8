# SPDX-License-Identifier: Apache-2.0
"""Ranks of one job capture each function once between them, and the next job's ranks none."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
import warm_python
from frame_processes import output, python
from real_daemon import RealDaemon

RANK = Path(__file__).resolve().parent / "frame_rank.py"
TOPICS = ("ddp", "fsdp", "rank_decides", "rank_is_asked", "data_loader_that_forks")
FIRST, NEXT = 8, 2

pytestmark = pytest.mark.long
_Ranks = dict[str, list[dict[str, Any]]]


def _run(
    daemon: RealDaemon, ranks: int, imported: tuple[str, ...] = ("torch",), **more: str
) -> _Ranks:
    """What each rank said of each topic."""
    with tempfile.TemporaryDirectory() as folder:
        processes = [
            python(
                daemon, str(RANK), str(rank), str(ranks), folder, *TOPICS, imported=imported, **more
            )
            for rank in range(ranks)
        ]  # fmt: skip
        found: _Ranks = {}
        for process in processes:
            for line in output(process).splitlines():
                if line.startswith("{"):
                    said = json.loads(line)
                    found.setdefault(said["topic"], []).append(said)
    return found


@pytest.fixture(scope="module")
def first(native_guards: None, frames_daemon: RealDaemon) -> _Ranks:
    return _run(frames_daemon, FIRST, warm_python.CAPTURE)


@pytest.fixture(scope="module")
def following(first: _Ranks, frames_daemon: RealDaemon) -> _Ranks:
    return _run(frames_daemon, NEXT)


def _stats(ranks: _Ranks, topic: str, count: int) -> list[dict[str, Any]]:
    said = ranks[topic]
    assert [one["differs"] for one in said] == [""] * count
    stats = [one["stats"] for one in said]
    for one in stats:
        assert one["fallbacks"] == one["calls_in_eager"] == 0, one
        assert one["frames_unrecorded"] == {}, one
    return stats


def _sum(stats: list[dict[str, Any]], name: str) -> int:
    return sum(one[name] for one in stats)


@pytest.mark.parametrize("topic", TOPICS)
def test_eight_ranks_capture_each_function_once(first: _Ranks, topic: str) -> None:
    stats = _stats(first, topic, FIRST)
    assert all(one["frames_served"] + one["frames_captured"] > 0 for one in stats)
    assert _sum(stats, "frames_recorded") == _sum(stats, "frames_captured") > 0
    if topic != "fsdp":  # ranks whose shards are smaller have a frame of their own
        assert _sum(stats, "frames_captured") < FIRST * 4


@pytest.mark.parametrize("topic", TOPICS)
def test_next_ranks_capture_nothing(following: _Ranks, topic: str) -> None:
    for one in _stats(following, topic, NEXT):
        assert one["frames_captured"] == 0 and one["frames_served"] > 0, one
        assert one["compiled"] == 0


def test_graph_is_split_by_buckets(following: _Ranks) -> None:
    """A program each bucket, so that gradients are sent while others are computed."""
    for one in _stats(following, "ddp", NEXT):
        assert one["hits"] >= 2 * 2  # forward and backward of two parts
