# SPDX-License-Identifier: Apache-2.0
"""Frames in the daemon: put, found, kept, and captured by one process for all."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensord
from frame_messages import FORMAT, digest, end, environment, find, frame, put
from real_daemon import RealDaemon, binary
from tensord.errors import DaemonUnavailableError
from tensord.v1 import requests_pb2
from tensord.wire import rpc

FORK = multiprocessing.get_context("fork")
WAIT_S = 30.0


def _keys(frames: Any) -> list[bytes]:
    return [one.key for one in frames]


def _in_processes(count: int, body: Callable[[int], Any]) -> list[Any]:
    """What the body gave in so many processes that begin at once."""
    barrier = FORK.Barrier(count)
    results = FORK.Queue()

    def run(number: int) -> None:
        barrier.wait(WAIT_S)
        results.put(body(number))

    started = [FORK.Process(target=run, args=(number,)) for number in range(count)]
    for process in started:
        process.start()
    gathered = [results.get(timeout=2 * WAIT_S) for _ in started]
    for process in started:
        process.join(WAIT_S)
        assert process.exitcode == 0
    return gathered


def _tensorctl(daemon: RealDaemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(binary("tensorctl")), "--address", daemon.address, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _on_store(daemon: RealDaemon, command: str) -> tuple[int, dict[str, int]]:
    done = _tensorctl(daemon, command, "--store", str(daemon.store), "--json")
    return done.returncode, json.loads(done.stdout)


def _records(daemon: RealDaemon) -> list[Path]:
    return sorted(path for path in (daemon.store / "frames").rglob("*") if path.is_file())


# -- put and found --------------------------------------------------------------------------------


def test_frames_are_found_as_they_were_put(start: Callable[..., RealDaemon]) -> None:
    start()
    assert rpc.client().hello().frame_format == FORMAT
    assert not find().frames
    sent = frame()
    key = put(sent)
    assert key == hashlib.sha256(sent.SerializeToString(deterministic=True)).digest()
    (found,) = find().frames
    assert found.key == key
    assert found.frame == sent
    assert found.hits == 0
    assert not find(known=(key,)).frames
    assert not find(code="another").frames
    other = requests_pb2.FindFramesRequest(
        environment=environment("2.12.0"), code=digest("forward")
    )
    assert not rpc.client().call("FindFrames", other).frames


def test_another_process_finds_them_and_the_next_daemon(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    keys = [put(frame(variant=str(number))) for number in range(3)]
    (found,) = _in_processes(1, lambda _: _keys(find().frames))
    assert sorted(found) == sorted(keys)
    daemon.kill()
    daemon.start()
    rpc.client().forget()
    assert sorted(_keys(find().frames)) == sorted(keys)


def test_same_frame_of_several_processes_is_one_record(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    keys = _in_processes(8, lambda _: put(frame()))
    assert len(set(keys)) == 1
    assert len(_records(daemon)) == 1
    assert tensord.daemon_stats()["frames_stored"] == 1
    assert tensord.daemon_stats()["frames_put"] == 8


def test_used_last_comes_first(start: Callable[..., RealDaemon]) -> None:
    start()
    keys = [put(frame(variant=str(number))) for number in range(3)]
    time.sleep(0.01)
    request = requests_pb2.UseFramesRequest(keys=[keys[1], keys[1], digest("not stored")])
    rpc.client().call("UseFrames", request)
    first = find().frames[0]
    assert (first.key, first.hits) == (keys[1], 2)
    assert tensord.daemon_stats()["frame_hits"] == 2
    stored = rpc.client().call("GetFrame", requests_pb2.GetFrameRequest(key_prefix=keys[1][:4]))
    assert (stored.frame, stored.hits) == (frame(variant="1"), 2)


def test_one_code_has_64_frames(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    keys = [put(frame(variant=str(number))) for number in range(66)]
    assert sorted(_keys(find().frames)) == sorted(keys[2:])
    assert len(_records(daemon)) == 64
    assert tensord.daemon_stats()["frames_evicted"] == 2


# -- following ------------------------------------------------------------------------------------


def test_one_call_finds_a_whole_model(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    first = put(frame("model"))
    layers = [put(frame("layer", str(number)), behind="model") for number in range(2)]
    head = put(frame("head"), behind="layer")
    put(frame("head"), behind="model.other")  # the same frame from elsewhere
    put(frame("layer", "9"), behind="layer")  # a code that is entered behind itself
    stray = put(frame("stray"), behind="elsewhere")

    def check() -> None:
        reply = find("model")
        assert _keys(reply.frames) == [first]
        following = _keys(reply.following)
        assert set(layers) | {head} <= set(following) and stray not in following
        assert following[-1] == head and len(following) == 4
        assert _keys(find("model.other").following) == [head]
        assert head not in _keys(find("model", known=()).frames)
        assert head not in _keys(find("layer", known=(head,)).following)
        assert not find("model", known=(first,)).following

    check()
    daemon.kill()
    daemon.start()
    rpc.client().forget()
    check()
    daemon.stop()
    (daemon.store / "index.sqlite").unlink()
    assert _on_store(daemon, "rebuild-index")[1]["frames"] == 6
    daemon.start()
    rpc.client().forget()
    check()


def test_following_is_bounded(start: Callable[..., RealDaemon]) -> None:
    start()
    put(frame("model"))
    for number in range(5):
        put(frame(f"layer{number}", padding=2 << 20), behind="model")
    following = find("model").following
    assert len(following) == 3  # of 8 MiB
    for number in range(300):
        put(frame(f"small{number}"), behind="small")
    assert len(find("small").following) == 256


# -- captures -------------------------------------------------------------------------------------


def test_eight_processes_have_one_capture(start: Callable[..., RealDaemon]) -> None:
    start()

    def ask(number: int) -> tuple[bool, int]:
        reply = find(captures=True, wait_s=WAIT_S, pid=os.getpid())
        if reply.capture:
            time.sleep(0.5)  # so long it captures
            put(frame(), capture=reply.capture)
        return bool(reply.capture), len(reply.frames)

    begun = time.monotonic()
    results = _in_processes(8, ask)
    assert sorted(results) == [(False, 1)] * 7 + [(True, 0)]
    assert time.monotonic() - begun < WAIT_S / 2
    stats = tensord.daemon_stats()
    assert (stats["captures"], stats["captures_waited"]) == (1, 7)
    assert stats["captures_lapsed"] == 0


def _background(*arguments: Any, **named: Any) -> tuple[threading.Thread, list[Any]]:
    """A request that may wait, as of another process."""
    replies: list[Any] = []
    thread = threading.Thread(target=lambda: replies.append(find(*arguments, **named)))
    thread.start()
    return thread, replies


def _await_waiting(count: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while tensord.daemon_stats()["captures_waited"] < count:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_capture_without_a_frame_goes_to_the_next(start: Callable[..., RealDaemon]) -> None:
    start()
    held = find(captures=True).capture
    assert held
    waiting = [_background(captures=True, wait_s=WAIT_S) for _ in range(2)]
    _await_waiting(2)
    end(held, "the code has a generator")
    deadline = time.monotonic() + WAIT_S
    while not any(replies for _, replies in waiting):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    ((granted,),) = [replies for _, replies in waiting if replies]
    assert granted.capture not in (0, held) and not granted.frames
    end(held)  # has ended already, and is nobody's
    time.sleep(0.2)
    assert sum(len(replies) for _, replies in waiting) == 1
    key = put(frame(), capture=granted.capture)
    for thread, _ in waiting:
        thread.join(WAIT_S)
    assert sorted(_keys(reply.frames) for _, (reply,) in waiting) == [[], [key]]
    unrecorded = tensord.daemon_stats()["frames_unrecorded"]
    assert unrecorded == {"the code has a generator": 1, "a test says so": 1}


def test_dying_holder_hands_its_capture_on(start: Callable[..., RealDaemon]) -> None:
    start()
    granted = FORK.Event()

    def hold() -> None:
        assert find(captures=True, pid=os.getpid()).capture
        granted.set()
        time.sleep(10 * WAIT_S)

    holder = FORK.Process(target=hold)
    holder.start()
    assert granted.wait(WAIT_S)
    thread, replies = _background(captures=True, wait_s=WAIT_S, pid=os.getpid())
    _await_waiting(1)
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)  # and nobody reaps it for a while
    killed = time.monotonic()
    thread.join(WAIT_S)
    assert time.monotonic() - killed < 5.0
    assert replies[0].capture and not replies[0].frames
    assert tensord.daemon_stats()["captures_lapsed"] == 1
    holder.join(WAIT_S)


def test_capture_ends_after_a_while(start: Callable[..., RealDaemon]) -> None:
    start("--frame-lease-seconds=1")
    held = find(captures=True, pid=1).capture
    begun = time.monotonic()
    reply = find(captures=True, wait_s=WAIT_S, pid=os.getpid())
    assert 0.5 < time.monotonic() - begun < 5.0
    assert reply.capture not in (0, held)


def test_waiting_ends_when_it_was_to(start: Callable[..., RealDaemon]) -> None:
    start()
    held = find(captures=True).capture
    begun = time.monotonic()
    reply = find(captures=True, wait_s=0.3)
    assert 0.25 < time.monotonic() - begun < 5.0
    assert not reply.capture and not reply.frames
    # Who does not wait is told at once; so is a thread of the process that captures.
    begun = time.monotonic()
    assert not find(captures=True).capture
    assert not find(captures=False, wait_s=WAIT_S).capture
    end(held)
    own = find(captures=True, pid=os.getpid()).capture
    assert own and not find(captures=True, wait_s=WAIT_S, pid=os.getpid()).capture
    assert time.monotonic() - begun < 5.0


def test_who_knows_the_new_frame_captures(start: Callable[..., RealDaemon]) -> None:
    """Guards of the one frame do not hold: it is not given again, and nobody waits for it."""
    start()
    key = put(frame())
    assert _keys(find(captures=True, wait_s=WAIT_S).frames) == [key]
    held = find(known=(key,), captures=True, wait_s=WAIT_S).capture
    assert held
    thread, replies = _background(known=(key,), captures=True, wait_s=WAIT_S)
    _await_waiting(1)
    assert put(frame(), capture=held) == key  # nothing new
    thread.join(WAIT_S)
    assert replies[0].capture not in (0, held) and not replies[0].frames


def test_client_that_went_gets_no_capture(start: Callable[..., RealDaemon]) -> None:
    start()
    held = find(captures=True).capture

    def give_up() -> None:
        with pytest.raises(tensord.TensordError):
            find(captures=True, wait_s=WAIT_S, timeout_s=0.3)

    _in_processes(1, lambda _: give_up())
    time.sleep(0.2)
    end(held)
    assert find(captures=True, wait_s=0).capture


def test_stopping_daemon_answers_who_waits(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    assert find(captures=True).capture

    def stop() -> None:
        _await_waiting(1)
        assert daemon.stop() == 0

    stopping = threading.Thread(target=stop)
    stopping.start()
    begun = time.monotonic()
    with pytest.raises(DaemonUnavailableError):
        find(captures=True, wait_s=WAIT_S)
    stopping.join(WAIT_S)
    assert time.monotonic() - begun < 10.0


# -- the store ------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove", "swap", "forge"])
def test_damaged_records_are_never_served(start: Callable[..., RealDaemon], damage: str) -> None:
    daemon = start()
    kept = put(frame("kept"))
    keys = [put(frame(variant=str(number))) for number in range(2)]
    paths = [daemon.store / "frames" / key.hex()[:2] / key.hex() for key in keys]
    data = [path.read_bytes() for path in paths]
    for path in paths:
        path.chmod(0o600)
    if damage == "flip":
        paths[0].write_bytes(data[0][:-20] + bytes([data[0][-20] ^ 1]) + data[0][-19:])
    elif damage == "truncate":
        paths[0].write_bytes(data[0][:-10])
    elif damage == "remove":
        paths[0].unlink()
    elif damage == "swap":
        paths[0].write_bytes(data[1])
    else:
        paths[0].write_bytes(data[0][:40] + os.urandom(32) + data[0][72:])
    assert _keys(find().frames) == [keys[1]]
    assert not paths[0].exists()
    assert (tensord.daemon_stats()["blobs_corrupt"] == 1) == (damage != "remove")
    put(frame(variant="0"))
    assert sorted(_keys(find().frames)) == sorted(keys)
    assert _keys(find("kept").frames) == [kept]


def test_tensorctl_knows_frames(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    keys = [put(frame(variant=str(number))) for number in range(3)]
    assert _on_store(daemon, "verify")[1]["frames"] == 3
    path = daemon.store / "frames" / keys[0].hex()[:2] / keys[0].hex()
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:-1])
    code, found = _on_store(daemon, "verify")
    assert (code, found["frames"], found["damaged"]) == (1, 2, 1)
    assert sorted(_keys(find().frames)) == sorted(keys[1:])
    assert _on_store(daemon, "du")[1]["frames"] > 0
    # A row whose record somebody removed goes, and a record without a row gets one.
    path = daemon.store / "frames" / keys[1].hex()[:2] / keys[1].hex()
    path.unlink()
    assert _on_store(daemon, "gc")[0] == 0
    assert tensord.daemon_stats()["frames_stored"] == 1


def test_tensorctl_shows_frames(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    key = put(frame("BertModel.forward", guards=5))
    rpc.client().call("UseFrames", requests_pb2.UseFramesRequest(keys=[key] * 7))
    end(find(captures=True).capture, "the code has a generator")
    listed = _tensorctl(daemon, "frames").stdout.splitlines()
    assert listed[0].split() == "KEY CODE GUARDS GRAPHS INLINED HITS SIZE AGE USED".split()
    assert listed[1].split()[:7] == [key.hex()[:12], "tests", "BertModel.forward", *"5117"]
    assert listed[-1].split() == ["the", "code", "has", "a", "generator", "1"]
    shown = _tensorctl(daemon, "frame", key.hex()[:8]).stdout
    for text in (
        key.hex(),
        "tests BertModel.forward.helper",
        "x is a float32 tensor of 4 by any",
        "forward   0 operators, inputs 0 2 of 3 arguments",
        "__resume_at_8 = goes on behind a break: tests BertModel.forward.resume",
    ):
        assert text in shown, shown
    assert json.loads(_tensorctl(daemon, "--json", "frame", key.hex()).stdout)["hits"] == "7"
    assert _tensorctl(daemon, "frame", "00000000").returncode == 1
    assert _tensorctl(daemon, "frame", "no key").returncode == 2


def test_frames_count_within_the_limit(start: Callable[..., RealDaemon]) -> None:
    """What was used just now stays; the store does not grow without bounds."""
    daemon = start("--store-limit=4MB")
    for number in range(8):
        put(frame(f"layer{number}", padding=1 << 20))
    on_disk = sum(path.stat().st_blocks * 512 for path in _records(daemon))
    assert on_disk < 5 << 20
    # What the disk did not take is served all the same.
    assert all(find(f"layer{number}").frames for number in range(8))
