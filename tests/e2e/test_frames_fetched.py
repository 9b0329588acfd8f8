# SPDX-License-Identifier: Apache-2.0
"""What a process keeps of frames that it has fetched (frames/store.py)."""

from __future__ import annotations

import os
from typing import Any

import process_facts
import pytest
from tensord.frames.store import FrameStore
from tensord.v1 import frame_pb2, requests_pb2
from tensord.wire import rpc

MIB = 1 << 20
ENVIRONMENT = frame_pb2.FrameEnvironment(options=b"options")


def _stored(key: int, code: int, size: int) -> requests_pb2.StoredFrame:
    stored = requests_pb2.StoredFrame(key=key.to_bytes(32, "big"))
    stored.frame.code.digest = code.to_bytes(32, "big")
    stored.frame.code.module = "n" * size
    return stored


@pytest.fixture
def replies(monkeypatch: pytest.MonkeyPatch) -> list[requests_pb2.FindFramesReply]:
    """What the daemon answers, one by one; each is given away as it comes from the wire."""
    given: list[requests_pb2.FindFramesReply] = []

    class Client:
        def call(self, name: str, *_: Any) -> requests_pb2.FindFramesReply:
            assert name == "FindFrames"
            return requests_pb2.FindFramesReply.FromString(given.pop(0).SerializeToString())

    monkeypatch.setattr(rpc, "client", Client)
    return given


def _fetched(store: FrameStore, code: int) -> list[int]:
    keys = store.fetched(ENVIRONMENT, code.to_bytes(32, "big"))
    return [int.from_bytes(key, "big") for key in keys]


def test_a_frame_keeps_no_more_of_its_reply(replies: list[requests_pb2.FindFramesReply]) -> None:
    """A code in ever new forms brings one new frame at a time, and what comes behind it again."""
    store = FrameStore()
    before = 0
    for number in range(60):
        reply = requests_pb2.FindFramesReply(frames=[_stored(100 + number, 1, 1000)])
        reply.following.append(_stored(1, 2, 6 * MIB))
        replies.append(reply)
        del reply
        store.find(ENVIRONMENT, (1).to_bytes(32, "big"), ())
        if number == 9:
            before = process_facts.resident_bytes(os.getpid())
    assert _fetched(store, 1) == list(range(100, 160))
    assert _fetched(store, 2) == [1]
    assert process_facts.resident_bytes(os.getpid()) - before < 30 * MIB  # 300 MiB came


def test_the_latest_32_mib_are_kept(replies: list[requests_pb2.FindFramesReply]) -> None:
    store = FrameStore()
    for number in range(12):
        following = [_stored(100, 2, 4000)] if number in (0, 5) else []
        replies.append(
            requests_pb2.FindFramesReply(
                frames=[_stored(number, 1, 4 * MIB)], following=[*following, _stored(101, 2, 10)]
            )
        )
        reply = store.find(ENVIRONMENT, (1).to_bytes(32, "big"), ())
        assert [int.from_bytes(key, "big") for key in reply.frames] == [number]
        if number == 10:
            assert sorted(_fetched(store, 2)) == [100, 101]  # it came again after three of these
    assert _fetched(store, 1) == [5, 6, 7, 8, 9, 10, 11]


def test_the_first_of_a_reply_stay(replies: list[requests_pb2.FindFramesReply]) -> None:
    """Those that were used last, by anybody."""
    store = FrameStore()
    frames = [_stored(number, 1, 12 * MIB) for number in range(4)]
    replies.append(requests_pb2.FindFramesReply(frames=frames))
    reply = store.find(ENVIRONMENT, (1).to_bytes(32, "big"), ())
    assert [int.from_bytes(key, "big") for key in reply.frames] == [0, 1, 2, 3]
    assert sorted(_fetched(store, 1)) == [0, 1]


def test_the_latest_512_are_kept(replies: list[requests_pb2.FindFramesReply]) -> None:
    store = FrameStore()
    for first in (0, 300):
        frames = [_stored(number, 1, 10) for number in range(first, first + 300)]
        replies.append(requests_pb2.FindFramesReply(frames=frames))
        store.find(ENVIRONMENT, (1).to_bytes(32, "big"), ())
    kept = _fetched(store, 1)
    assert len(kept) == 512
    assert set(range(300, 600)) <= set(kept)


def test_one_that_is_too_large_pushes_out_none(
    replies: list[requests_pb2.FindFramesReply],
) -> None:
    store = FrameStore()
    for stored in (_stored(1, 1, 1000), _stored(2, 1, 33 * MIB)):
        replies.append(requests_pb2.FindFramesReply(frames=[stored]))
        assert store.find(ENVIRONMENT, (1).to_bytes(32, "big"), ()).frames
    assert _fetched(store, 1) == [1]


def test_what_serves_keeps_no_more_of_its_reply(
    replies: list[requests_pb2.FindFramesReply],
) -> None:
    store, served, before = FrameStore(), [], 0
    for number in range(30):
        reply = requests_pb2.FindFramesReply(frames=[_stored(number, 1, 1000)])
        reply.following.append(_stored(1000, 2, 6 * MIB))
        replies.append(reply)
        del reply
        served.append(store.find(ENVIRONMENT, (1).to_bytes(32, "big"), ()))
        if number == 9:
            before = process_facts.resident_bytes(os.getpid())
    assert process_facts.resident_bytes(os.getpid()) - before < 30 * MIB  # 120 MiB came
    assert len(served) == 30
