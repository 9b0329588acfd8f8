# SPDX-License-Identifier: Apache-2.0
"""A Redis of a test's own: on a Unix socket, or with TLS on a port of the loopback."""

from __future__ import annotations

import shutil
from pathlib import Path

from certificates import make_certificates
from own_server import OwnServer, free_port

# Debian's redis-tools brings the server under this name too, without a service of the system.
PROGRAMS = ("redis-server", "redis-check-rdb")


def program() -> str | None:
    """Path of the server's program; None where there is none."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class RedisServer(OwnServer):
    """One server process, started at once; what it holds is lost when it stops.

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
        self._start(
            ["redis-server", *flags],
            ("127.0.0.1", self.port) if self.tls else self.folder / "redis",
            executable=path,
        )
