#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`--count` mutated frames are read as a job reads them; none ends it, and none is run.

Frames of reader_cases.py are recorded, mutated (mutations.py) and made ready for the very call that
they were recorded of, by the native extension and in Python in turn, in child processes of
`--batch` frames. A frame is refused as unfit, or read: nothing else is raised, nothing hangs, no
code of a frame is run, and nothing is opened, started or connected to meanwhile. A program that is
mutated is the daemon's to refuse (frames.py, tests/fuzz/targets); here each graph names a program
that is there.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import random
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

import campaign
from google.protobuf.message import DecodeError
from mutations import MUTATIONS
from real_daemon import RealDaemon

LONGEST_S = 20
# Of sys.addaudithook: what reading is not to do.
FORBIDDEN = (
    "os.exec", "os.fork", "os.kill", "os.mkdir", "os.posix_spawn", "os.putenv", "os.remove",
    "os.rename", "os.rmdir", "os.system", "os.truncate", "ctypes.dlopen", "marshal.", "pickle.",
    "shutil.", "socket.", "subprocess.",
)  # fmt: skip
# Whose text is run while a frame is read: comparisons of sizes, of a checked subset.
OWN_FILES = ("<relation>",)


@dataclass
class Original:
    """A frame as it was recorded, whose graphs name programs by number, and its call."""

    name: str
    data: bytes
    entered: Any


def _locals_of(target: Any, arguments: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    """The function that is entered, and what its frame has."""
    import torch

    if isinstance(target, torch.nn.Module):
        target = target.forward
    bound = inspect.signature(target).bind(*arguments)
    bound.apply_defaults()
    function = getattr(target, "__func__", target)
    own = {"self": target.__self__} if function is not target else {}
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return function, {
        **own, **bound.arguments, **{name: cell.cell_contents for name, cell in cells}
    }  # fmt: skip


def _recorded(programs: list[Any]) -> Iterator[Original]:
    """Captures the cases, and appends the programs of their graphs."""
    import tensord
    import torch
    from reader_cases import CASES
    from tensord.frames import digests, graph_calls
    from tensord.frames.entered import Entered
    from tensord.frames.store import FrameStore

    put, frames = FrameStore.put, []
    FrameStore.put = lambda store, frame, capture: (
        frames.append(type(frame).FromString(frame.SerializeToString())),
        put(store, frame, capture),
    )[1]
    for name, (target, calls) in CASES.items():
        frames.clear()
        compiled = tensord.compile(target)
        for arguments in calls:
            compiled(*arguments)
        assert frames, f"{name}: {tensord.stats()['frames_unrecorded']}"
        function, found = _locals_of(target, calls[-1])
        entered = Entered(function.__code__, function.__globals__, found)
        frame = [one for one in frames if one.code.digest == entered.digest][-1]
        assert digests.of_code(function.__code__) and frame.result.HasField("code"), name
        for call in frame.graphs:
            for part in ("inference", "forward", "backward", "backward_with_all"):
                if not call.HasField(part):
                    continue
                program = getattr(call, part)
                programs.append(graph_calls._Pending(program, "inference").loaded().program)
                results = list(program.graph.outputs)
                program.graph.Clear()
                program.graph.outputs.extend(results)
                program.graph.nodes.add(op=f"program {len(programs) - 1}")
        yield Original(name, frame.SerializeToString(), entered)
    FrameStore.put = put
    torch._dynamo.reset()


class _Watch:
    """Of a child: what it did that reading is not to do."""

    def __init__(self) -> None:
        self.on = False
        self.seen: list[str] = []
        self.codes: set[int] = set()  # of frames
        self._kept: list[Any] = []
        sys.addaudithook(self._audit)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.on:
            return
        if event == "exec" and arguments[0].co_filename not in OWN_FILES:
            self.seen.append(f"{event} of {arguments[0].co_filename}")
        if event.startswith(FORBIDDEN):
            self.seen.append(event)

    def note(self, code: Any) -> Any:
        self.codes.add(id(code))
        self._kept.append(code)
        return code

    def profile(self, frame: Any, event: str, argument: Any) -> None:
        if event == "call" and id(frame.f_code) in self.codes:
            self.seen.append(f"ran {frame.f_code.co_name}")


def _instrument(watch: _Watch, programs: list[Any]) -> None:
    """Graphs get the programs that they name, and codes of frames are known."""
    from tensord.errors import CompilerFailedError
    from tensord.frames import code_objects, graph_calls

    class Named:
        def __init__(self, message: Any, label: str) -> None:
            names = [node.op for node in message.graph.nodes]
            known = {f"program {number}": one for number, one in enumerate(programs)}
            if len(names) != 1 or names[0] not in known:
                raise CompilerFailedError("it is no program of these")
            self._found = graph_calls._Loaded(
                known[names[0]], tuple(message.inputs), message.arguments
            )

        def loaded(self) -> Any:
            return self._found

    graph_calls._Pending = Named
    for name in ("read", "renamed"):
        function = getattr(code_objects, name)
        noted: Callable[..., Any] = lambda *told, f=function: watch.note(f(*told))  # noqa: E731
        setattr(code_objects, name, noted)


def _read(data: bytes, entered: Any, watch: _Watch) -> str:
    """What came of it, in words; "harm: ..." for what is not to be."""
    from tensord.frames.errors import UnfitError
    from tensord.frames.serving import serve
    from tensord.v1 import frame_pb2

    try:
        frame = frame_pb2.Frame.FromString(data)
    except DecodeError:
        return "no message"
    watch.seen.clear()
    watch.on = True
    sys.setprofile(watch.profile)
    try:
        serve(b"key of 32 bytes, or any other one", frame, entered)
    except UnfitError:
        answer = "refused"
    except Exception as error:
        answer = f"harm: {type(error).__name__}: {error}"
    else:
        answer = "read all the same"
    finally:
        sys.setprofile(None)
        watch.on = False
    return f"harm: {', '.join(watch.seen[:3])}" if watch.seen else answer


def _turns(turns: range, seed: int, originals: list[Original], programs: list[Any],
           to: IO[str]) -> None:  # fmt: skip
    """In a child: a line before each frame and one behind it."""
    from tensord.bridge import runtime

    os.environ["TENSORD_STRICT"] = "1"
    runtime.native_extension()  # which is opened before anybody looks
    watch = _Watch()
    _instrument(watch, programs)
    for turn in turns:
        draw = random.Random(f"{seed} {turn}")
        original, other = draw.choice(originals), draw.choice(originals)
        mutate = MUTATIONS[turn % len(MUTATIONS)]
        os.environ["TENSORD_NATIVE"] = str(turn // len(MUTATIONS) % 2)
        what = f"{mutate.__name__.strip('_')} {original.name}, turn {turn}"
        print(json.dumps(what), file=to, flush=True)
        signal.alarm(LONGEST_S)
        data = mutate(original.data, other.data, draw)
        print(json.dumps(_read(data, original.entered, watch)), file=to, flush=True)


def _in_child(run: Callable[[IO[str]], None]) -> tuple[list[str], int]:
    """The lines that a child wrote, and its exit code or, below 0, its signal."""
    with tempfile.TemporaryFile("w+") as lines:
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run(lines)
                status = 0
            finally:
                os._exit(status)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        lines.seek(0)
        return [json.loads(line) for line in lines], code


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """Batch by batch; a batch that ends early goes on behind the frame that ended it."""
    answers: Counter[str] = Counter()
    harm: list[str] = []
    daemon = RealDaemon()
    os.environ.update(
        TENSORD_ADDRESS=daemon.address, TENSORD_AUTOSTART="0", TENSORD_FRAMES="1",
        TENSORD_STRICT="1",
    )  # fmt: skip
    try:
        programs: list[Any] = []
        originals = list(_recorded(programs))
        for original in originals:  # as it is, it is read
            lines, code = _in_child(lambda to, one=original: _sound(one, programs, to))
            if code or lines != ["read all the same"] * 2:
                harm.append(f"{original.name} as it was recorded: {lines}, exit code {code}")
        turn = 0
        while turn < arguments.count:
            turns = range(turn, min(turn + arguments.batch, arguments.count))
            lines, code = _in_child(
                lambda to, turns=turns: _turns(turns, arguments.seed, originals, programs, to)
            )
            pairs = list(zip(lines[::2], lines[1::2], strict=False))
            for what, answer in pairs:
                if answer.startswith("harm: "):
                    harm.append(f"{what}: {answer}")
                else:
                    answers[f"{what.split()[0]}, {answer}"] += 1
            turn += len(pairs)
            if len(pairs) < len(turns):
                harm.append(f"{lines[-1] if lines else turn}: ended with {code}")
                turn += 1
    finally:
        daemon.close()
    for name, count in sorted(answers.items()):
        table.add(name, count)
    read = sum(count for name, count in answers.items() if name.endswith("read all the same"))
    table.must("refused", answers.total() - read, answers.total() > read, "more than none")
    table.none("harm", harm)


def _sound(original: Original, programs: list[Any], to: IO[str]) -> None:
    from tensord.bridge import runtime

    runtime.native_extension()
    watch = _Watch()
    _instrument(watch, programs)
    for bridge in "10":
        os.environ["TENSORD_NATIVE"] = bridge
        print(json.dumps(_read(original.data, original.entered, watch)), file=to, flush=True)


if __name__ == "__main__":
    campaign.main(run, __doc__, count=10_000, batch=500)
