# SPDX-License-Identifier: Apache-2.0
"""Certificates and tokens: replaced under a running daemon, and those with which none starts."""

from __future__ import annotations

import contextlib
import os
import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import tensord
from certificates import Certificate
from real_daemon import RealDaemon, binary
from tensord.errors import DaemonRefusedError, DaemonUnavailableError
from tensord.wire import rpc
from tls_fixtures import (
    OTHER_TOKEN,
    TOKEN,
    WAIT_S,
    Files,
    Settings,
    address_of,
    compile_one,
    port_of,
)

pytest_plugins = ["tls_fixtures"]


# -- what is replaced -----------------------------------------------------------------------------


def test_a_token_is_replaced(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    daemon = start(*files.flags("token"))
    old, new = files.write("old", TOKEN), files.write("new", OTHER_TOKEN)

    def let_in(token: Path) -> bool:
        settings.use(address_of(daemon), ca=files.authority.path, token=token)
        try:
            return bool(rpc.client().hello().daemon_version)
        except DaemonRefusedError:
            return False

    assert (let_in(old), let_in(new)) == (True, False)
    files.write("token", f"{OTHER_TOKEN}\n{TOKEN}")
    assert (let_in(old), let_in(new)) == (True, True)
    assert let_in(files.token)  # of several the first
    files.write("token", OTHER_TOKEN)
    assert (let_in(old), let_in(new)) == (False, True)
    # Others read it: nobody is let in until that is mended.
    files.token.chmod(0o644)
    assert (let_in(old), let_in(new)) == (False, False)
    files.token.chmod(0o600)
    assert let_in(new)
    files.token.unlink()
    assert not let_in(new)
    files.write("token", TOKEN)
    assert (let_in(old), let_in(new)) == (True, False)


def test_a_token_that_counts_no_more_ends_no_job(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    """Graphs run in eager, and do not ask again and again."""
    daemon = start(*files.flags("token"))
    brought = files.write("brought", TOKEN)
    settings.use(address_of(daemon), ca=files.authority.path, token=brought)
    compile_one(2.0)
    assert tensord.stats()["compiled"] == 1
    files.write("token", OTHER_TOKEN)
    begin = time.monotonic()
    for factor in (3.0, 4.0, 5.0):
        compile_one(factor)
    assert time.monotonic() - begin < WAIT_S
    stats = tensord.stats()
    assert (stats["compiled"], stats["fallbacks"]) == (1, 3)
    # The job's file is read again, too.
    files.write("brought", OTHER_TOKEN)
    rpc.client().forget()
    compile_one(6.0)
    assert tensord.stats()["compiled"] == 2
    settings.use(daemon.address)
    assert tensord.daemon_stats()["calls_unauthenticated"] == 1


def shown_at(port: int, ca: Path) -> bytes:
    """The certificate that the daemon shows, in DER."""
    context = ssl.create_default_context(cafile=str(ca))
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(("127.0.0.1", port), WAIT_S) as plain:
        with context.wrap_socket(plain, server_hostname="localhost") as connection:
            return connection.getpeercert(binary_form=True) or b""


def wait_until(what: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_the_daemons_certificate_is_replaced(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    daemon = start(*files.flags("token"))
    port, ca = port_of(daemon), files.authority.path
    before = ssl.PEM_cert_to_DER_cert(files.server.path.read_text())
    assert shown_at(port, ca) == before
    renewed = files.authority.issue("renewed")
    after = ssl.PEM_cert_to_DER_cert(renewed.path.read_text())
    # One after the other, as whoever renews them does: what does not go together is not shown.
    renewed.key.replace(files.server.key)
    time.sleep(6)
    renewed.path.replace(files.server.path)

    def shows_it() -> bool:
        with contextlib.suppress(OSError):
            return shown_at(port, ca) == after
        return False

    wait_until(shows_it)
    settings.use(address_of(daemon), ca=ca, token=files.token)
    assert rpc.client().hello().pid == daemon.process.pid


def test_the_clients_authority_is_replaced(
    start: Callable[..., RealDaemon], files: Files, settings: Settings
) -> None:
    authorities = files.folder / "listen-ca.crt"
    authorities.write_bytes(files.authority.path.read_bytes())
    daemon = start(*files.flags("token"), f"--listen-ca={authorities}")
    other = files.stranger.issue("other", "DNS:job")

    def let_in(client: Certificate) -> bool:
        settings.use(address_of(daemon), ca=files.authority.path, token=files.token,
                     cert=client.path, key=client.key)  # fmt: skip
        try:
            return rpc.client().hello().pid == daemon.process.pid
        except DaemonUnavailableError:
            return False

    assert (let_in(files.client), let_in(other)) == (True, False)
    files.write("listen-ca.crt", files.stranger.path.read_text())
    wait_until(lambda: let_in(other))
    assert not let_in(files.client)


# -- a daemon that does not start -----------------------------------------------------------------


def start_fails(folder: Path, *flags: str, **environment: str) -> tuple[int, str]:
    """The exit code and the words of a daemon that is to end by itself."""
    inherited = {name: v for name, v in os.environ.items() if not name.startswith("TENSORD_")}
    done = subprocess.run(
        [str(binary()), f"--address=unix:{folder}/s", f"--store={folder}/store", *flags],
        capture_output=True, text=True, timeout=60, check=False,
        env={**inherited, "TENSORD_CONFIG": "/dev/null", **environment},
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize(("left_out", "words"), [
    ("--listen-token-file", "nobody would be kept out: set listen_ca"),
    ("--listen-cert", "set listen_cert and listen_key too"),
    ("--listen-key", "set listen_cert and listen_key too"),
    ("--listen-tls", "nothing uses it: set listen_tls too"),
])  # fmt: skip
def test_what_a_port_needs(clean: Path, files: Files, left_out: str, words: str) -> None:
    flags = [flag for flag in files.flags("token") if not flag.startswith(left_out + "=")]
    code, said = start_fails(clean, *flags)
    assert code == 2 and words in said, said
    # The same from the environment, as in a container.
    variables = dict(flag.removeprefix("--").split("=", 1) for flag in flags)
    named = {f"TENSORD_{name.upper().replace('-', '_')}": v for name, v in variables.items()}
    code, said = start_fails(clean, **named)
    assert code == 2 and words in said and "TENSORD_LISTEN_" in said, said


def test_files_that_a_port_cannot_use(clean: Path, files: Files) -> None:
    def fails(words: str) -> None:
        code, said = start_fails(clean, *files.flags("certificate", "token"))
        assert code == 1 and words in said, said

    for text, words in (("", "has no token"), ("short", "has a token of 5 characters")):
        files.write("token", text)
        fails(words)
    files.write("token", TOKEN)
    for mode in (0o644, 0o620):
        files.token.chmod(mode)
        fails("listen_token_file: ")
        fails("may be written by its group or read by others: chmod 600 it")
    files.token.chmod(0o640)  # service managers hand it to a group
    files.server.key.chmod(0o644)
    fails("listen_key: ")
    files.server.key.unlink()
    fails("listen_key: cannot read ")
    files.client.key.replace(files.server.key)
    fails("listen_key: cannot use ")  # of another certificate
    files.client.path.replace(files.server.path)
    files.authority.path.write_text("none\n")
    fails("listen_ca: cannot use ")
    files.server.path.write_text("none\n")
    fails("listen_cert: cannot use ")


def test_a_port_that_is_taken(clean: Path, files: Files, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        code, said = start_fails(clean, *files.flags("token"), f"--listen-tls={where}")
    assert code == 1 and f"cannot listen on {where} (listen_tls): is the port taken?" in said
    daemon = RealDaemon(flags=files.flags("token"))
    where = f"127.0.0.1:{port_of(daemon)}"
    try:
        code, said = start_fails(clean, *files.flags("token"), f"--listen-tls={where}")
        assert code == 1 and f"cannot listen on {where} (listen_tls)" in said
    finally:
        daemon.close()


def test_the_clients_address_is_no_place_to_listen(clean: Path) -> None:
    code, said = start_fails(clean, "--address=tls://127.0.0.1:7464")
    assert code == 2 and "where to listen with TLS says listen_tls" in said
