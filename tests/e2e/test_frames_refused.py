# SPDX-License-Identifier: Apache-2.0
"""What the daemon refuses to keep as a frame, and to be asked."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import tensord
from frame_messages import FORMAT, digest, environment, find, frame, put
from real_daemon import RealDaemon
from tensord.errors import DaemonOverloadedError, GraphRejectedError
from tensord.v1 import frame_pb2, requests_pb2
from tensord.wire import rpc


def _spoil(what: str) -> frame_pb2.Frame:
    bad = frame(guards=4)
    if what == "format":
        bad.environment.format = 77
    elif what == "digest":
        bad.code.digest = b"short"
    elif what == "base":
        bad.sources[2].base = 3
    elif what == "guard":
        bad.guards[2].source = 77
    elif what == "check":
        bad.guards[1].ClearField("equals")
    elif what == "input":
        bad.graphs[0].forward.inputs[1] = 3
    elif what == "relation":
        bad.guards[-1].relation.sources[0] = 6
    elif what == "result":
        bad.result.ClearField("code")
    elif what == "unknown":
        bad.MergeFromString(b"\xa2\x06\x03new")
    return bad


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("format", f"environment.format: 77; this daemon keeps frames of format {FORMAT}"),
        ("digest", "code.digest: a digest has 32 bytes, this has 5"),
        ("base", "sources[2].base: 3 is past the 2 sources before this one"),
        ("guard", "guards[2].source: 77 is past the 5 sources"),
        ("check", "guards[1].check: it is missing"),
        ("input", "graphs[0].forward.inputs[1]: 3 is past the 3 arguments"),
        ("relation", "guards[3].relation.sources[0]: 6 is past the 5 sources"),
        ("result", "result.code: it is missing, and there are graphs or globals for it"),
        ("unknown", "the frame has fields that its format has not"),
    ],
)
def test_malformed_frames_are_refused(tensord_daemon: RealDaemon, what: str, message: str) -> None:
    with pytest.raises(GraphRejectedError) as refused:
        put(_spoil(what))
    assert message in str(refused.value)


def test_refused_frame_ends_its_capture(start: Callable[..., RealDaemon]) -> None:
    start()
    held = find(captures=True).capture
    with pytest.raises(GraphRejectedError):
        put(_spoil("guard"), capture=held)
    assert find(captures=True).capture not in (0, held)
    assert tensord.daemon_stats()["frames_refused"] == 1


def test_large_frames_are_refused(start: Callable[..., RealDaemon]) -> None:
    start("--frame-limit=1MB")
    put(frame(padding=1_000_000))
    with pytest.raises(DaemonOverloadedError, match="frame_limit"):
        put(frame(padding=1 << 20))
    assert tensord.daemon_stats()["frames_stored"] == 1


def test_default_limit_ends_the_capture(start: Callable[..., RealDaemon]) -> None:
    """What is too large is received all the same, so that its capture is known."""
    start()
    held = find(captures=True).capture
    with pytest.raises(DaemonOverloadedError, match="frame_limit"):
        put(frame(padding=63 << 20), capture=held)
    assert find(captures=True).capture not in (0, held)


def test_requests_are_checked(tensord_daemon: RealDaemon) -> None:
    request = requests_pb2.FindFramesRequest(environment=environment(), code=b"short")
    with pytest.raises(GraphRejectedError, match="code: a digest has 32 bytes"):
        rpc.client().call("FindFrames", request)
    with pytest.raises(GraphRejectedError, match=r"known\[0\]: a digest has 32 bytes"):
        find(known=(b"short",))
    bare = requests_pb2.FindFramesRequest(code=digest("forward"))
    with pytest.raises(GraphRejectedError, match=r"environment\.format"):
        rpc.client().call("FindFrames", bare)


def test_mutated_frames_harm_nobody(start: Callable[..., RealDaemon]) -> None:
    """What is not refused has the form of a frame, and comes back as it was put."""
    daemon = start()
    whole = frame(guards=6).SerializeToString()
    chance = random.Random(0)
    accepted = 0
    for _ in range(400):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 4)):
            at = chance.randrange(len(data))
            kind = chance.randrange(3)
            if kind == 0:
                data[at] = chance.randrange(256)
            elif kind == 1:
                del data[at : at + chance.randint(1, 8)]
            else:
                data[at:at] = chance.randbytes(chance.randint(1, 8))
        field = b"\x0a" + _varint(len(data)) + bytes(data)
        try:
            reply = rpc._wait(rpc._start("PutFrame", field, 60.0), "PutFrame")
        except GraphRejectedError:
            continue
        accepted += 1
        stored = rpc.client().call("GetFrame", requests_pb2.GetFrameRequest(key_prefix=reply.key))
        assert stored.frame == frame_pb2.Frame.FromString(bytes(data))
    assert accepted < 200
    assert daemon.process.poll() is None
    assert put(frame())


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])
