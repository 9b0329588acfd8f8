# SPDX-License-Identifier: Apache-2.0
"""Environments of Python below build/, for what some tests run and none imports: it is large, or
wants other versions than the tests do."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

BUILD = Path(__file__).resolve().parents[2] / "build"
INSTALL_TIMEOUT_S = 300


def install(folder: Path, name: str, arguments: tuple[str, ...]) -> str:
    """Installs packages from PyPI into the environment `folder`, once. arguments: pip's. name: of
    this set of packages. Empty, or why they cannot be had."""
    folder.mkdir(parents=True, exist_ok=True)
    done = folder / f"{name}.installed"
    wanted = " ".join(arguments)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if done.exists() and done.read_text() == wanted:
            return ""
        python = folder / "bin" / "python"
        commands: list[list[str]] = [[str(python), "-m", "pip", "install", "--quiet",
                                      "--disable-pip-version-check", *arguments]]  # fmt: skip
        if not python.exists():
            commands.insert(0, [sys.executable, "-m", "venv", str(folder)])
        try:
            for command in commands:
                subprocess.run(command, check=True, capture_output=True, text=True,
                               timeout=INSTALL_TIMEOUT_S)  # fmt: skip
        except subprocess.CalledProcessError as error:
            return f"{wanted} cannot be installed: {error.stderr.strip().splitlines()[-1:]}"
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{wanted} cannot be installed: {error}"
        done.write_text(wanted)
    return ""
