# SPDX-License-Identifier: Apache-2.0
"""The connection: side-by-side compiles, forks, autostart, addresses, targets."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import tensord
import torch
from tensord.wire import address, autostart, rpc, target, transport

pytestmark = pytest.mark.usefixtures("nothing_under_way")
HERE = Path(__file__).parent


def f(x):
    return (x * 2).relu()


def in_child(function) -> int:
    """The exit status of `function` in a forked child; 99 when it hangs."""
    pid = os.fork()
    if pid == 0:
        try:
            function()
            os._exit(0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.kill(pid, 9)
    os.waitpid(pid, 0)
    return 99


def test_forward_and_backward_compile_side_by_side(daemon):
    daemon.delay_s = 0.4
    x = torch.randn(3, requires_grad=True)
    torch.compile(f, backend="tensord")(x).sum().backward()
    assert daemon.most_in_flight == 2


def test_one_greeting_per_process(daemon):
    for function in (lambda x: x + 1, lambda x: x + 2):
        torch.compile(function, backend="tensord")(torch.ones(2))
    assert daemon.hellos == 1


def test_a_daemon_that_answers_pings_may_greet_late(daemon):
    """The first of a store asks a worker for its operators."""
    daemon.hello_s = transport.CONNECT_TIMEOUT_S + 0.5
    torch.compile(f, backend="tensord")(torch.ones(2))
    assert daemon.hellos == 1 and tensord.stats()["fallbacks"] == 0


def test_no_connection_outlives_its_rpc(daemon):
    torch.compile(f, backend="tensord")(torch.ones(2))
    assert not transport._open_sockets


def test_an_older_daemon_takes_large_requests_as_any(daemon, monkeypatch):
    monkeypatch.setattr(rpc, "LARGE_REQUEST_BYTES", 0)
    x = torch.ones(2)
    assert torch.equal(torch.compile(f, backend="tensord")(x), f(x))
    assert len(daemon.requests) == 1 and tensord.stats()["fallbacks"] == 0


# The fake daemon of these tests runs in a process of its own: a gRPC server cannot be forked.
@pytest.fixture
def served(clean: Path, monkeypatch):
    monkeypatch.setenv("FAKE_STARTS", str(clean / "starts"))
    monkeypatch.setenv("FAKE_LIFETIME_S", "60")
    process = subprocess.Popen([sys.executable, str(HERE / "fake_tensord.py")])
    deadline = time.monotonic() + 20
    while not address.listens(address.resolve()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    yield process
    process.kill()
    process.wait()


def compile_request(delay: str = ""):
    from tensord.v1 import requests_pb2

    request = requests_pb2.CompileRequest(label=delay)
    request.graph.inputs.add().size.symbol = 0
    return request


def test_a_compile_does_not_ask_a_daemon_that_fell_silent(served, monkeypatch):
    """A capture greets once, and asks for its backward graph after its forward graph."""
    rpc.client().hello()
    silent = tensord.errors.DaemonSilentError("no sign of life")
    rpc.client().break_off(silent)
    with pytest.raises(tensord.errors.DaemonSilentError) as caught:
        rpc.client().compile(compile_request())
    assert caught.value is silent
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TENSORD_ADDRESS", "unix:/none/s")
        rpc.client().compile(compile_request())  # `wait` asks the next one there
    rpc.client().forget()
    rpc.client().compile(compile_request()).wait()


def test_fork_after_an_rpc(served):
    rpc.client().hello()
    rpc.client().compile(compile_request()).wait()

    def child():
        rpc.client().compile(compile_request()).wait()
        assert rpc.client().hello().daemon_version == "fake"

    assert in_child(child) == 0
    rpc.client().compile(compile_request()).wait()
    assert in_child(child) == 0


def test_fork_with_a_compile_under_way(served):
    rpc.client().hello()
    call = rpc.client().compile(compile_request())
    assert len(transport._open_sockets) == 1

    def child():
        assert not transport._open_sockets  # the parent's is closed here
        call.wait()

    assert in_child(child) == 0
    call.wait()


def test_answer_of_a_daemon_that_ended_meanwhile_is_read(served):
    """The first ping meets a closed connection, behind which the answer lies."""
    rpc.client().hello()
    heartbeat = transport.Heartbeat(silence_s=2.0, every_s=1.0)
    call = rpc._start("Compile", compile_request().SerializeToString(), 20, heartbeat)
    time.sleep(1)  # it is answered
    served.kill()
    served.wait()
    assert call.message()


def test_fork_while_other_threads_compile(served):
    rpc.client().hello()
    stop = threading.Event()

    def work():
        while not stop.is_set():
            rpc.client().compile(compile_request()).wait()

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            assert in_child(lambda: rpc.client().compile(compile_request()).wait()) == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_fork_children_exit_cleanly(served):
    """A data loader's worker never talks to us; it must end as if we were not there."""
    rpc.client().compile(compile_request()).wait()
    for _ in range(3):
        assert in_child(lambda: None) == 0


# -- autostart ------------------------------------------------------------------------------------


# Of a daemon that is written in Python and starts on a machine that is busy with other tests.
START_TIMEOUT_S = 60.0


@pytest.fixture
def startable(clean: Path, monkeypatch):
    monkeypatch.setattr(autostart, "START_TIMEOUT_S", START_TIMEOUT_S)
    script = clean / "tensord"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {HERE / "fake_tensord.py"} "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("TENSORD_DAEMON", str(script))
    monkeypatch.setenv("TENSORD_AUTOSTART", "1")
    monkeypatch.setenv("FAKE_STARTS", str(clean / "starts"))
    return clean


def test_autostart_detached(startable: Path):
    assert rpc.client().hello().daemon_version == "fake"
    (line,) = (startable / "starts").read_text().splitlines()
    pid, session, *arguments = line.split()
    assert session != str(os.getsid(0)) and pid == session
    assert arguments == ["--idle-exit", "3600"]
    os.kill(int(pid), 15)


def test_autostart_hands_over_nvrtc(tmp_path: Path, monkeypatch):
    """The daemon gets the NVRTC beside torch: of the newest CUDA, unless one is set."""
    spec = importlib.machinery.ModuleSpec("torch", None, origin=str(tmp_path / "torch/__init__.py"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    monkeypatch.delenv("TENSORD_NVRTC", raising=False)
    here = address.resolve()
    assert "TENSORD_NVRTC" not in autostart._daemon_environment(here)
    for folder in ("cuda_nvrtc/lib", "cu13/lib", "cu14/lib"):
        (tmp_path / "nvidia" / folder).mkdir(parents=True)
        if folder != "cu14/lib":  # one without the library
            (tmp_path / "nvidia" / folder / "libnvrtc.so.13").touch()
    found = str(tmp_path / "nvidia/cu13/lib")
    assert autostart._daemon_environment(here)["TENSORD_NVRTC"] == found
    monkeypatch.setenv("TENSORD_NVRTC", "/mine")
    assert autostart._daemon_environment(here)["TENSORD_NVRTC"] == "/mine"


def test_autostart_race(startable: Path, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "slow")
    program = (
        f"from tensord.wire import autostart, rpc; autostart.START_TIMEOUT_S = {START_TIMEOUT_S};"
        "print(rpc.client().hello().daemon_version)"
    )
    jobs = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    assert [j.communicate(timeout=60)[0].strip() for j in jobs] == ["fake"] * 4
    starts = (startable / "starts").read_text().splitlines()
    assert len(starts) == 1
    os.kill(int(starts[0].split()[0]), 15)


def test_daemon_that_dies_is_reported_at_once(startable: Path, monkeypatch):
    monkeypatch.setenv("FAKE_MODE", "die")
    start = time.monotonic()
    with pytest.raises(tensord.TensordError, match=r"status 4.*tensord\.log"):
        rpc.client().hello()
    assert time.monotonic() - start < autostart.START_TIMEOUT_S
    assert "no such store" in (startable / "state" / "tensord" / "tensord.log").read_text()
    # ... and the next graph does not wait for it again.
    with pytest.raises(tensord.TensordError):
        rpc.client().hello()
    assert len((startable / "starts").read_text().splitlines()) == 1


def test_missing_binary(clean, monkeypatch):
    monkeypatch.setenv("TENSORD_AUTOSTART", "1")
    monkeypatch.setenv("TENSORD_DAEMON", "/nonexistent")
    with pytest.raises(tensord.TensordError, match="TENSORD_DAEMON"):
        rpc.client().hello()


# -- addresses and targets ------------------------------------------------------------------------


def test_addresses(monkeypatch):
    monkeypatch.delenv("TENSORD_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/run/user/7")
    assert address.resolve().path == "/run/user/7/tensord/tensord.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert address.resolve().path == f"/tmp/tensord-{os.getuid()}/tensord.sock"
    for text, expected in {
        "unix:/a/b": "/a/b",
        "unix:///a/b": "/a/b",
        "/a/b": "/a/b",
    }.items():
        monkeypatch.setenv("TENSORD_ADDRESS", text)
        assert address.resolve().path == expected
    for text in ("nonsense", "host:50051"):
        monkeypatch.setenv("TENSORD_ADDRESS", text)
        with pytest.raises(ValueError, match=text):
            address.resolve()


def test_a_strangers_socket_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "s"
    import socket

    with socket.socket(socket.AF_UNIX) as s:
        s.bind(str(path))
        ours = address.Address(str(path), False)
        assert address.foreign_owner(ours) is None
        os.chown(path, 4242, -1)
        assert address.foreign_owner(ours) == 4242
        assert address.foreign_owner(address.Address(str(path), True)) is None


def test_cpu_target(monkeypatch):
    avx512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
    assert target.isa_of(avx512 | {"avx2", "fma", "f16c"}) == "avx512"
    assert target.isa_of({"avx2", "fma", "f16c", "avx512f"}) == "avx2"
    assert target.isa_of({"sse2"}) == "scalar"
    monkeypatch.setenv("TENSORD_ISA", "scalar")
    assert target.detect(None).cpu.isa == 1
    assert target.detect(None).cpu.l1_bytes >= 8 << 10
    monkeypatch.setenv("TENSORD_ISA", "mmx")
    with pytest.raises(ValueError, match="avx512"):
        target.detect(None)


def test_import_is_light():
    program = (
        "import sys, tensord; tensord.stats()\n"
        "print([m for m in ('torch', 'h2', 'google.protobuf') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
