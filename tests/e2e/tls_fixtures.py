# SPDX-License-Identifier: Apache-2.0
"""Certificates, tokens and settings of tests that call a daemon by TCP with TLS."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import tensord
import torch
from certificates import Authority, Certificate
from compare import check
from real_daemon import RealDaemon, binary
from tensord.wire import rpc

WAIT_S = 30.0
TOKEN, OTHER_TOKEN = "a" * 32, "b" * 32
SETTINGS = ("TENSORD_TLS_CA", "TENSORD_TLS_CERT", "TENSORD_TLS_KEY", "TENSORD_TOKEN_FILE")


class Files:
    """Certificates and tokens of a test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.authority = Authority(folder)
        self.stranger = Authority(folder, "stranger")
        self.server = self.authority.issue("server")
        self.client = self.authority.issue("client", "DNS:job")
        self.token = self.write("token", TOKEN)

    def write(self, name: str, text: str) -> Path:
        """A file that nobody else can read, in place of what was there."""
        path = self.folder / name
        made = path.with_suffix(".new")
        made.write_text(f"{text}\n")
        made.chmod(0o600)
        made.replace(path)
        return path

    def flags(self, *asks_for: str, server: Certificate | None = None) -> tuple[str, ...]:
        """Of a daemon that asks for a "certificate", a "token", or both."""
        server = server or self.server
        asked = {
            "certificate": f"--listen-ca={self.authority.path}",
            "token": f"--listen-token-file={self.token}",
        }
        return (
            "--listen-tls=127.0.0.1:0",
            f"--listen-cert={server.path}",
            f"--listen-key={server.key}",
            *(asked[one] for one in asks_for),
        )


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


class Settings:
    """What a job has in its environment."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch

    def use(self, where: str, **files: Path | str) -> None:
        """ca, cert, key, token: files; what is not given is not set."""
        self._monkeypatch.setenv("TENSORD_ADDRESS", where)
        for name in SETTINGS:
            self._monkeypatch.delenv(name, raising=False)
        for name, path in files.items():
            suffix = "TOKEN_FILE" if name == "token" else f"TLS_{name.upper()}"
            self._monkeypatch.setenv(f"TENSORD_{suffix}", str(path))
        rpc.client().forget()


@pytest.fixture
def settings(clean: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    monkeypatch.setattr(rpc, "GREETING_SILENCE_S", 2.0)  # other tests keep the machine busy
    yield Settings(monkeypatch)
    rpc.client().forget()


def port_of(daemon: RealDaemon) -> int:
    """Where it listens; of a port 0 the log says which one was taken."""
    return int(re.findall(r"event=listening address=127\.0\.0\.1:(\d+)", daemon.log_text())[-1])


def address_of(daemon: RealDaemon, host: str = "localhost") -> str:
    return f"tls://{host}:{port_of(daemon)}"


def compile_one(factor: float) -> None:
    """Compiles and runs a function, and compares it with eager."""
    x = torch.randn(13, 17)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x * factor).sum(-1)

    torch._dynamo.reset()
    check("result", torch.compile(function, backend="tensord")(x), function(x))


def tensorctl(*arguments: str) -> subprocess.CompletedProcess[str]:
    """With the address and the settings of this process."""
    return subprocess.run(
        [str(binary("tensorctl")), *arguments],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def refused(error: type[Exception], words: str) -> None:
    """The greeting fails so, and a graph runs in eager, which is said."""
    with pytest.raises(error, match=words):
        rpc.client().hello()
    before = tensord.stats()
    with pytest.warns(UserWarning, match=words):
        compile_one(5.0)
    after = tensord.stats()
    assert after["compiled"] == before["compiled"]
    assert after["fallbacks"] == before["fallbacks"] + 1
