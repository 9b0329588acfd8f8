# SPDX-License-Identifier: Apache-2.0
"""Fixtures for the end-to-end tests: the package without a daemon, with a fake one, or the real."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tools")]


# What a test compiles is captured by its own process. Tests of frames (test_frames_*.py) choose.
os.environ.setdefault("TENSORD_FRAMES", "0")
# Spinning threads of one process would starve another; said before a server of processes begins.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def _generate_protos() -> None:
    """A checkout's protos may be newer than what an editable installation generated from them."""
    client = HERE.parents[1] / "client"
    protos = list((HERE.parents[1] / "proto" / "tensord" / "v1").glob("*.proto"))
    made = [p.stat().st_mtime for p in (client / "tensord" / "v1").glob("*_pb2.py")]
    if client.is_dir() and (not made or min(made) < max(p.stat().st_mtime for p in protos)):
        subprocess.run([str(client / "generate_protos.sh")], check=True)


_generate_protos()

import tensord  # noqa: E402
import tensord.bridge  # noqa: E402
from real_daemon import RealDaemon  # noqa: E402
from tensord import fallback  # noqa: E402
from tensord._native import build as native_build  # noqa: E402
from tensord.bridge import runtime  # noqa: E402
from tensord.cuda_graphs import arena, graphed_program, memory  # noqa: E402
from tensord.wire import rpc  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "long: tests/run.sh leaves it to tests/run.sh --long")


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A process that has compiled nothing and knows no daemon; a short folder for sockets."""
    with tempfile.TemporaryDirectory(prefix="td") as folder:  # a socket's path is at most 107 bytes
        for name in ("STRICT", "DAEMON", "TIMEOUT_S", "ISA", "UNCHECKED"):
            monkeypatch.delenv(f"TENSORD_{name}", raising=False)
        monkeypatch.setenv("TENSORD_ADDRESS", f"unix:{folder}/s")
        monkeypatch.setenv("TENSORD_AUTOSTART", "0")
        monkeypatch.setenv("XDG_STATE_HOME", f"{folder}/state")
        torch._dynamo.reset()
        fallback.forget_said()
        tensord.reset_stats()
        rpc.client().forget()
        yield Path(folder)
        rpc.client().forget()
        torch._dynamo.reset()


@pytest.fixture(scope="module")
def module_daemon() -> Iterator[RealDaemon]:
    """A real daemon, which the tests of a file share."""
    daemon = RealDaemon()
    yield daemon
    daemon.close()


@pytest.fixture
def here(module_daemon: RealDaemon, clean: Path, monkeypatch: pytest.MonkeyPatch) -> RealDaemon:
    """The file's daemon, for this process; strict."""
    monkeypatch.setenv("TENSORD_ADDRESS", module_daemon.address)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    monkeypatch.setattr(rpc, "GREETING_SILENCE_S", 2.0)  # other tests keep the machine busy
    rpc.client().forget()
    return module_daemon


@pytest.fixture(scope="session")
def native_guards() -> None:
    """The native extension, by which guards are checked."""
    if not native_build.can_build():
        pytest.skip("no compiler or headers for the native extension")
    native_build.build()


@pytest.fixture(params=["native", "python"])
def extension(request: pytest.FixtureRequest) -> Any:
    """The native extension, and None for what Python does without it."""
    if request.param == "python":
        return None
    request.getfixturevalue("native_guards")
    return runtime.native_extension()


@pytest.fixture
def traces_data() -> Iterator[None]:
    """Sizes and numbers that depend on data are traced, not breaks of the graph."""
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=True, capture_scalar_outputs=True
    ):
        yield


@pytest.fixture
def no_graphs_yet(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing has been captured as a CUDA graph, and nothing of it stays; graphs share memory
    however little it is."""
    tensord.reset_stats()
    graphed_program._said.clear()
    monkeypatch.setattr(arena, "LEAST_BYTES", 1)
    yield
    memory._GRAPH_MEMORY.clear()
    memory._GIVEN_UP.clear()


@pytest.fixture
def nothing_compiled() -> Iterator[None]:
    """Nothing has been compiled or counted, and nothing of it stays."""
    torch._dynamo.reset()
    tensord.reset_stats()
    yield
    torch._dynamo.reset()


@pytest.fixture
def nothing_under_way() -> None:
    """Programs of earlier tests go, and with them answers that nobody waited for: the backward
    graph of a function that was only called forward."""
    torch._dynamo.reset()
    gc.collect()


@pytest.fixture
def daemon(clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A fake daemon in this process, whose programs a fake bridge interprets; strict."""
    from fake_daemon import FakeBridge, FakeDaemon

    fake = FakeDaemon(str(clean / "s"))
    fake.bridge = FakeBridge(fake)
    monkeypatch.setitem(sys.modules, "tensord.bridge.runtime", fake.bridge)
    monkeypatch.setattr(tensord.bridge, "runtime", fake.bridge, raising=False)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    yield fake
    fake.stop()


@pytest.fixture(scope="session")
def shared_daemon() -> Iterator[RealDaemon]:
    """One real daemon for all tests that do not harm it."""
    real = RealDaemon(kept_kernels=True)
    yield real
    real.close()


@pytest.fixture(scope="module")
def frames_daemon() -> Iterator[RealDaemon]:
    """A real daemon for one file's tests, which keeps no frames of others'."""
    real = RealDaemon(kept_kernels=True)
    yield real
    real.close()


@pytest.fixture
def tensord_daemon(
    shared_daemon: RealDaemon, clean: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RealDaemon]:
    """The shared daemon, strict; at the end nothing may have run in eager."""
    monkeypatch.setenv("TENSORD_ADDRESS", shared_daemon.address)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    monkeypatch.setattr(rpc, "GREETING_SILENCE_S", 2.0)  # other tests keep the machine busy
    rpc.client().forget()
    yield shared_daemon
    stats = tensord.stats()
    assert stats["fallbacks"] == 0, stats
    assert stats["calls_in_eager"] == 0, stats


@pytest.fixture
def start(clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RealDaemon]]:
    """Starts a daemon on this process's address; all that were started end with the test."""
    started: list[RealDaemon] = []

    def begin(*flags: str, **environment: str) -> RealDaemon:
        daemon = RealDaemon(clean, environment, flags)
        started.append(daemon)
        monkeypatch.setenv("TENSORD_ADDRESS", daemon.address)
        rpc.client().forget()
        return daemon

    yield begin
    for daemon in started:
        daemon.close()


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    """Of operators of a test's own, tensord_test::*, until it ends."""
    with torch.library._scoped_library("tensord_test", "FRAGMENT") as made:
        yield made
