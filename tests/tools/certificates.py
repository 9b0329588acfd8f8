# SPDX-License-Identifier: Apache-2.0
"""Authorities of a test's own, and the certificates that they sign."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
# By both names that a loopback has.
LOOPBACK = "DNS:localhost,IP:127.0.0.1"


@dataclass(frozen=True)
class Certificate:
    """Files; the key is closed to others."""

    path: Path
    key: Path


class Authority:
    """One that signs with a key in its folder; its own certificate is NAME.crt there."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._name = name
        self.path = folder / f"{name}.crt"
        self._openssl("req", "-x509", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.crt",
                      "-subj", f"/CN={name}", "-days", "2")  # fmt: skip

    def issue(self, name: str, names: str = LOOPBACK, days: int = 2) -> Certificate:
        """names: for whom it is, as subjectAltName has them. days: until it expires; -1: it has."""
        made = Certificate(self._folder / f"{name}.crt", self._folder / f"{name}.key")
        self._openssl("req", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr",
                      "-subj", f"/CN={name}")  # fmt: skip
        (self._folder / "names").write_text(f"subjectAltName={names}\n")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self._name}.crt",
                      "-CAkey", f"{self._name}.key", "-CAcreateserial", "-out", f"{name}.crt",
                      "-days", str(days), "-extfile", "names")  # fmt: skip
        made.key.chmod(0o600)
        return made

    def _openssl(self, *arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, cwd=self._folder, capture_output=True)


def make_certificates(folder: Path) -> None:
    """An authority (ca.crt) and a certificate of it for `localhost` (server.crt, server.key)."""
    Authority(folder).issue("server", "DNS:localhost")
