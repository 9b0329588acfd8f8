# SPDX-License-Identifier: Apache-2.0
"""How calls are measured: marks on GPUs, runs added up, and what is asked behind the calls. Without
a GPU and a daemon."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensord
import torch
from tensord.bridge import loaded_programs, run_times
from tensord.bridge.run_times import LAUNCH, RunTimes, StepTime
from tensord.errors import CompilerFailedError, DaemonTimeoutError
from tensord.profiles import copy_rate, measure, numbers
from tensord.profiles.collect import HOST, Tally
from tensord.profiles.facts import Asked, ProgramFacts
from tensord.profiles.marks import Marks
from tensord.v1 import profile_pb2, requests_pb2
from tensord.wire import rpc

MILLISECOND = 1_000_000


# -- marks on GPUs --------------------------------------------------------------------------------


class Stream:
    """What is queued on it is done at a millisecond of its device's clock."""

    def __init__(self, device: int) -> None:
        self.device = device
        self.done = 0.0

    def wait_stream(self, other: Stream) -> None:
        assert self.device == other.device
        self.done = max(self.done, other.done)


class Event:
    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self, stream: Stream) -> None:
        self.device, self.at = stream.device, stream.done

    def elapsed_time(self, other: Event) -> float:
        assert self.device == other.device
        return other.at - self.at


class FakeCuda:
    """GPUs of which some are in use."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, count: int, in_use: set[int]) -> None:
        self.in_use = in_use
        self.waited: list[int] = []
        self.current = [Stream(device) for device in range(count)]
        replaced: dict[str, Any] = {
            "is_initialized": lambda: bool(self.in_use),
            "device_count": lambda: count,
            "memory_reserved": lambda device: 1024 * (device in self.in_use),
            "current_stream": lambda device: self.current[device],
            "synchronize": self.waited.append,
            "Event": Event,
            "Stream": Stream,
        }
        for name, value in replaced.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.delattr(torch._C, "_cuda_hasPrimaryContext", raising=False)

    def work(self, device: int, milliseconds: float) -> None:
        self.current[device].done += milliseconds


def test_calls_take_what_the_events_of_their_gpu_say(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, 3, {0, 1})
    marks = Marks()
    assert cuda.waited == [0, 1]  # before the first call, and one without a context has none
    marks.begin()
    for milliseconds in (2.5, 4.5):
        cuda.work(1, milliseconds)  # not the current device
        marks.end()
    assert cuda.waited == [0, 1]
    marks.settle()
    assert cuda.waited == [0, 1, 0, 1]
    assert marks.times(1) == [2_500_000, 4_500_000]
    assert marks.times(0) == [0, 0]
    host = [marks._host[end] - marks._host[begin] for begin, end in marks.calls]
    assert marks.times(HOST) == host


def test_a_gpu_with_a_context_is_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, 4, {0, 1})
    has_context = {1, 3}.__contains__  # as torch says it, which knows it better than its memory
    monkeypatch.setattr(torch._C, "_cuda_hasPrimaryContext", has_context, raising=False)
    Marks()
    assert cuda.waited == [1, 3]


def test_calls_that_end_on_another_stream_have_times(monkeypatch: pytest.MonkeyPatch) -> None:
    cuda = FakeCuda(monkeypatch, 1, {0})
    main, side = cuda.current[0], Stream(0)
    main.done = 10.0
    marks = Marks()
    marks.begin()
    cuda.work(0, 5)
    cuda.current[0] = side  # where nothing was done yet
    side.done = 3.0
    marks.end()
    side.done = 25.0
    cuda.current[0] = main
    marks.end()
    main.done = 26.0
    marks.end()
    assert marks.times(0) == [5 * MILLISECOND, 10 * MILLISECOND, 1 * MILLISECOND]


def test_a_gpu_that_is_used_first_within_a_call_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cuda = FakeCuda(monkeypatch, 1, set())
    marks = Marks()
    marks.begin()
    cuda.in_use.add(0)
    cuda.work(0, 7)
    marks.end()
    assert cuda.waited == [0]  # so the host's clock is behind what the GPU did
    cuda.work(0, 3)
    marks.end()
    assert cuda.waited == [0]
    assert marks.times(0) == [marks.times(HOST)[0], 3 * MILLISECOND]


def test_what_lies_between_calls_is_of_none() -> None:
    marks = Marks()
    marks.begin()
    before = time.monotonic_ns()
    marks.end()
    between = time.monotonic_ns()
    marks.begin()
    after = time.monotonic_ns()
    marks.end()
    assert [marks.call_at(at) for at in (0, before, after)] == [None, 0, 1]
    # The next call began with the end of the last one, but was begun anew.
    assert marks.call_at(between) is None and marks.call_at(time.monotonic_ns()) is None


# -- runs added up --------------------------------------------------------------------------------


def run_on(device: int, program: int, *steps: tuple[int, int, int, int], took: int = 5) -> RunTimes:
    return RunTimes(program, 0, took, device, (7,), [StepTime(*step) for step in steps])


def filled(
    tally: Tally,
    calls: int,
    detail: requests_pb2.ProgramDetail | None = None,
    like: Any = range(-1, 9),
) -> profile_pb2.Profile:
    message = profile_pb2.Profile(calls=[1000] * calls)
    tally.fill(message, range(calls), lambda key: ProgramFacts(key, detail), like)
    return message


def test_steps_of_a_gpu_are_added_up_by_its_own_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    detail = requests_pb2.ProgramDetail()
    detail.summary.label = "forward"
    for function in ("tensord_sum", "tensord_sum_finish"):  # one kernel of two functions
        detail.artifact.steps.add().launch.function = function
    detail.artifact.steps.add().zero_fill.bytes.constant = 64
    detail.artifact.steps.add().free = 3
    detail.artifact.steps.add().call.op = "aten::mm"
    kernel = detail.fusion.steps.add(kernel=0, nodes=[0, 1, 2], plan_steps=[0, 1])
    kernel.work.bytes_read.op.kind = 2  # MUL
    kernel.work.bytes_read.op.args.add(symbol=0), kernel.work.bytes_read.op.args.add(constant=4)
    detail.fusion.steps.add(call="aten::mm", nodes=[2], plan_steps=[4])
    for op, line in (("aten::sum", 1), ("aten::view", 0), ("aten::mul", 1)):
        detail.fusion.nodes.add(op=op, line=line)
    detail.fusion.lines.add(source="a.py:1"), detail.fusion.lines.add(source="a.py:2")
    monkeypatch.setattr(loaded_programs, "_keys", {5: b"k" * 32})
    tally = Tally()
    tally.add(run_on(0, 5, (1, 0, 0, 10), (1, 1, 12, 4), (3, 0, 20, 2), (2, 0, 30, 50)), 0)
    tally.add(run_on(0, 5, (1, 0, 0, 20), (1, 1, 20, 4), (3, 0, 30, 2), (2, 0, 32, 60)), 1)
    tally.add(run_on(0, 5, (1, 0, 0, 1), (1, 1, 1, 1), (3, 0, 2, 1), (2, 0, 3, 1)), 1)
    message = filled(tally, 2, detail)
    assert tally.device == 0 and list(message.gaps) == [14, 6]
    assert [(p.label, p.runs, p.key) for p in message.programs] == [("forward", 3, b"k" * 32)]
    by_name = {row.name: row for row in message.rows}
    assert list(by_name) == ["aten::mm", "tensord_sum", "zero fill"]
    summed = by_name["tensord_sum"]
    assert (list(summed.nanoseconds), summed.runs, summed.step) == ([14, 26], 3, 0)
    assert list(summed.operators) == ["sum", "mul"] and summed.bytes_read == 28
    assert [message.lines[line].source for line in summed.lines] == ["a.py:2"]
    assert list(by_name["aten::mm"].nanoseconds) == [50, 61]
    assert by_name["zero fill"].runs == 3 and not by_name["zero fill"].HasField("step")


def test_rows_are_in_the_order_of_all_their_time() -> None:
    tally = Tally()
    for call in range(5):
        tally.add(run_on(HOST, 1, (LAUNCH, 0, 0, 10)), call)
    tally.add(run_on(HOST, 2, (LAUNCH, 3, 0, 100)), 2)  # in one call: its median is 0
    rows = filled(tally, 5).rows
    assert [(row.name, sum(row.nanoseconds)) for row in rows] == [
        ("kernel 3", 100),
        ("kernel 0", 50),
    ]


def test_programs_of_several_devices_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_programs, "_keys", {5: b"k" * 32, 6: b"h" * 32})
    detail = requests_pb2.ProgramDetail()
    detail.artifact.steps.add().launch.function = "tensord_sum"
    kernel = detail.fusion.steps.add(kernel=0, plan_steps=[0])
    kernel.work.bytes_read.constant = 64
    tally = Tally()
    for device, program, took in ((0, 5, 10), (1, 5, 400), (HOST, 6, 9000)):
        tally.add(run_on(device, program, (LAUNCH, 0, 0, took), took=took), 0)
    assert tally.devices == [HOST, 0, 1]
    assert tally.device == 1  # a GPU's, and of these that with most to do
    message = filled(tally, 1, detail, like=[0, 1])
    labels = [program.label for program in message.programs]
    assert labels == ["program on cuda:0", "program on cuda:1", "program on cpu"]
    # A copy on the GPU is no limit of what the host reads.
    read = {labels[row.program]: row.bytes_read for row in message.rows}
    assert read == {labels[0]: 64, labels[1]: 64, labels[2]: 0}
    message.copy_rate = 10**9
    limits = [numbers.limit(message, row) is not None for row in message.rows]
    assert limits.count(False) == 1
    assert not numbers.overlap(message)
    message.rows[0].nanoseconds[0] = 10 * MILLISECOND
    assert numbers.overlap(message)


def test_programs_that_were_loaded_once_more_stay_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_programs, "_keys", {})
    loaded_programs.note(901, b"k" * 32)
    tally = Tally()
    tally.add(run_on(HOST, 901, (LAUNCH, 0, 0, 10)), 0)
    loaded_programs.renumber(901, 902)
    tally.add(run_on(HOST, 902, (LAUNCH, 0, 0, 20)), 0)
    for unknown in (903, 904, 904):
        tally.add(run_on(HOST, unknown, (LAUNCH, 0, 0, 1)), 0)
    message = filled(tally, 1)
    assert [(p.key, p.runs) for p in message.programs] == [(b"k" * 32, 2), (b"", 1), (b"", 2)]
    assert [sum(row.nanoseconds) for row in message.rows] == [30, 2, 1]


def test_keys_of_programs_are_not_kept_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loaded_programs, "_keys", {})
    monkeypatch.setattr(loaded_programs, "_MOST", 10)
    for number in range(100):
        loaded_programs.note(number, b"k" * 32)
    assert len(loaded_programs._keys) == 10
    assert loaded_programs.key_of(99) and not loaded_programs.key_of(0)


# -- long profiles --------------------------------------------------------------------------------


class Runtime:
    """Has room for 20 steps that nobody has taken."""

    ROOM = 20

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._runs: list[RunTimes] = []
        self._dropped = 0
        self.taken = 0
        for name in ("take", "kept"):
            monkeypatch.setattr(run_times, name, getattr(self, name))
        monkeypatch.setattr(measure, "_MANY_STEPS", 5)
        monkeypatch.setattr(measure, "tell", lambda _message: True)
        monkeypatch.setattr(measure, "copy_rate", lambda _device: 10**10)
        monkeypatch.setattr(loaded_programs, "_keys", {})

    def run(self, steps: int) -> None:
        begun = time.monotonic_ns()
        if self.kept() + steps > self.ROOM:
            self._dropped += 1
            return
        timed = [StepTime(LAUNCH, 0, 0, 10)] * steps
        self._runs.append(RunTimes(77, begun, begun + 10 * steps, HOST, (), timed))

    def kept(self) -> int:
        return sum(len(run.steps) for run in self._runs)

    def take(self) -> tuple[list[RunTimes], int]:
        runs, dropped = self._runs, self._dropped
        self._runs, self._dropped = [], 0
        self.taken += 1
        return runs, dropped


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Iterator[Runtime]:
    yield Runtime(monkeypatch)


def test_a_long_profile_has_all_of_its_calls(runtime: Runtime) -> None:
    message = tensord.profile(runtime.run, 4, steps=30, warmup=3).message
    (row,) = message.rows
    assert list(row.nanoseconds) == [40] * 30 and len(message.calls) == 30
    assert row.runs == 120 and message.programs[0].runs == 30 and not message.dropped_runs
    assert runtime.taken > 10


def test_calls_that_lack_runs_are_left_out(
    runtime: Runtime, caplog: pytest.LogCaptureFixture
) -> None:
    with (
        caplog.at_level(logging.WARNING, "tensord"),
        tensord.profiling() as profile,
    ):
        for call in range(6):
            for _ in range(9 if call == 3 else 1):
                runtime.run(6)
            profile.step()
    message = profile.message
    assert len(message.calls) == 5 and message.dropped_runs == 6
    assert [list(row.nanoseconds) for row in message.rows] == [[60] * 5]
    assert message.programs[0].runs == 5 and message.rows[0].runs == 30
    assert "a profile is without 1 calls that lack times" in caplog.text
    assert "without 6 runs of programs" in str(profile)


def test_where_every_call_lacks_runs_these_are_shown(runtime: Runtime) -> None:
    def call() -> None:
        for _ in range(5):
            runtime.run(6)

    message = tensord.profile(call, steps=2, warmup=0).message
    assert len(message.calls) == 2 and message.dropped_runs == 4
    assert [list(row.nanoseconds) for row in message.rows] == [[180, 180]]


# -- what is asked and measured behind the calls ---------------------------------------------------


@pytest.mark.parametrize(
    ("error", "times"), [(DaemonTimeoutError("late"), 1), (CompilerFailedError("gone"), 3)]
)
def test_a_daemon_that_is_silent_is_asked_once(
    monkeypatch: pytest.MonkeyPatch, error: Exception, times: int
) -> None:
    asked = []

    def fails(self: rpc.Client, method: str, *_told: Any) -> None:
        asked.append(method)
        raise error

    monkeypatch.setattr(rpc.Client, "call", fails)
    of_a_profile = Asked()
    for key in (b"a" * 32, b"", b"b" * 32, b"c" * 32):
        assert of_a_profile.facts_of(key).label == ""
    assert asked == ["GetProgram"] * times


class Memory:
    """Of a GPU, in bytes; torch's cache has `reserved` of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, free: int) -> None:
        self.free, self.reserved = free, 5 << 20
        self.copied: list[int] = []
        self.emptied = 0
        self.fails = False
        replaced: dict[str, Callable[..., Any]] = {
            "mem_get_info": lambda _device: (self.free, 80 << 30),
            "memory_reserved": lambda _device: self.reserved,
            "empty_cache": self.empty,
        }
        for name, value in replaced.items():
            monkeypatch.setattr(torch.cuda, name, value)
        monkeypatch.setattr(copy_rate, "_seconds_of", self.copy)
        monkeypatch.setattr(copy_rate, "_rates", {})

    def copy(self, _device: torch.device, count: int) -> float:
        self.copied.append(count)
        if self.fails:
            return 0.0
        self.reserved += 2 * count
        return 0.001

    def empty(self) -> None:
        self.emptied += 1


def test_a_copy_takes_little_of_a_gpu_and_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = torch.device("cuda", 0)
    memory = Memory(monkeypatch, free=100 << 20)
    assert copy_rate.copy_rate(gpu) == 0 and not memory.copied  # no room: not even tried
    memory.free, memory.fails = 1 << 30, True
    assert copy_rate.copy_rate(gpu) == 0
    memory.fails = False
    assert (
        copy_rate.copy_rate(gpu) == 2 * (128 << 20) * 1000
    )  # what was not measured is tried again
    assert memory.copied == [128 << 20] * 2 and memory.emptied == 1
    assert copy_rate.copy_rate(gpu) and len(memory.copied) == 2  # once a process
    memory.free = 80 << 30
    copy_rate.copy_rate(torch.device("cuda", 1))
    assert memory.copied[-1] == 256 << 20
