"""What goes wrong around a job: malformed graphs, killed processes, no compiler, bad disks.

Each test harms a daemon of its own.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import tensord
import torch
from compare import check
from real_daemon import RealDaemon, binary
from tensord import export, fallback, rpc, target
from tensord.v1 import graph_pb2, service_pb2
from torch.fx.experimental.proxy_tensor import make_fx

WAIT_S = 60.0


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


def _slow_compiler(folder: Path, seconds: float) -> str:
    """A C++ compiler that takes its time; it says so by a file `compiling` beside it."""
    script = folder / "slow-c++"
    script.write_text(f'#!/bin/sh\ncase "$*" in *shared*) touch {folder}/compiling; sleep {seconds};;'
                      ' esac\nexec c++ "$@"\n')
    script.chmod(0o755)
    return str(script)


def _wait_for(condition: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {WAIT_S:.0f} s"
        time.sleep(0.02)


def _function(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x).sum(-1) * 2


def _run(function: Callable[..., Any] = _function) -> None:
    """Compiles and runs a function, and compares it with eager."""
    torch._dynamo.reset()
    x = torch.randn(13, 17)
    check("result", torch.compile(function, backend="tensord")(x), function(x))


# -- malformed graphs -----------------------------------------------------------------------------


def _request() -> Any:
    """A sound request: sigmoid, then a product, of a 4x6 matrix."""
    with torch._subclasses.FakeTensorMode() as mode:
        x = mode.from_tensor(torch.zeros(4, 6))
    module = make_fx(lambda x: [torch.ops.aten.mul.Tensor(torch.ops.aten.sigmoid(x), x)])(x)
    return service_pb2.CompileRequest(
        graph=export.export(module).graph, target=target.detect(None), label="inference"
    )


def _unknown_operator(graph: Any) -> None:
    graph.nodes[1].op = "evil::operator"


def _wrong_arity(graph: Any) -> None:
    del graph.nodes[1].args[-1]


def _cycle(graph: Any) -> None:
    graph.nodes[0].args[0].value.value = 2  # the second node


def _refers_to_nothing(graph: Any) -> None:
    graph.nodes[1].args[0].value.value = 4_000_000_000


def _wrong_shape(graph: Any) -> None:
    graph.nodes[1].outputs[0].sizes[0].constant = 5


def _wrong_dtype(graph: Any) -> None:
    graph.nodes[1].outputs[0].dtype = graph_pb2.DTYPE_INT64


def _huge_attribute(graph: Any) -> None:
    graph.nodes[1].args[0].text = "x" * (100 << 20)


def _writes_to_argument(graph: Any) -> None:
    graph.nodes[1].op, graph.nodes[1].overload = "aten::mul_", "Tensor"


_MALFORMED = [_unknown_operator, _wrong_arity, _cycle, _refers_to_nothing, _wrong_shape,
              _wrong_dtype, _huge_attribute, _writes_to_argument]


@pytest.fixture(scope="module")
def busy_daemon() -> Iterator[RealDaemon]:
    daemon = RealDaemon()
    yield daemon
    daemon.close()


@pytest.mark.parametrize("spoil", _MALFORMED, ids=lambda f: f.__name__.removeprefix("_"))
def test_malformed_graph(
    spoil: Callable[[Any], None], busy_daemon: RealDaemon, clean: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENSORD_ADDRESS", busy_daemon.address)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    request = _request()
    spoil(request.graph)
    problems: list[BaseException] = []

    def other_client() -> None:
        try:
            with grpc.insecure_channel(busy_daemon.address) as channel:
                _raw_compile(channel, _request())
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=other_client)
    thread.start()
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(busy_daemon.address, options=options) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            _raw_compile(channel, request)
    thread.join()
    assert not problems
    code, message = caught.value.code(), caught.value.details()
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        assert spoil is _huge_attribute, message
    else:
        assert code == grpc.StatusCode.INVALID_ARGUMENT, message
        assert "node '" in message and len(message) < 4096
    _run()
    assert tensord.daemon_stats()["worker_restarts"] == 0


def test_sound_request_by_raw_rpc(busy_daemon: RealDaemon) -> None:
    with grpc.insecure_channel(busy_daemon.address) as channel:
        reply = _raw_compile(channel, _request())
    assert len(reply.artifact.steps) == 1


def test_bytes_that_are_no_message(busy_daemon: RealDaemon) -> None:
    with grpc.insecure_channel(busy_daemon.address) as channel:
        call = channel.unary_unary("/tensord.v1.Compiler/Compile")
        with pytest.raises(grpc.RpcError):
            call(b"\xff" * 1000, timeout=WAIT_S)
        _raw_compile(channel, _request())


def _raw_compile(channel: Any, request: Any) -> Any:
    call = channel.unary_unary(
        "/tensord.v1.Compiler/Compile",
        request_serializer=service_pb2.CompileRequest.SerializeToString,
        response_deserializer=service_pb2.CompileReply.FromString,
    )
    return call(request, timeout=WAIT_S)


# -- killed processes -----------------------------------------------------------------------------


def test_worker_killed_in_mid_compile(
    start: Callable[..., RealDaemon], clean: Path, tmp_path: Path
) -> None:
    daemon = start(TENSORD_CXX=_slow_compiler(tmp_path, 3), TENSORD_WORKERS="1")
    failures: list[Any] = []

    def compile_in_thread() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", fallback.TensordWarning)
            try:
                _run()
            except BaseException as error:
                failures.append(error)

    thread = threading.Thread(target=compile_in_thread)
    thread.start()
    _wait_for((tmp_path / "compiling").exists, "a compile")
    for worker in daemon.workers():
        os.kill(worker, signal.SIGKILL)
    thread.join(WAIT_S)
    assert not failures  # whether the daemon tried again or the job went on in eager
    assert daemon.process.poll() is None
    _run(lambda x: x.sin() + 1)
    stats = tensord.daemon_stats()
    assert stats["worker_restarts"] >= 1
    assert stats["compiled"] >= 1


def test_daemon_killed_in_mid_request(
    start: Callable[..., RealDaemon], clean: Path, tmp_path: Path
) -> None:
    daemon = start(TENSORD_CXX=_slow_compiler(tmp_path, 5))
    killer = threading.Thread(target=lambda: (
        _wait_for((tmp_path / "compiling").exists, "a compile"), daemon.kill()))
    killer.start()
    begin = time.monotonic()
    with pytest.warns(fallback.TensordWarning, match="daemon unavailable"):
        _run()
    assert time.monotonic() - begin < 30
    killer.join()
    assert tensord.stats()["fallbacks"] >= 1

    # Another daemon is found by the next graph that asks.
    daemon.start()
    rpc.client().forget()
    tensord.reset_stats()
    _run(lambda x: x.cos() + 1)
    stats = tensord.stats()
    assert (stats["compiled"], stats["fallbacks"]) == (1, 0)


def test_a_daemon_that_restarted_is_found_without_help(start: Callable[..., RealDaemon]) -> None:
    daemon = start()
    _run(lambda x: x.cos() + 2)
    daemon.kill()
    daemon.start()
    _run(lambda x: x.cos() + 3)
    assert tensord.stats()["fallbacks"] == 0
    assert tensord.daemon_stats()["compiled"] == 1


def test_graceful_stop_lets_work_finish(
    start: Callable[..., RealDaemon], tmp_path: Path
) -> None:
    daemon = start(TENSORD_CXX=_slow_compiler(tmp_path, 1))
    thread = threading.Thread(target=lambda: (
        _wait_for((tmp_path / "compiling").exists, "a compile"), daemon.process.terminate()))
    thread.start()
    _run()
    thread.join()
    assert tensord.stats()["compiled"] == 1
    assert daemon.process.wait(WAIT_S) == 0


# -- no compiler ----------------------------------------------------------------------------------


def test_compiler_missing(start: Callable[..., RealDaemon]) -> None:
    start(TENSORD_CXX="/nonexistent/c++")
    with pytest.warns(fallback.TensordWarning, match=r"/nonexistent/c\+\+"):
        _run()
    assert tensord.stats()["fallback_reasons"] == {"daemon not ready": 1}


def test_compiler_that_fails(start: Callable[..., RealDaemon], tmp_path: Path) -> None:
    script = tmp_path / "broken-c++"
    script.write_text('#!/bin/sh\ncase "$*" in *--version*|*-dumpmachine*) exec c++ "$@";; esac\n'
                      "echo 'disk on fire' >&2\nexit 1\n")
    script.chmod(0o755)
    daemon = start(TENSORD_CXX=str(script))
    with pytest.warns(fallback.TensordWarning):
        _run()
    assert tensord.stats()["fallbacks"] == 1
    assert "disk on fire" in daemon.log_text() + str(tensord.stats()["fallback_reasons"])
    # Mended, the same graph compiles: the failure was not kept.
    script.write_text('#!/bin/sh\nexec c++ "$@"\n')
    tensord.reset_stats()
    _run()
    assert tensord.stats()["compiled"] == 1


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
        [sys.executable, "-c", textwrap.dedent(_JOB)], capture_output=True, text=True,
        timeout=300, env={**os.environ, **environment}, check=False,
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


# -- several daemons ------------------------------------------------------------------------------


def test_two_daemons_on_one_socket(start: Callable[..., RealDaemon]) -> None:
    first = start()
    done = subprocess.run(
        [str(binary()), f"--address={first.address}", f"--store={first.folder}/other"],
        capture_output=True, text=True, timeout=WAIT_S, check=False,
    )
    assert done.returncode == 3
    _run()
    assert tensord.stats()["compiled"] == 1
    assert tensord.daemon_stats()["pid"] == first.process.pid


def test_two_daemons_started_at_once(clean: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"unix:{clean}/both"
    processes = [
        subprocess.Popen([str(binary()), f"--address={address}", f"--store={clean}/store"],
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(4)
    ]
    try:
        _wait_for(lambda: sum(p.poll() is None for p in processes) == 1, "all but one ending")
        assert sorted(p.returncode for p in processes if p.returncode is not None) == [3, 3, 3]
        monkeypatch.setenv("TENSORD_ADDRESS", address)
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
        "TENSORD_ADDRESS": f"unix:{clean}/auto", "TENSORD_AUTOSTART": "1",
        "TENSORD_DAEMON": str(binary()), "TENSORD_STORE": f"{clean}/store",
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
