# SPDX-License-Identifier: Apache-2.0
"""`tensorctl trace`: what requests waited for, in the job, the daemon and its workers, on one
clock."""

from __future__ import annotations

import json
import os
import subprocess
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tensord
import torch
import warm_python
from compare import check
from frame_processes import output, python
from real_daemon import RealDaemon, binary
from tensord.errors import DaemonOverloadedError, GraphRejectedError
from tensord.v1 import requests_pb2
from tensord.wire import caller, rpc, spans

# A nanosecond is a thousandth; times are floating-point numbers of microseconds.
EXACT_US = 0.002

TRAINS = """
import sys, torch, tensord
net = torch.nn.Sequential(torch.nn.Linear(6, 64), torch.nn.Tanh(), torch.nn.Linear(64, 6))
step = tensord.compile(net) if sys.argv[1:] == ["frames"] else torch.compile(net, backend="tensord")
for _ in range(2):
    step(torch.ones(8, 6)).sum().backward()
assert tensord.stats()["fallbacks"] == 0
"""


@pytest.fixture(autouse=True)
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tests' programs are told to no daemon of these."""
    monkeypatch.setattr(spans, "_teller", spans._Teller())


@dataclass(frozen=True)
class Event:
    """A span of a trace, in microseconds."""

    name: str
    process: str
    track: str
    begin: float
    end: float
    args: dict[str, Any]

    def holds(self, other: Event) -> bool:
        return self.begin <= other.begin + EXACT_US and other.end <= self.end + EXACT_US


def tensorctl(daemon: RealDaemon, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [binary("tensorctl"), "--address", daemon.address, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


def keys(daemon: RealDaemon) -> list[str]:
    """Of stored programs, the last used first."""
    return [line.split()[0] for line in tensorctl(daemon, "ls").stdout.splitlines()[1:]]


def events(text: str) -> list[Event]:
    """The spans of a trace, which is one that viewers read: names of processes and tracks, and
    spans of a track that do not overlap."""
    trace = json.loads(text)
    names: dict[Any, str] = {}
    for event in trace["traceEvents"]:
        assert event["ph"] in "XM"
        assert isinstance(event["pid"], int) and isinstance(event["tid"], int)
        if event["name"] == "process_name":
            names[event["pid"]] = event["args"]["name"]
        if event["name"] == "thread_name":
            names[event["pid"], event["tid"]] = event["args"]["name"]
    found = [
        Event(
            event["name"], names[event["pid"]], names[event["pid"], event["tid"]],
            event["ts"], event["ts"] + event["dur"], event["args"],
        )
        for event in trace["traceEvents"] if event["ph"] == "X"
    ]  # fmt: skip
    assert found and min(event.begin for event in found) == 0
    assert_nested(found)
    return found


def assert_nested(found: list[Event]) -> None:
    tracks: dict[tuple[str, str], list[Event]] = defaultdict(list)
    for event in found:
        assert event.end >= event.begin
        tracks[event.process, event.track].append(event)
    for track in tracks.values():
        track.sort(key=lambda event: (event.begin, -event.end))
        around: list[Event] = []
        for event in track:
            while around and around[-1].end <= event.begin + EXACT_US:
                around.pop()
            assert not around or around[-1].holds(event), (around[-1], event)
            around.append(event)


def trace(daemon: RealDaemon, *arguments: str) -> list[Event]:
    done = tensorctl(daemon, "trace", *arguments)
    assert done.returncode == 0, done.stderr
    return events(done.stdout)


def one(found: list[Event], name: str) -> Event:
    matching = [event for event in found if event.name == name]
    assert len(matching) == 1, (name, [event.name for event in found])
    return matching[0]


def run(width: int, calls: int = 2) -> None:
    """Compiles a function that nothing else has, and calls it."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * width).sum(-1) + torch.exp(x).amax(-1)

    torch._dynamo.reset()
    compiled = torch.compile(function, backend="tensord")
    x = torch.randn(13, width)
    for _ in range(calls):
        check("result", compiled(x), function(x))


# -- one request ----------------------------------------------------------------------------------


def test_a_compile_from_the_capture_to_the_first_call(here: RealDaemon) -> None:
    before = time.monotonic()
    run(17)
    wall_us = (time.monotonic() - before) * 1e6
    found = trace(here, keys(here)[0])
    assert {event.process for event in found if "tensord" not in event.process} == {
        f"job ({caller.caller().host}, pid {os.getpid()})"
    }
    assert len({e.process for e in found if e.process.startswith("tensord-worker")}) >= 1
    for event in found:
        assert event.args["program"].startswith(keys(here)[0])
    # In the job.
    capture, asked = one(found, "capture"), one(found, "request")
    for name in ("dynamo", "greeting", "passes: captured", "autograd", "export: inference",
                 "send: inference"):  # fmt: skip
        assert capture.holds(one(found, name)), name
    assert one(found, "autograd").holds(one(found, "send: inference"))
    assert one(found, "send: inference").begin <= asked.begin < capture.end
    first = one(found, "first call")
    parts = [one(found, name) for name in ("wait", "load", "run")]
    assert all(first.holds(part) for part in parts)
    assert [part.begin for part in parts] == sorted(part.begin for part in parts)
    assert sum(part.end - part.begin for part in parts) <= first.end - first.begin
    assert asked.end <= parts[1].begin
    # In the daemon, while the job asked.
    request = one(found, "request: compiled")
    assert asked.holds(request)
    for name in ("parse", "key", "look-up in the store: not found", "queue", "flight"):
        assert all(request.holds(event) for event in found if event.name == name)
        assert any(event.name == name for event in found), name
    compile = one(found, "compile")
    assert one(found, "flight").holds(compile)
    for name in ("sources", "kernels", "publish"):
        assert compile.holds(one(found, name))
    assert one(found, "kernels").holds(one(found, "jit"))
    # In workers, while the daemon waited for them.
    passes = [one(found, name) for name in ("import", "rewrite", "lower", "schedule", "plan")]
    assert all(one(found, "sources").holds(event) for event in passes)
    assert [event.begin for event in passes] == sorted(event.begin for event in passes)
    assert any(event.name.startswith("rewrite/") for event in found)
    kernels = [event for event in found if event.name.startswith("jit/kernel: ")]
    assert kernels and all(one(found, "jit").holds(event) for event in kernels)
    assert all(event.process.startswith("tensord-worker") for event in (*passes, *kernels))
    # All of it is within what this process took.
    assert max(event.end for event in found) <= wall_us


def test_a_hit_has_a_hits_spans(here: RealDaemon) -> None:
    run(19)
    tensord.reset_stats()
    run(19)
    assert tensord.stats()["hits"] == 1
    last = trace(here, "--last")
    names = {event.name for event in last}
    assert {"capture", "request: hit", "look-up in the store: found", "load", "run"} <= names
    assert not names & {"flight", "compile", "jit", "import"}
    assert not [event for event in last if event.process.startswith("tensord-worker")]
    # With the one before it; what both have is there once.
    both = trace(here, keys(here)[0])
    assert {"request: compiled", "request: hit"} <= {event.name for event in both}
    assert len([event for event in both if event.name == "first call"]) == 2
    one(both, "import")


def test_forward_and_backward_have_one_capture(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TENSORD_JOB", "both")
    net = torch.nn.Linear(6, 5)
    compiled = torch.compile(lambda x: torch.tanh(net(x)) * 3, backend="tensord")
    for _ in range(2):
        compiled(torch.ones(7, 6)).sum().backward()
    found = trace(here, "--job", "both")
    one(found, "capture")
    one(found, "export: forward"), one(found, "export: backward")
    assert len([event for event in found if event.name == "request: compiled"]) == 2
    assert len([event for event in found if event.name == "first call"]) == 2


def test_a_file_for_perfetto(here: RealDaemon, tmp_path: Path) -> None:
    run(23)
    file = tmp_path / "trace.json"
    done = tensorctl(here, "trace", keys(here)[0], "-o", str(file))
    assert done.returncode == 0 and "1 requests" in done.stdout and "perfetto" in done.stdout
    assert events(file.read_text())
    refused = tensorctl(here, "trace", "--last", "-o", str(tmp_path / "none" / "trace.json"))
    assert refused.returncode == 1 and "cannot be written" in refused.stderr
    said = json.loads(tensorctl(here, "--json", "trace", "--last").stdout)
    assert said["requests"][0]["outcome"] == "compiled"


def test_what_is_not_known_is_an_error(here: RealDaemon) -> None:
    unknown = tensorctl(here, "trace", "0" * 16)
    assert unknown.returncode == 1 and unknown.stderr.startswith("tensorctl: ")
    assert "no program" in unknown.stderr
    nobodys = tensorctl(here, "trace", "--job", "nobody's")
    assert nobodys.returncode == 1 and "nobody has asked" in nobodys.stderr
    for usage in ([], ["xyz"], ["--job", "a", "0" * 16], ["--last", "-n", "2"]):
        assert tensorctl(here, "trace", *usage).returncode == 2, usage


# -- several processes ----------------------------------------------------------------------------


def test_two_ranks_that_start_at_once(module_daemon: RealDaemon) -> None:
    ranks = [
        python(
            module_daemon, "-c", TRAINS, imported=warm_python.CAPTURE, TENSORD_FRAMES="0",
            TENSORD_JOB="pair", RANK=str(rank),
        )
        for rank in range(2)
    ]  # fmt: skip
    for rank in ranks:
        output(rank)
    found = trace(module_daemon, "--job", "pair")
    jobs = {event.process for event in found if event.process.startswith("job pair")}
    assert {name.split(" (")[0] for name in jobs} == {"job pair, rank 0", "job pair, rank 1"}
    assert len([event for event in found if event.name.startswith("request: ")]) == 4
    for name in jobs:
        own = [event for event in found if event.process == name]
        assert len([event for event in own if event.name == "capture"]) == 1
        assert len([event for event in own if event.name == "first call"]) == 2
    # Each program was compiled once, whoever waited for it.
    assert len([event for event in found if event.name == "import"]) == 2


def test_who_is_served_says_so_when_it_ends(module_daemon: RealDaemon, native_guards: None) -> None:
    for job in ("captures", "served"):
        imported = warm_python.CAPTURE if job == "captures" else ("torch",)
        output(
            python(
                module_daemon, "-c", TRAINS, "frames", imported=imported, TENSORD_JOB=job,
                TENSORD_FRAMES="1",
            )
        )  # fmt: skip
    found = trace(module_daemon, "--job", "served")
    names = [event.name for event in found]
    assert names.count("request: hit") == names.count("load") == 2
    assert "capture" not in names


def test_the_next_daemon_has_the_compile(clean: Path, start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    run(29)
    key = keys(daemon)[0]
    daemon.stop()
    daemon.start()
    rpc.client().forget()
    found = trace(daemon, key)
    names = {event.name for event in found}
    assert {"sources", "import", "jit"} <= names
    assert not names & {"capture", "request", "publish"}
    nothing = tensorctl(daemon, "trace", "--last")
    assert nothing.returncode == 1 and "nobody has asked" in nothing.stderr


# -- what jobs say --------------------------------------------------------------------------------


def said_by(asker: int, reply: requests_pb2.CompileReply, **change: Any) -> Any:
    """One span for a request; change: of it."""
    this = caller.caller()
    this.pid = asker
    request = requests_pb2.PutSpansRequest(caller=this)
    program = request.programs.add(request_id=reply.request_id, program_key=reply.program_key)
    told = {"name": "load", "track": "t", "process": "JOB", "pid": asker, "nanoseconds": 5}
    program.spans.add(start_nanoseconds=time.monotonic_ns() - 1000, **told | change)
    return request


def test_what_is_forged_or_too_much_is_refused(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    replies: list[requests_pb2.CompileReply] = []
    wait = rpc.CompileCall.wait

    def noted(call: rpc.CompileCall) -> requests_pb2.CompileReply:
        replies.append(wait(call))
        return replies[-1]

    monkeypatch.setattr(rpc.CompileCall, "wait", noted)
    monkeypatch.setattr(spans, "_put", lambda programs: None)
    run(31)
    reply, own = replies[-1], os.getpid()
    before = tensorctl(here, "trace", "--last").stdout

    def refused(request: Any, why: str, error: Any = GraphRejectedError) -> None:
        with pytest.raises(error, match=why):
            rpc.client().call("PutSpans", request)

    refused(said_by(own + 1, reply), "another process's")
    refused(said_by(own, reply, pid=own + 1), "another process's")
    refused(said_by(own, reply, process="DAEMON"), "another process's")
    refused(said_by(own, reply, nanoseconds=1 << 62), "has not ended")
    refused(said_by(own, reply, name="x" * 100), "long")
    many = said_by(own, reply)
    many.programs[0].spans.extend([many.programs[0].spans[0]] * 200)
    refused(many, "at most 128")
    refused(said_by(own, reply, detail="x" * (1 << 20)), "at most 262144", DaemonOverloadedError)
    assert tensorctl(here, "trace", "--last").stdout == before
    assert rpc.client().call("PutSpans", said_by(own, reply)).kept == 1
    assert "load" in {event.name for event in trace(here, "--last")}
    # No text breaks the JSON, and what is not kept is no error.
    assert rpc.client().call("PutSpans", said_by(own, reply, name='"\n')).kept == 0
    other = requests_pb2.CompileReply(request_id=1 << 40, program_key=reply.program_key)
    assert rpc.client().call("PutSpans", said_by(own, other)).kept == 0


def test_a_client_that_says_nothing_is_no_less_served(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an earlier version does."""
    monkeypatch.setattr(spans, "_put", lambda programs: None)
    run(37)
    found = trace(here, "--last")
    assert {"request: compiled", "sources", "import"} <= {event.name for event in found}
    assert not [event for event in found if event.process.startswith("job")]


def test_an_earlier_daemon_is_told_nothing(daemon: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fake one does not know PutSpans."""
    asked: list[str] = []
    call = rpc.Client.call

    def noted(client: rpc.Client, method: str, *more: Any) -> Any:
        asked.append(method)
        return call(client, method, *more)

    monkeypatch.setattr(rpc.Client, "call", noted)
    x = torch.randn(5)
    compiled = torch.compile(lambda x: x * 2, backend="tensord")
    for _ in range(3):
        check("result", compiled(x), x * 2)
    assert asked == [] and not spans.are_waiting()
    # Not even one that claims to harms anybody, and it is not asked again at once.
    daemon.takes_spans = True
    rpc.client().forget()
    for factor in (3, 4):
        torch._dynamo.reset()
        compiled = torch.compile(lambda x, factor=factor: x * factor, backend="tensord")
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                check("result", compiled(x), x * factor)
    assert asked == ["PutSpans"]
    assert tensord.stats()["fallbacks"] == 0


def test_calls_after_the_second_know_nothing_of_it(
    here: RealDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled = torch.compile(lambda x: torch.tanh(x) * 41, backend="tensord")
    x = torch.ones(9)
    for _ in range(2):
        compiled(x)
    for name in ("now", "tell", "are_waiting"):
        monkeypatch.setattr(spans, name, lambda: 1 / 0)
    for _ in range(3):
        check("result", compiled(x), torch.tanh(x) * 41)


def test_a_child_says_nothing_of_its_parents_program(here: RealDaemon) -> None:
    compiled = torch.compile(lambda x: torch.tanh(x) * 43, backend="tensord")
    x = torch.ones(9)
    call = spans.Asked()
    call.answered(requests_pb2.CompileReply(request_id=1, program_key=b"k" * 32))
    compiled(x)
    child = os.fork()
    if child == 0:
        call.done(spans.now())
        os._exit(int(spans.are_waiting()))
    assert os.waitpid(child, 0)[1] == 0
