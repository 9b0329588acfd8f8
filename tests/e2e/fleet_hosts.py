# SPDX-License-Identifier: Apache-2.0
"""Hosts of a fleet: daemons with stores of their own, asked without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from frame_processes import output, python
from real_daemon import RealDaemon, binary

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "tools"), str(TESTS / "faults")]

import graphs  # noqa: E402
from tensord.errors import DaemonSilentError  # noqa: E402
from tensord.v1 import requests_pb2  # noqa: E402
from tensord.wire import rpc  # noqa: E402

WAIT_S = 60.0
FLEET_LOAD = TESTS.parent / "build" / "tests" / "fleet_load"

_JOB = textwrap.dedent("""
    import json, sys, torch, tensord
    def f(x, y):
        z = torch.tanh(x @ y).sum(-1)
        return z * 2 + x[:, 0]
    torch.manual_seed(0)
    x, y = torch.randn(8, 16), torch.randn(16, 16)
    ours = tensord.compile(f)(x, y)
    assert torch.allclose(ours, f(x, y), rtol=1e-4, atol=1e-4)
    print(json.dumps({**tensord.stats(), "dynamo": "torch._dynamo" in sys.modules}))
""")


def make_key(folder: Path, name: str = "key") -> Path:
    """A private key; its public half is added to the file `trust` beside it."""
    key = folder / name
    done = subprocess.run(
        [binary("tensorctl"), "fleet-key", key, name], check=True, capture_output=True, text=True
    )
    with (folder / "trust").open("a") as trust:
        trust.write(done.stdout)
    return key


def run_job(daemon: RealDaemon, *imported: str, job: str = "") -> dict[str, Any]:
    """What a process says of itself that compiles a function, and serves or records its frame.

    imported: modules that it begins with, torch by itself. job: its name.
    """
    frames = {"TENSORD_STRICT": "1", "TENSORD_FRAMES": "1", "TENSORD_JOB": job}
    text = output(python(daemon, "-c", _JOB, imported=imported or ("torch",), **frames))
    found: dict[str, Any] = json.loads(text.splitlines()[-1])
    return found


def load(url: str, key: Path, flags: Iterable[str], *arguments: str) -> dict[str, Any]:
    """What fleet_load says of many hosts in one process. flags: of a daemon with that tier."""
    done = subprocess.run(
        [FLEET_LOAD, url, f"--key={key}", *arguments,
         *(flag.replace("--fleet-", "--") for flag in flags)],
        check=True, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])  # behind warnings
    return found


class Host(RealDaemon):
    """A daemon of a fleet, or of none without a URL. key: with which it signs; none: it only
    reads."""

    def __init__(self, url: str, trust: Path, key: Path | None = None, *flags: str) -> None:
        given = [f"--fleet-trust={trust}", *flags]
        if url:
            given.append(f"--fleet={url}")
        if key is not None:
            given.append(f"--fleet-sign-key={key}")
        super().__init__(flags=tuple(given))

    def ask(self, number: int) -> tuple[str, float]:
        """Compiles the graph of that number: what came of it, and the seconds that it took."""
        reply, seconds = self.compile(graphs.request(graphs.small(number)))
        return requests_pb2.CompileReply.Outcome.Name(reply.outcome), seconds

    def compile(self, request: Any) -> tuple[Any, float]:
        """Its reply, and the seconds that it took."""
        os.environ["TENSORD_ADDRESS"] = self.address
        self._greet()
        begin = time.perf_counter()
        reply = rpc.client().compile(request).wait()
        return reply, time.perf_counter() - begin

    @staticmethod
    def _greet() -> None:
        """However long a busy machine takes."""
        deadline = time.monotonic() + WAIT_S
        while True:
            rpc.client().forget()
            try:
                rpc.client().hello()
                return
            except DaemonSilentError:
                if time.monotonic() > deadline:
                    raise

    def tensorctl(self, *arguments: str) -> str:
        """What tensorctl prints of it."""
        command = [binary("tensorctl"), "--address", self.address, *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def stats(self) -> dict[str, Any]:
        """Its statistics: numbers, and texts."""
        return {
            name: int(value) if isinstance(value, str) and value.isdigit() else value
            for name, value in json.loads(self.tensorctl("--json", "stats")).items()
        }

    def wait_for(self, name: str, least: int) -> None:
        """Until a number of the statistics is so large."""
        deadline = time.monotonic() + WAIT_S
        while (found := self.stats()[name]) < least:
            assert time.monotonic() < deadline, f"{name} is {found}:\n{self.log_text()}"
            time.sleep(0.02)

    def wait_until_closed(self) -> None:
        """Until the breaker lets it ask again."""
        deadline = time.monotonic() + WAIT_S
        while self.stats()["fleet_breaker_open"]:
            assert time.monotonic() < deadline, self.log_text()
            time.sleep(0.1)
