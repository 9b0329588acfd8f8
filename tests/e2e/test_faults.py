# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around a job: malformed graphs, killed processes, no compiler, bad disks.

Each test harms a daemon of its own.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import grpc
import pytest
import tensord
import torch
from compare import check
from real_daemon import RealDaemon, binary
from slow_compiler import slow_compiler, wait_for
from tensord import fallback
from tensord.v1 import graph_pb2, requests_pb2
from tensord.wire import export, rpc, target
from torch.fx.experimental.proxy_tensor import make_fx

WAIT_S = 60.0


def _slow_compiler(folder: Path, seconds: float) -> dict[str, str]:
    """A C++ compiler that takes its time, as the daemon's environment; it says so by a file
    `compiling` beside it, for which there may be no walls."""
    script = slow_compiler(folder, f"touch {folder}/compiling; sleep {seconds}")
    return {"TENSORD_CXX": str(script), "TENSORD_CONFINE": "off"}


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
    return requests_pb2.CompileRequest(
        graph=export.export(module).graph, target=target.detect(None), label="inference"
    )


def _unknown_operator(graph: Any) -> None:
    graph.nodes[1].op = "tensord::unknown"


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


_MALFORMED = [
    _unknown_operator,
    _wrong_arity,
    _cycle,
    _refers_to_nothing,
    _wrong_shape,
    _wrong_dtype,
    _huge_attribute,
    _writes_to_argument,
]


@pytest.mark.parametrize("spoil", _MALFORMED, ids=lambda f: f.__name__.removeprefix("_"))
def test_malformed_graph(
    spoil: Callable[[Any], None],
    module_daemon: RealDaemon,
    clean: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TENSORD_ADDRESS", module_daemon.address)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    request = _request()
    spoil(request.graph)
    problems: list[BaseException] = []

    def other_client() -> None:
        try:
            with grpc.insecure_channel(module_daemon.address) as channel:
                _raw_compile(channel, _request())
        except BaseException as error:
            problems.append(error)

    thread = threading.Thread(target=other_client)
    thread.start()
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(module_daemon.address, options=options) as channel:
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


def test_sound_request_by_raw_rpc(module_daemon: RealDaemon) -> None:
    with grpc.insecure_channel(module_daemon.address) as channel:
        reply = _raw_compile(channel, _request())
    assert len(reply.artifact.steps) == 1


def test_bytes_that_are_no_message(module_daemon: RealDaemon) -> None:
    with grpc.insecure_channel(module_daemon.address) as channel:
        call = channel.unary_unary("/tensord.v1.Compiler/Compile")
        with pytest.raises(grpc.RpcError):
            call(b"\xff" * 1000, timeout=WAIT_S)
        _raw_compile(channel, _request())


def _raw_compile(channel: Any, request: Any) -> Any:
    call = channel.unary_unary(
        "/tensord.v1.Compiler/Compile",
        request_serializer=requests_pb2.CompileRequest.SerializeToString,
        response_deserializer=requests_pb2.CompileReply.FromString,
    )
    return call(request, timeout=WAIT_S)


# -- killed processes -----------------------------------------------------------------------------


def test_worker_killed_in_mid_compile(
    start: Callable[..., RealDaemon], clean: Path, tmp_path: Path
) -> None:
    daemon = start(**_slow_compiler(tmp_path, 3), TENSORD_WORKERS="1")
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
    wait_for((tmp_path / "compiling").exists, "a compile")
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
    daemon = start(**_slow_compiler(tmp_path, 5))
    killer = threading.Thread(
        target=lambda: (wait_for((tmp_path / "compiling").exists, "a compile"), daemon.kill())
    )
    killer.start()
    begin = time.monotonic()
    with pytest.warns(fallback.TensordWarning, match="daemon unavailable"):
        _run()
    assert time.monotonic() - begin < 30
    killer.join()
    assert tensord.stats()["fallbacks"] >= 1

    # Another daemon is found by the next graph that asks.
    daemon.start()
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


def test_graceful_stop_lets_work_finish(start: Callable[..., RealDaemon], tmp_path: Path) -> None:
    daemon = start(**_slow_compiler(tmp_path, 1))
    health = []

    def stop() -> None:
        wait_for((tmp_path / "compiling").exists, "a compile")
        health.append(_health(daemon))
        daemon.process.terminate()
        wait_for(lambda: _health(daemon) != health[0], "another health")
        health.append(_health(daemon))

    thread = threading.Thread(target=stop)
    thread.start()
    _run()
    thread.join()
    assert tensord.stats()["compiled"] == 1
    assert daemon.process.wait(WAIT_S) == 0
    assert health == [_SERVING, _NOT_SERVING]


# grpc.health.v1.HealthCheckResponse, whose only field is a number.
_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"


def _health(daemon: RealDaemon) -> bytes:
    """What the standard health service says of the daemon as a whole."""
    with grpc.insecure_channel(daemon.address) as channel:
        return channel.unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=5)


@pytest.mark.long
def test_rolling_restarts_lose_no_graph(
    start: Callable[..., RealDaemon], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Daemons come and go under a job that compiles; what one did not answer another does."""
    daemon = start()
    # Nobody has to wait for the next one longer than it takes to start.
    monkeypatch.setattr(rpc, "UNAVAILABLE_MEMORY_S", 0.0)
    running = True

    def restart() -> None:
        while running:
            time.sleep(0.3)
            daemon.process.terminate()
            daemon.process.wait(WAIT_S)
            daemon.start()

    thread = threading.Thread(target=restart)
    thread.start()
    x = torch.randn(13, 17)
    try:
        for i in range(40):
            torch._dynamo.reset()
            compiled = torch.compile(lambda x, i=i: torch.tanh(x * i).sum(-1), backend="tensord")
            check("result", compiled(x), torch.tanh(x * i).sum(-1))
    finally:
        running = False
        thread.join()
    stats = tensord.stats()
    assert stats["fallbacks"] == 0, stats["fallback_reasons"]
    assert stats["compiled"] + stats["hits"] == 40


def test_workers_are_confined(start: Callable[..., RealDaemon]) -> None:
    """What is in force is told, and kernels are made all the same."""
    for flags, told in (
        ((), "files, capabilities, system calls"),
        (("--confine=off",), "missing: everything (confine = off)"),
    ):
        daemon = start(*flags)
        _run()
        assert tensord.stats()["fallbacks"] == 0
        done = subprocess.run(
            [str(binary("tensorctl")), "status", f"--address={daemon.address}"],
            capture_output=True,
            text=True,
            timeout=WAIT_S,
            check=True,
        )
        assert re.search(rf"workers' walls +{re.escape(told)}\n", done.stdout), done.stdout
        daemon.stop()


# -- no compiler ----------------------------------------------------------------------------------


def test_compiler_missing(start: Callable[..., RealDaemon]) -> None:
    start(TENSORD_CXX="/nonexistent/c++")
    with pytest.warns(fallback.TensordWarning, match=r"/nonexistent/c\+\+"):
        _run()
    assert tensord.stats()["fallback_reasons"] == {"daemon not ready": 1}


def test_compiler_that_fails(start: Callable[..., RealDaemon], tmp_path: Path) -> None:
    script = tmp_path / "broken-c++"
    script.write_text(
        '#!/bin/sh\ncase "$*" in *--version*|*-dumpmachine*) exec c++ "$@";; esac\n'
        "echo 'disk on fire' >&2\nexit 1\n"
    )
    script.chmod(0o755)
    daemon = start(TENSORD_CXX=str(script))
    with pytest.warns(fallback.TensordWarning):
        _run()
    assert tensord.stats()["fallbacks"] == 1
    assert "disk on fire" in daemon.log_text() + str(tensord.stats()["fallback_reasons"])
    # The graph was kept, to be looked at.
    (kept,) = (daemon.store / "repros").iterdir()
    command = [str(binary("tensorctl")), "compile", "--dump-after", "import", str(kept)]
    shown = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
    assert shown.returncode == 0 and shown.stdout.startswith("==== import\n"), shown.stderr
    # Mended, the same graph compiles: the failure was not kept.
    script.write_text('#!/bin/sh\nexec c++ "$@"\n')
    tensord.reset_stats()
    _run()
    assert tensord.stats()["compiled"] == 1


def test_compiler_that_fails_on_one_kernel(
    start: Callable[..., RealDaemon], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its operators, also those that the kernel computes on the way, are library calls."""
    script = tmp_path / "choosy-c++"
    script.write_text(
        "#!/bin/sh\n"
        "if grep -qi erf kernel.cc 2>/dev/null; then echo 'no erf here' >&2; exit 1; fi\n"
        'exec c++ "$@"\n'
    )
    script.chmod(0o755)
    daemon = start(TENSORD_CXX=str(script))
    weight = torch.randn(17, 5)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu((torch.erf(x) * 2) @ weight) + 1

    _run(function)
    stats = tensord.stats()
    assert stats["fallbacks"] == 0 and stats["compiled"] == 1 and stats["kernels"] >= 1
    assert stats["kernels_failed"] >= 1
    assert all("no erf here" in text for text in stats["kernel_failures"])
    assert "library operators instead of a kernel" in caplog.text
    assert list((daemon.store / "repros").iterdir())
    # The next job finds the program.
    tensord.reset_stats()
    _run(function)
    assert tensord.stats()["hits"] == 1
