# SPDX-License-Identifier: Apache-2.0
"""A Redis of a test's own: on a Unix socket, or with TLS on a port of the loopback."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

# Debian's redis-tools brings the server under this name too, without a service of the system.
PROGRAMS = ("redis-server", "redis-check-rdb")
START_TIMEOUT_S = 20.0


def program() -> str | None:
    """Path of the server's program; None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def free_port() -> int:
    """A port of the loopback on which nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def make_certificates(folder: Path) -> None:
    """An authority (ca.crt) and a certificate of it for `localhost` (server.crt, server.key)."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, cwd=folder, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=test",
            "-days", "2")  # fmt: skip
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.crt", "-CAkey", "ca.key",
            "-CAcreateserial", "-out", "server.crt", "-days", "2", "-extfile",
            "names")  # fmt: skip


class RedisServer:
    """One server process, started at once.

    folder: where its socket, certificates and log go. tls: on a port, for `localhost`, and only
    for the users of the ACL: `writer` with the password `p@ss`, who may do what a daemon needs, and
    `reader` with `only`, who may read.
    """

    def __init__(self, folder: Path, tls: bool = False, flags: tuple[str, ...] = ()) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.tls = tls
        self.flags = flags
        self.ca = folder / "ca.crt"
        self.port = free_port() if tls else 0
        if tls:
            make_certificates(folder)
        self.url = (
            f"rediss://writer:p%40ss@localhost:{self.port}"
            if tls
            else f"redis+unix://{folder / 'redis'}"
        )
        self.start()

    def start(self) -> None:
        """Starts the process, and waits until it listens."""
        flags = ["--save", "", "--dir", str(self.folder), "--logfile", "log", "--maxclients",
                 "4000", *self.flags]  # fmt: skip
        if self.tls:
            reads = ("~tensord:*", "+get", "+select", "+auth")
            flags += ["--port", "0", "--tls-port", str(self.port), "--bind", "127.0.0.1",
                      "--tls-cert-file", "server.crt", "--tls-key-file", "server.key",
                      "--tls-ca-cert-file", "ca.crt", "--tls-auth-clients", "no",
                      "--user", "writer", "on", ">p@ss", *reads, "+set", "+del", "+eval",
                      "--user", "reader", "on", ">only", *reads,
                      "--user", "default", "off"]  # fmt: skip
        else:
            flags += ["--port", "0", "--unixsocket", "redis", "--unixsocketperm", "700"]
        path = program()
        assert path is not None, "there is no redis-server"
        self.process = subprocess.Popen(
            ["redis-server", *flags], executable=path, cwd=self.folder, stdin=subprocess.DEVNULL
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._listens():
            if self.process.poll() is not None or time.monotonic() > deadline:
                log = self.folder / "log"
                raise RuntimeError(log.read_text() if log.exists() else "redis did not start")
            time.sleep(0.02)

    def _listens(self) -> bool:
        try:
            if self.tls:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
            else:
                with socket.socket(socket.AF_UNIX) as probe:
                    probe.connect(str(self.folder / "redis"))
            return True
        except OSError:
            return False

    def stop(self) -> None:
        """Ends the process at once; what it holds is lost."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(20)

    def __enter__(self) -> RedisServer:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
