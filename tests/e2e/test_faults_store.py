# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around the store, and when there are several daemons.

Each test harms a daemon of its own.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import tensord
import torch
import warm_python
from compare import check
from real_daemon import RealDaemon, binary
from tensord.wire.address import listens, resolve

WAIT_S = 60.0


def _run() -> None:
    """Compiles and runs a function, and compares it with eager."""
    torch._dynamo.reset()
    x = torch.randn(13, 17)
    compiled = torch.compile(lambda x: torch.tanh(x).sum(-1) * 2, backend="tensord")
    check("result", compiled(x), torch.tanh(x).sum(-1) * 2)


# -- the store ------------------------------------------------------------------------------------


def test_store_that_cannot_be_written(
    start: Callable[..., RealDaemon], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    start(f"--store={tmp_path}/file/store")
    monkeypatch.setenv("TENSORD_STRICT", "1")
    _run()
    assert tensord.stats()["compiled"] == 1
    problem = tensord.daemon_stats()["store_problem"]
    assert str(tmp_path) in problem


_JOB = """
    import sys, torch, tensord
    torch.manual_seed(0)
    x = torch.randn(50, 60)
    f = lambda x: torch.tanh(x).sum(-1) * 2 + x[:, 0]
    ours = torch.compile(f, backend="tensord")(x)
    assert torch.allclose(ours, f(x), rtol=1e-5, atol=1e-5), (ours - f(x)).abs().max()
    stats = tensord.stats()
    print(stats["compiled"], stats["hits"], stats["recompiled"], stats["fallbacks"])
"""


def _job(**environment: str) -> tuple[int, int, int, int]:
    """Runs _JOB in a process of its own: (compiled, hits, recompiled, fallbacks)."""
    done = subprocess.run(
        [*warm_python.command(warm_python.CAPTURE), "-c", textwrap.dedent(_JOB)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return tuple(map(int, done.stdout.split()))  # type: ignore[return-value]


def _blobs(daemon: RealDaemon) -> list[Path]:
    return sorted(path for path in (daemon.store / "blobs").rglob("*") if path.is_file())


@pytest.mark.parametrize("damage", ["flip", "truncate", "remove"])
def test_damaged_blob(start: Callable[..., RealDaemon], damage: str) -> None:
    daemon = start()
    assert _job() == (1, 0, 0, 0)
    assert _job() == (0, 1, 0, 0)
    for blob in _blobs(daemon):
        data = bytearray(blob.read_bytes())
        blob.chmod(0o600)
        if damage == "flip":
            data[len(data) // 2] ^= 1
            blob.write_bytes(data)
        elif damage == "truncate":
            blob.write_bytes(data[: len(data) // 2])
        else:
            blob.unlink()
    compiled, hits, recompiled, fallbacks = _job()
    assert fallbacks == 0
    assert compiled + hits >= 1
    assert recompiled == 1 or compiled == 1
    assert _job() == (0, 1, 0, 0)
    if damage == "flip":
        assert tensord.daemon_stats()["blobs_corrupt"] >= 1


def test_jobs_fetch_what_the_daemon_has_in_memory(
    start: Callable[..., RealDaemon], tmp_path: Path
) -> None:
    """A limit that nothing fits into, as a full disk."""
    daemon = start("--store-limit=4096")
    cache = tmp_path / "cache"
    assert _job(TENSORD_STORE=str(cache)) == (1, 0, 0, 0)
    assert not _blobs(daemon)
    assert _job(TENSORD_STORE=str(cache)) == (0, 1, 0, 0)
    assert list((cache / "fetched").rglob("*"))
    # Where nothing can be kept there, for the process alone.
    assert _job(TENSORD_STORE="/dev/null/cache") == (0, 1, 0, 0)


def test_spare_folders_of_killed_daemons_go(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    folder = daemon.socket.parent
    ended = subprocess.Popen(["true"])
    ended.wait()
    left = folder / f"jit-{ended.pid}"
    left.mkdir()
    (left / "prelude").write_text("")
    own = folder / f"jit-{daemon.process.pid}"
    assert own.is_dir()
    daemon.kill()
    daemon.start()
    assert not left.exists() and not own.exists()


def test_damaged_index(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    assert _job() == (1, 0, 0, 0)
    daemon.stop()
    for path in daemon.store.iterdir():
        if path.is_file():
            path.write_bytes(b"no database" * 1000)
    daemon.start()
    assert _job()[3] == 0
    assert _job() == (0, 1, 0, 0)


def _tensorctl(daemon: RealDaemon, *arguments: str) -> tuple[int, dict[str, int]]:
    """Exit code and numbers of a command that works on the daemon's store."""
    done = subprocess.run(
        [str(binary("tensorctl")), "--json", *arguments, f"--store={daemon.store}"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def test_rows_of_the_index_decide_nothing(start: Callable[..., RealDaemon]) -> None:
    """Digests of kernels swapped where the index has them: other programs' kernels stay right."""
    daemon = start()
    x = torch.randn(13, 17)
    functions = [lambda x, i=i: torch.tanh(x * (i + 1)).sum(-1) + i for i in range(4)]
    for function in functions:
        torch._dynamo.reset()
        torch.compile(function, backend="tensord")(x)
    with sqlite3.connect(daemon.store / "index.sqlite") as index:
        rows = index.execute("SELECT kernel_key, sha256 FROM kernels").fetchall()
        assert len(rows) >= 4
        for (key, _), (_, other) in zip(rows, rows[1:] + rows[:1], strict=True):
            index.execute("UPDATE kernels SET sha256=? WHERE kernel_key=?", (other, key))
    for restarted in (False, True):
        if restarted:
            daemon.stop()
            daemon.start()
        for function in functions:
            # Another program of the same kernel, and one that is stored.
            for made in (lambda x, f=function: (f(x), x.view(-1)), function):
                torch._dynamo.reset()
                got = torch.compile(made, backend="tensord")(x)
                want = made(x)
                check("result", got[0] if isinstance(got, tuple) else got,
                      want[0] if isinstance(want, tuple) else want)  # fmt: skip
    assert _tensorctl(daemon, "verify")[0] == 0


def test_tensorctl_works_on_a_store(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    _job()
    code, found = _tensorctl(daemon, "verify")
    assert code == 0
    assert found["programs"] == 1
    assert found["damaged"] == 0
    assert _tensorctl(daemon, "rebuild-index") == (0, {"programs": 1, "frames": 0})
    assert _job() == (0, 1, 0, 0)
    assert tensord.daemon_stats()["programs_stored"] == 1
    _, usage = _tensorctl(daemon, "du")
    assert usage["all"] >= usage["blobs"] + usage["manifests"] + usage["kernels"] > 0
    assert _tensorctl(daemon, "gc")[0] == 0

    blob = _blobs(daemon)[0]
    data = bytearray(blob.read_bytes())
    data[100] ^= 4
    blob.chmod(0o600)
    blob.write_bytes(data)
    code, found = _tensorctl(daemon, "verify")
    assert code == 1
    assert found["damaged"] >= 1
    assert _tensorctl(daemon, "verify")[1]["damaged"] == 0
    assert _job()[3] == 0


# -- several daemons ------------------------------------------------------------------------------


def test_two_daemons_on_one_socket(start: Callable[..., RealDaemon]) -> None:
    first = start()
    done = subprocess.run(
        [str(binary()), f"--address={first.address}", f"--store={first.folder}/other"],
        capture_output=True,
        text=True,
        timeout=WAIT_S,
        check=False,
    )
    assert done.returncode == 3
    _run()
    assert tensord.stats()["compiled"] == 1
    assert tensord.daemon_stats()["pid"] == first.process.pid


def test_two_daemons_started_at_once(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"unix:{clean}/both"
    monkeypatch.setenv("TENSORD_ADDRESS", address)
    processes = [
        subprocess.Popen(
            [str(binary()), f"--address={address}", f"--store={clean}/store"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for _ in range(4)
    ]
    try:
        deadline = time.monotonic() + WAIT_S
        while sum(p.poll() is None for p in processes) > 1 or not listens(resolve()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert sorted(p.returncode for p in processes if p.returncode is not None) == [3, 3, 3]
        _run()
        assert tensord.stats()["compiled"] == 1
    finally:
        for process in processes:
            process.terminate()
            process.wait(WAIT_S)


def test_two_daemons_share_a_store(start: Callable[..., RealDaemon], clean: Path) -> None:
    start()
    (clean / "two").mkdir()
    second = RealDaemon(clean / "two", flags=(f"--store={clean}/store",))
    try:
        assert _job() == (1, 0, 0, 0)
        assert _job(TENSORD_ADDRESS=second.address) == (0, 1, 0, 0)
    finally:
        second.close()


def test_jobs_that_race_start_one_daemon(clean: Path) -> None:
    environment = {
        "TENSORD_ADDRESS": f"unix:{clean}/auto",
        "TENSORD_AUTOSTART": "1",
        "TENSORD_DAEMON": str(binary()),
        "TENSORD_STORE": f"{clean}/store",
    }
    results: list[Any] = []
    threads = [
        threading.Thread(target=lambda: results.append(_job(**environment))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    os.environ["TENSORD_ADDRESS"] = environment["TENSORD_ADDRESS"]  # `clean` restores it
    stats = tensord.daemon_stats()
    try:
        assert len(results) == 3
        assert all(fallbacks == 0 for *_, fallbacks in results)
        assert stats["compiled"] == 1
        assert stats["requests"] == 3
    finally:
        os.kill(stats["pid"], signal.SIGTERM)
        _wait_for_end(stats["pid"])


def _wait_for_end(pid: int) -> None:
    """Of a process that is not our child: it still writes to its store while it stops."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return
        if state == "Z":
            return
        time.sleep(0.02)
