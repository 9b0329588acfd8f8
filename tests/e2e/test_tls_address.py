# SPDX-License-Identifier: Apache-2.0
"""A daemon that is called by TCP with TLS: who is let in, and who is not."""

from __future__ import annotations

import contextlib
import os
import re
import socket
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
from own_server import free_port
from real_daemon import ROOT, RealDaemon
from slow_compiler import slow_compiler
from tensord.errors import DaemonRefusedError, DaemonUnavailableError
from tensord.v1 import requests_pb2, service_pb2
from tensord.wire import address, blobs, progress, rpc, tls, transport, watch
from tls_fixtures import (
    OTHER_TOKEN,
    TOKEN,
    WAIT_S,
    Files,
    Settings,
    address_of,
    compile_one,
    refused,
    tensorctl,
)

pytest_plugins = ["tls_fixtures"]
pytestmark = pytest.mark.usefixtures("nothing_under_way")


# -- who is let in --------------------------------------------------------------------------------


@pytest.mark.parametrize("asks_for", [("certificate",), ("token",), ("certificate", "token")])
def test_jobs_compile(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch, asks_for: tuple[str, ...],
) -> None:  # fmt: skip
    daemon = start(*files.flags(*asks_for))
    assert f'asks_for="{" and ".join(asks_for)}"' in daemon.log_text()
    shown: dict[str, Path] = {"ca": files.authority.path}
    if "certificate" in asks_for:
        shown |= {"cert": files.client.path, "key": files.client.key}
    if "token" in asks_for:
        shown["token"] = files.token
    monkeypatch.setenv("TENSORD_STRICT", "1")
    for host in ("localhost", "127.0.0.1"):
        settings.use(address_of(daemon, host), **shown)
        compile_one(2.0)
    stats = tensord.daemon_stats()
    assert (stats["compiled"], stats["hits"], stats["calls_unauthenticated"]) == (1, 1, 0)
    assert not transport._open_sockets
    found = tensorctl("status")
    assert (found.returncode, found.stderr) == (0, "") and str(daemon.process.pid) in found.stdout
    assert tensorctl("top", "--once").returncode == 0
    # The socket's callers bring nothing.
    settings.use(daemon.address)
    compile_one(3.0)
    assert tensord.daemon_stats()["compiled"] == 2


def test_a_page_is_opened_by_the_socket_alone(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    refused = tensorctl("ui")
    assert refused.returncode == 1 and "Unix socket alone" in refused.stderr
    settings.use(daemon.address)
    assert tensorctl("ui").stdout.startswith("http://127.0.0.1:")


def test_a_large_request_comes_whole(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    monkeypatch.setattr(rpc, "LARGE_REQUEST_BYTES", 0)
    compile_one(2.0)
    # Of 8 MiB that are no request; all of it is received before it is looked at.
    with pytest.raises(tensord.TensordError, match="INVALID_ARGUMENT"):
        call = rpc._start("CompileLarge", b"\xff" * (8 << 20), WAIT_S)
        rpc._wait(call, "CompileLarge")


def test_blobs_of_a_folder_that_is_not_ours_come_by_the_call(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    if os.geteuid() != 0:
        pytest.skip("gives files to another user")
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    monkeypatch.setenv("TENSORD_STORE", str(tmp_path / "own"))
    compile_one(2.0)
    stored = [path for path in (daemon.store / "blobs").rglob("*") if path.is_file()]
    assert stored and not (tmp_path / "own").exists()
    for path in stored:
        os.chown(path, 4242, -1)
    compile_one(2.0)
    fetched = {p.name: p.read_bytes() for p in (tmp_path / "own").rglob("*") if p.is_file()}
    assert fetched == {path.name: path.read_bytes() for path in stored}


def test_a_folder_of_the_same_name_is_not_believed(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:  # fmt: skip
    """The daemon's folder as a job sees it, which is not what the daemon sees."""
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    monkeypatch.setenv("TENSORD_STORE", str(tmp_path / "own"))
    compile_one(2.0)
    reply = requests_pb2.CompileReply(blob_folder=str(tmp_path / "seen"))
    stored = next(path for path in (daemon.store / "blobs").rglob("*") if path.is_file())
    digest = bytes.fromhex(stored.name)
    reply.artifact.modules.add(sha256=digest)
    seen = Path(blobs._path(reply.blob_folder, digest))
    seen.parent.mkdir(parents=True)
    seen.write_bytes(b"something else")
    assert blobs.folder_for(reply) == str(tmp_path / "own" / "fetched")
    seen.write_bytes(stored.read_bytes())
    assert blobs.folder_for(reply) == reply.blob_folder


# -- who is not -----------------------------------------------------------------------------------


def test_without_the_token(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    """Each call is counted, and the log says it once."""
    daemon = start(*files.flags("token"))
    where, ca = address_of(daemon), files.authority.path
    settings.use(where, ca=ca)
    refused(DaemonRefusedError, "no token came .TENSORD_TOKEN_FILE")
    for wrong in (OTHER_TOKEN, TOKEN[:-1], TOKEN + "a", TOKEN.upper()):
        settings.use(where, ca=ca, token=files.write("wrong", wrong))
        with pytest.raises(DaemonRefusedError, match="the token that came"):
            rpc.client().hello()
        assert "the token that came" in tensorctl("status").stderr
        with pytest.raises(DaemonRefusedError):
            rpc.client().get_blob(b"\0" * 32)
    settings.use(daemon.address)
    # A greeting, and of each wrong token three calls; what is remembered is not asked again.
    assert tensord.daemon_stats()["calls_unauthenticated"] == 1 + 4 * 3
    assert daemon.log_text().count("event=unauthenticated") == 1
    assert OTHER_TOKEN not in daemon.log_text() and TOKEN not in daemon.log_text()


def test_without_the_certificate(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    daemon = start(*files.flags("certificate"))
    where, ca = address_of(daemon), files.authority.path
    settings.use(where, ca=ca)
    refused(DaemonUnavailableError, "TENSORD_TLS_CERT")
    assert tensorctl("status").returncode == 3
    for client in (
        files.stranger.issue("foreign", "DNS:job"),
        files.authority.issue("late", "DNS:job", days=-1),
    ):
        settings.use(where, ca=ca, cert=client.path, key=client.key)
        with pytest.raises(DaemonUnavailableError, match="TENSORD_TLS_CERT"):
            rpc.client().hello()
        assert tensorctl("status").returncode == 3
    settings.use(daemon.address)
    assert tensord.daemon_stats()["requests"] == 0


def test_another_daemon_in_its_place(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    """Its certificate is of a foreign authority, has expired, or is for another host."""
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.stranger.path, token=files.token)
    refused(DaemonRefusedError, "is of no authority that counts here.*TENSORD_TLS_CA")
    settings.use(address_of(daemon), token=files.token)  # the system's authorities
    with pytest.raises(DaemonRefusedError, match="TENSORD_TLS_CA"):
        rpc.client().hello()
    assert tensorctl("status").returncode == 3
    daemon.stop()
    for server, host, words in (
        (files.authority.issue("late", days=-1), "localhost", "has expired.*listen_cert"),
        (files.authority.issue("named", "DNS:localhost"), "127.0.0.1", "is not for 127.0.0.1"),
        (files.authority.issue("numbered", "IP:127.0.0.1"), "localhost", "is not for localhost"),
    ):
        other = start(*files.flags("token", server=server))
        # One that it would count, if any came.
        wrong = files.write("wrong", OTHER_TOKEN)
        settings.use(address_of(other, host), ca=files.authority.path, token=wrong)
        with pytest.raises(DaemonRefusedError, match=words):
            rpc.client().hello()
        assert tensorctl("status").returncode == 3
        settings.use(other.address)
        assert tensord.daemon_stats()["calls_unauthenticated"] == 0
        other.stop()


@pytest.mark.parametrize(("files_set", "words"), [
    ({"ca": "/none"}, "TENSORD_TLS_CA=/none: No such file"),
    ({"cert": "/none"}, "TENSORD_TLS_CERT=/none: No such file"),
    ({"key": "/none"}, "TENSORD_TLS_KEY is set without TENSORD_TLS_CERT"),
    ({"token": "/none"}, "TENSORD_TOKEN_FILE=/none: No such file"),
    ({"token": "/dev/null"}, "TENSORD_TOKEN_FILE=/dev/null: its first line is no token"),
    ({"ca": "/dev/null"}, "TENSORD_TLS_CA=/dev/null"),
])  # fmt: skip
def test_files_that_cannot_be_used(
    settings: Settings, files_set: dict[str, str], words: str
) -> None:
    settings.use("tls://localhost:1", **files_set)
    refused(DaemonRefusedError, words)


def test_nobody_there(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor is a daemon started."""
    monkeypatch.setenv("TENSORD_AUTOSTART", "1")
    monkeypatch.setenv("TENSORD_DAEMON", "/bin/false")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        settings.use(f"tls://127.0.0.1:{free.getsockname()[1]}")
        refused(DaemonUnavailableError, "Connection refused")
    settings.use("tls://nowhere.invalid:7464")
    with pytest.raises(DaemonUnavailableError, match=r"nowhere\.invalid"):
        rpc.client().hello()


# -- daemons that end -----------------------------------------------------------------------------


def test_the_next_daemon_on_the_port_is_found(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    daemon = start(*files.flags("token"), f"--listen-tls=127.0.0.1:{free_port()}")
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    monkeypatch.setenv("TENSORD_STRICT", "1")
    compile_one(2.0)
    daemon.kill()
    starter = threading.Timer(0.3, daemon.start)
    starter.start()
    compile_one(3.0)
    starter.join()
    assert tensord.daemon_stats()["pid"] == daemon.process.pid
    assert tensord.stats()["fallbacks"] == 0


def test_a_daemon_that_is_stopped_is_found_silent(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    request = service_pb2.WatchStatsRequest(interval_milliseconds=100)
    beats = transport.Heartbeat(silence_s=1.0, every_s=0.2)
    messages = rpc._start("WatchStats", request.SerializeToString(), WAIT_S, beats).messages()
    for _ in range(5):
        next(messages)
    daemon.suspend()
    begin = time.monotonic()
    try:
        with pytest.raises(transport.SilentError):
            for _ in range(1000):
                next(messages)
        assert time.monotonic() - begin < WAIT_S
    finally:
        daemon.resume()


def test_a_daemon_that_is_stopped_before_the_first_tick_is_found_silent(
    start: Callable[..., RealDaemon], files: Files, settings: Settings, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The tick's own handshake is within the wait, and meets the silence first."""
    monkeypatch.setenv("TENSORD_TIMEOUT_S", str(2 * WAIT_S))
    monkeypatch.delenv("TENSORD_PROGRESS", raising=False)
    compiler = slow_compiler(tmp_path, "sleep 5")
    daemon = start(*files.flags("token"), f"--cxx={compiler}", "--confine=off")
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    monkeypatch.setattr(progress, "FIRST_S", 0.2)
    tick = watch.Watch.tick
    ticks: list[float] = []

    def stop_and_tick(asked: watch.Watch) -> None:
        if not ticks:
            daemon.suspend()
        ticks.append(time.monotonic())
        tick(asked)

    monkeypatch.setattr(watch.Watch, "tick", stop_and_tick)
    try:
        with pytest.warns(UserWarning, match="no sign of life for 2 s"):
            compile_one(2.0)
        assert time.monotonic() - ticks[0] < WAIT_S
    finally:
        daemon.resume()
    assert tensord.stats()["fallbacks"] == 1


def test_backward_does_not_wait_for_a_daemon_that_forward_found_silent(
    start: Callable[..., RealDaemon], files: Files, settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("TENSORD_TIMEOUT_S", str(2 * WAIT_S))
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    asked: list[str] = []
    start_call = rpc._start

    def note(method: str, *arguments: Any) -> transport.Call:
        asked.append(method)
        if method == "Compile":  # the capture has greeted
            daemon.suspend()
        return start_call(method, *arguments)

    monkeypatch.setattr(rpc, "_start", note)
    x = torch.linspace(-1.0, 1.0, 5, requires_grad=True)
    began = time.monotonic()
    try:
        with pytest.warns(UserWarning, match="no sign of life for 2 s"):
            torch.compile(lambda x: torch.tanh(x * 2).sum(), backend="tensord")(x).backward()
        assert time.monotonic() - began < WAIT_S
    finally:
        daemon.resume()
    assert asked.count("Compile") == 1
    torch.testing.assert_close(x.grad, 2 / torch.cosh(x.detach() * 2) ** 2)


# -- forks ----------------------------------------------------------------------------------------


def test_a_fork_leaves_its_parents_calls_alone(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    daemon = start(*files.flags("token"))
    settings.use(address_of(daemon), ca=files.authority.path, token=files.token)
    request = service_pb2.WatchStatsRequest(interval_milliseconds=100)
    call = rpc._start("WatchStats", request.SerializeToString(), WAIT_S)
    messages = call.messages()
    next(messages)
    context, connection = call._server._context, call._socket._sslobj
    descriptor = call._socket.fileno()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            assert not transport._open_sockets  # the parent's is closed here
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(descriptor)
            # What OpenSSL may have locked in the parent is neither used nor freed.
            assert tls._made is None
            assert any(made is context for _, made in tls._inherited)
            assert any(one is connection for one in transport._inherited)
            assert rpc.client().call("GetStats", service_pb2.GetStatsRequest()).version
            assert tls._made is not None and tls._made[1] is not context
            os._exit(0)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    for _ in range(5):
        next(messages)
    messages.close()
    assert not transport._open_sockets


# -- documents ------------------------------------------------------------------------------------


def test_the_documents_commands(
    start: Callable[..., RealDaemon], settings: Settings, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What docs/deploying.md makes is what a daemon and a job take."""
    text = (ROOT / "docs" / "deploying.md").read_text()
    section = text.partition("### A daemon in a container beside the job")[2]
    block = re.search(r"```sh\n(.*?)```", section, re.DOTALL)
    assert block is not None
    script = textwrap.dedent("   " + block[1].lstrip())
    subprocess.run(["sh", "-euc", script], cwd=tmp_path, check=True, capture_output=True)
    daemon = start(
        "--listen-tls=127.0.0.1:0",
        f"--listen-cert={tmp_path}/server.crt",
        f"--listen-key={tmp_path}/server.key",
        f"--listen-ca={tmp_path}/ca.crt",
        f"--listen-token-file={tmp_path}/token",
    )
    settings.use(
        address_of(daemon, "127.0.0.1"),
        ca=tmp_path / "ca.crt", cert=tmp_path / "client.crt", key=tmp_path / "client.key",
        token=tmp_path / "token",
    )  # fmt: skip
    monkeypatch.setenv("TENSORD_STRICT", "1")
    compile_one(2.0)


# -- addresses ------------------------------------------------------------------------------------


def test_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, host, port in (
        ("tls://daemon.example:7464", "daemon.example", 7464),
        ("tls://127.0.0.1:1", "127.0.0.1", 1),
        ("tls://[::1]:65535", "::1", 65535),
        (f"tls://{'a' * 63}.svc.:7464", f"{'a' * 63}.svc.", 7464),
    ):
        monkeypatch.setenv("TENSORD_ADDRESS", text)
        found = address.resolve()
        assert (found.path, found.host, found.port, str(found)) == (None, host, port, text)
    for text in ("tls://pod..svc:7464", "tls://.svc:7464", f"tls://{'a' * 64}.svc:7464"):
        monkeypatch.setenv("TENSORD_ADDRESS", text)
        with pytest.raises(ValueError, match=r"TENSORD_ADDRESS=.*a label of the host") as caught:
            address.resolve()
        assert not isinstance(caught.value, UnicodeError)
    for text in ("tls://", "tls://host", "tls://:1", "tls://host:65536", "tls://host:x",
                 "tls://host:1/path", "tls://me@host:1", "tls://[::1", "tcp://host:1"):  # fmt: skip
        monkeypatch.setenv("TENSORD_ADDRESS", text)
        with pytest.raises(ValueError, match="TENSORD_ADDRESS"):
            address.resolve()
        found = tensorctl("--address", text, "status")
        assert found.returncode == 2, text
