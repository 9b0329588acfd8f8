# SPDX-License-Identifier: Apache-2.0
"""`tensorctl top`: a screen on a terminal, which is as it was at the end; lines elsewhere."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import signal
import subprocess
import termios
import time
from collections.abc import Iterator

import pytest
from real_daemon import RealDaemon, binary

TIMEOUT_S = 30
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?25h\x1b[?1049l"


@pytest.fixture(scope="module")
def daemon() -> Iterator[RealDaemon]:
    daemon = RealDaemon()
    yield daemon
    daemon.close()


def _command(daemon: RealDaemon, *arguments: str) -> list[str]:
    return [str(binary("tensorctl")), "--address", daemon.address, *arguments]


def _output(daemon: RealDaemon, *arguments: str) -> str:
    return subprocess.run(
        _command(daemon, *arguments), check=True, capture_output=True, text=True, timeout=TIMEOUT_S
    ).stdout


class Screen:
    """`tensorctl top` on a terminal of its own."""

    def __init__(self, daemon: RealDaemon) -> None:
        self.ours, self.theirs = pty.openpty()
        self.before = termios.tcgetattr(self.theirs)
        self.shown = b""
        self.process = subprocess.Popen(
            _command(daemon, "top", "--interval", "0.1"),
            stdin=self.theirs,
            stdout=self.theirs,
            stderr=self.theirs,
            preexec_fn=self._take,
        )

    def _take(self) -> None:
        """Makes the terminal the child's own, so that Ctrl-C on it is a signal."""
        os.setsid()
        import fcntl

        fcntl.ioctl(self.theirs, termios.TIOCSCTTY, 0)

    def read_until(self, text: bytes) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while text not in self.shown:
            ready, _, _ = select.select([self.ours], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, f"{text!r} was not shown: {self.shown!r}"
            self.shown += os.read(self.ours, 65536)

    def type(self, keys: bytes) -> None:
        os.write(self.ours, keys)

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        os.close(self.ours)
        os.close(self.theirs)


@pytest.fixture
def screen(daemon: RealDaemon) -> Iterator[Screen]:
    screen = Screen(daemon)
    screen.read_until(b"requests/s")
    # A rate, so that the second look has come.
    screen.read_until("▁▁".encode())
    yield screen
    screen.close()


@pytest.mark.parametrize("keys", [b"q", b"xQ", b"\x03"], ids=["q", "Q", "Ctrl-C"])
def test_a_key_ends_it_and_leaves_the_terminal_as_it_was(screen: Screen, keys: bytes) -> None:
    assert screen.shown.startswith(ENTER)
    assert termios.tcgetattr(screen.theirs) != screen.before
    screen.type(keys)
    screen.read_until(LEAVE)
    assert screen.process.wait(TIMEOUT_S) == 0
    assert termios.tcgetattr(screen.theirs) == screen.before


def test_sigterm_ends_it_and_leaves_the_terminal_as_it_was(screen: Screen) -> None:
    screen.process.send_signal(signal.SIGTERM)
    screen.read_until(LEAVE)
    assert screen.process.wait(TIMEOUT_S) == 0
    assert termios.tcgetattr(screen.theirs) == screen.before


def test_a_daemon_that_ends_is_told_on_the_terminal_as_it_was() -> None:
    daemon = RealDaemon()
    screen = Screen(daemon)
    try:
        screen.read_until("▁▁".encode())
        daemon.stop()
        screen.read_until(b"no daemon answers")
        assert screen.shown.index(LEAVE) < screen.shown.index(b"no daemon answers")
        assert screen.process.wait(TIMEOUT_S) == 3
        assert termios.tcgetattr(screen.theirs) == screen.before
    finally:
        screen.close()
        daemon.close()


def test_lines_where_there_is_no_terminal(daemon: RealDaemon) -> None:
    head, *lines = _output(daemon, "top", "--lines", "3", "--interval", "0.1").splitlines()
    assert head.split()[:2] == ["req/s", "found"]
    assert len(lines) == 3
    assert all(len(line) == len(head) for line in lines), lines


def test_once_is_one_screen_without_escapes(daemon: RealDaemon) -> None:
    shown = _output(daemon, "top", "--once", "--interval", "0.1")
    assert f"pid {daemon.process.pid} " in shown
    assert "requests/s" in shown
    assert "\x1b" not in shown


def test_json_is_a_line_an_update(daemon: RealDaemon) -> None:
    lines = _output(daemon, "--json", "top", "--lines", "2", "--interval", "0.1").splitlines()
    updates = [json.loads(line) for line in lines]
    assert len(updates) == 2
    for update in updates:
        assert update["stats"]["pid"] == daemon.process.pid
        assert int(update["elapsed_nanoseconds"]) >= 1e8
        assert update["growth"]["requests"] == "0"


def test_a_stopped_daemon_is_no_endless_wait() -> None:
    daemon = RealDaemon()
    try:
        daemon.suspend()
        done = subprocess.run(
            _command(daemon, "top", "--once"), capture_output=True, text=True, timeout=TIMEOUT_S
        )
        assert done.returncode == 3, done.stderr
    finally:
        daemon.resume()
        daemon.close()
