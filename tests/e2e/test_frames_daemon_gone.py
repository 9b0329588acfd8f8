# SPDX-License-Identifier: Apache-2.0
"""What a process does whose daemon goes, whose store is emptied, or who wants no frames; and what
many processes do that begin at once."""

from __future__ import annotations

import functools
import json
import shutil
import signal
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import warm_python
from frame_processes import output, python
from real_daemon import RealDaemon

PROGRAM = """
    import json, os, sys, time
    import torch, tensord

    def helper(x):
        return x.relu() + 1

    def first(x):
        y = helper(x) * 2
        print(end="")
        return y.sin()

    def second(x, n):
        return {"r": helper(x) * n}

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layers = torch.nn.ModuleList(torch.nn.Linear(8, 8) for _ in range(3))

        def forward(self, x):
            for layer in self.layers:
                x = layer(x).tanh()
            return x.square().mean()

    def check(function, *arguments):
        def run(one):
            torch.manual_seed(0)
            made = one(*arguments)
            return made["r"] if isinstance(made, dict) else made
        torch.testing.assert_close(run(tensord.compile(function)), run(function))

    def step():
        one, other = Model(), Model()
        tensord.compile(one)(torch.ones(4, 8)).backward()
        other(torch.ones(4, 8)).backward()
        for p, q in zip(one.parameters(), other.parameters()):
            torch.testing.assert_close(p.grad, q.grad)

    def say():
        stats = tensord.stats()
        kept = {name: stats[name] for name in stats if name.startswith("frames") or
                name in ("fallback_reasons", "fallbacks", "compiled")}
        print(json.dumps({**kept, "dynamo": "torch._dynamo" in sys.modules}))

    def wait_for(name):
        open(name + ".ready", "w").close()
        while not os.path.exists(name):
            time.sleep(0.01)
"""
ALL = """
    check(first, torch.ones(5))
    check(second, torch.ones(5), 2)
    step()
    say()
"""


@pytest.fixture
def program(native_guards: None, tmp_path: Path) -> Callable[[str], str]:
    """Writes a program's file with such an end."""

    def write(end: str = ALL) -> str:
        file = tmp_path / "program.py"
        file.write_text(textwrap.dedent(PROGRAM) + textwrap.dedent(end))
        return str(file)

    return write


# Processes that are to capture something.
capturing = functools.partial(python, imported=warm_python.CAPTURE)


def _said(process: Any) -> Any:
    return json.loads(output(process).splitlines()[-1])


def _wait(path: Path, seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_frames(start: Callable[..., RealDaemon], program: Callable[..., str]) -> None:
    daemon = start()
    for _ in range(2):
        said = _said(capturing(daemon, program(), TENSORD_FRAMES="0"))
        assert said["frames_served"] == said["frames_captured"] == said["frames_recorded"] == 0
        assert said["fallback_reasons"] == {} and said["dynamo"]
    said = _said(capturing(daemon, program()))
    assert said["frames_served"] == 0 and said["frames_recorded"] >= 4


def test_daemon_that_is_started_again(
    start: Callable[..., RealDaemon], program: Callable[..., str]
) -> None:
    daemon = start()
    output(capturing(daemon, program()))
    daemon.kill()
    daemon.start()
    said = _said(python(daemon, program()))
    assert said["frames_served"] >= 4
    assert said["frames_captured"] == 0 and not said["dynamo"]


def test_no_daemon(start: Callable[..., RealDaemon], program: Callable[..., str]) -> None:
    daemon = start()
    output(capturing(daemon, program()))
    daemon.kill()
    said = _said(capturing(daemon, program()))  # in eager
    assert said["frames_served"] == 0 and said["fallback_reasons"]


def test_daemon_is_killed_while_a_process_is_served(
    start: Callable[..., RealDaemon], program: Callable[..., str], tmp_path: Path
) -> None:
    daemon = start()
    name = str(tmp_path / "killed")
    file = program(f"check(first, torch.ones(5))\nwait_for({name!r})\n" + textwrap.dedent(ALL))
    Path(name).touch()
    output(capturing(daemon, file))
    for path in (Path(name), Path(name + ".ready")):
        path.unlink()
    process = capturing(daemon, file)
    _wait(Path(name + ".ready"))
    daemon.kill()
    Path(name).touch()
    assert _said(process)["frames_served"] >= 1


@pytest.mark.long
def test_store_is_emptied(start: Callable[..., RealDaemon], program: Callable[..., str]) -> None:
    daemon = start()
    first = _said(capturing(daemon, program()))
    daemon.stop()
    shutil.rmtree(daemon.store)
    daemon.start()
    again = _said(capturing(daemon, program()))
    assert again["frames_captured"] == first["frames_captured"]
    assert _said(capturing(daemon, program()))["frames_captured"] == 0


def test_store_is_damaged(start: Callable[..., RealDaemon], program: Callable[..., str]) -> None:
    daemon = start()
    output(capturing(daemon, program()))
    daemon.stop()
    for path in daemon.store.rglob("*"):
        if path.is_file() and "frame" in str(path):
            path.chmod(0o600)
            path.write_bytes(path.read_bytes()[::-1])
    daemon.start()
    output(capturing(daemon, program()))
    assert _said(capturing(daemon, program()))["fallback_reasons"] == {}


@pytest.mark.long
def test_processes_that_begin_at_once_capture_once(
    start: Callable[..., RealDaemon], program: Callable[..., str]
) -> None:
    daemon, file = start(), program()
    alone = _said(capturing(daemon, file))
    daemon.stop()
    shutil.rmtree(daemon.store)
    daemon.start()
    together = [capturing(daemon, file) for _ in range(6)]
    said = [_said(process) for process in together]
    assert all(one["fallback_reasons"] == {} for one in said)
    assert sum(one["frames_captured"] for one in said) == alone["frames_captured"]
    assert sum(one["frames_served"] for one in said) >= 5


def test_killed_process_hands_on_its_capture(
    start: Callable[..., RealDaemon], program: Callable[..., str], tmp_path: Path
) -> None:
    daemon = start()
    name = str(tmp_path / "never")
    # One process waits for ever once it has the lease of a capture.
    file = program(
        f"""
        import tensord.frames.capture_recorder as recorder
        if len(sys.argv) > 1:
            recorder.CaptureRecorder.run = lambda self, capture: wait_for({name!r})
        check(second, torch.ones(5), 2)
        say()
        """
    )
    victim = capturing(daemon, file, "wait")
    _wait(Path(name + ".ready"))
    waiting = capturing(daemon, file)
    time.sleep(1.0)
    assert waiting.poll() is None
    victim.send_signal(signal.SIGKILL)
    victim.wait(30)
    began = time.monotonic()
    said = _said(waiting)
    assert said["frames_captured"] == 1 and said["frames_recorded"] == 1
    assert time.monotonic() - began < 30
