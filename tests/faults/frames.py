#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--count` mutated frames are put into a daemon; it refuses what is malformed and harms nobody.

Mutated in turn, as mutations.py says. What is refused is refused by a message of the daemon's. What
is not comes back as it was put, and every number in it leads somewhere, as a check in Python of its
own finds. Sound frames are found throughout.
"""

from __future__ import annotations

import argparse
import os
import random
from collections import Counter

import campaign
from frame_messages import find, frame, put
from google.protobuf.message import DecodeError
from mutations import MUTATIONS
from real_daemon import RealDaemon
from tensord.errors import DaemonOverloadedError, GraphRejectedError, TensordError
from tensord.v1 import frame_pb2, requests_pb2, service_pb2
from tensord.wire import rpc

SOUND = 8
LOOK_EVERY = 500
MOST_GROWTH_MIB = 64


def _leads_nowhere(taken: frame_pb2.Frame) -> str:
    """The first number of a frame that refers to nothing; empty: none does."""
    sources = len(taken.sources)
    for number, source in enumerate(taken.sources):
        if source.base > number:
            return f"base of source {number}"
    for number, guard in enumerate(taken.guards):
        referred = [guard.source, guard.same_as, *guard.distinct.sources, *guard.relation.sources]
        if max(referred) > sources or guard.WhichOneof("check") is None:
            return f"guard {number}"
    for call in taken.graphs:
        for program in (call.inference, call.forward, call.backward):
            if any(given >= program.arguments for given in program.inputs):
                return f"input of {call.name}"
        if any(tangent >= call.results for tangent in call.tangents):
            return f"tangent of {call.name}"
    digests = [taken.code.digest, *(inlined.code.digest for inlined in taken.inlined)]
    return "digest" if any(len(one) != 32 for one in digests) else ""


def _put(data: bytes) -> bytes:
    """The key. A message with the frame as its first field, for what is no frame."""
    size, length = len(data), b""
    while size > 127:
        length, size = length + bytes([size & 127 | 128]), size >> 7
    request = b"\x0a" + length + bytes([size]) + data
    key: bytes = rpc._wait(rpc._start("PutFrame", request, 60.0), "PutFrame").key
    return key


def _look(key: bytes, data: bytes) -> str:
    """What is wrong with an accepted frame; empty: nothing."""
    try:
        put_frame = frame_pb2.Frame.FromString(data)
    except DecodeError as error:
        return f"it is none: {error}"
    request = requests_pb2.GetFrameRequest(key_prefix=key)
    stored = rpc.client().call("GetFrame", request).frame
    # As bytes, for what is not a number equals nothing.
    if stored.SerializeToString() != put_frame.SerializeToString():
        return "it comes back as another"
    return _leads_nowhere(stored)


def _resident_mib() -> float:
    stats = rpc.client().call("GetStats", service_pb2.GetStatsRequest())
    return float(stats.resident_bytes) / 2**20


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """All into one daemon, which has sound frames."""
    draw = random.Random(arguments.seed)
    answers: Counter[str] = Counter()
    harm: list[str] = []
    daemon = RealDaemon()
    os.environ.update(TENSORD_ADDRESS=daemon.address, TENSORD_AUTOSTART="0")
    try:
        sound = {put(frame("sound", str(number))) for number in range(SOUND)}
        before = _resident_mib()
        for turn in range(arguments.count):
            mutate = MUTATIONS[turn % len(MUTATIONS)]
            whole = frame(f"code {turn}", guards=draw.randint(3, 12)).SerializeToString()
            other = frame("other", guards=draw.randint(3, 9)).SerializeToString()
            data = mutate(whole, other, draw)
            name = mutate.__name__.strip("_")
            try:
                key = _put(data)
            except (GraphRejectedError, DaemonOverloadedError):
                answers[f"{name}, refused"] += 1
            except TensordError as error:
                harm.append(f"{name}: {error}")
            else:
                answers[f"{name}, whole all the same"] += 1
                if wrong := _look(key, data):
                    harm.append(f"{name}: {wrong}")
            if turn % LOOK_EVERY == 0 and {one.key for one in find("sound").frames} != sound:
                harm.append(f"turn {turn}: sound frames are not found")
        table.must(
            "daemon grew by, MiB", grew := _resident_mib() - before, grew < MOST_GROWTH_MIB,
            f"less than {MOST_GROWTH_MIB}",
        )  # fmt: skip
        table.must("daemon", "lives", daemon.process.poll() is None, "alive")
    finally:
        daemon.close()
    for name, count in sorted(answers.items()):
        table.add(name, count)
    table.none("harm", harm)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=10_000)
