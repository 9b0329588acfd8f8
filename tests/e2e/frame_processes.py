# SPDX-License-Identifier: Apache-2.0
"""Starts processes that compile against one daemon, each by frame_runner.py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import warm_python
from real_daemon import RealDaemon

RUNNER = Path(__file__).resolve().parent / "frame_runner.py"
TIMEOUT_S = 600.0


def environment(daemon: RealDaemon, **more: str) -> dict[str, str]:
    """Of a process that is to use the daemon."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("TENSORD_")
    }
    return {
        **inherited,
        "TENSORD_ADDRESS": daemon.address,
        "TENSORD_AUTOSTART": "0",
        "OMP_WAIT_POLICY": "PASSIVE",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


def python(
    daemon: RealDaemon, *arguments: str, imported: tuple[str, ...] = ("torch",), **more: str
) -> subprocess.Popen[str]:
    """Starts Python on such arguments; more: of its environment.

    imported: modules that it begins with; warm_python.CAPTURE for one that is to capture.
    """
    return subprocess.Popen(
        [*warm_python.command(imported), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(daemon, **more),
    )


def output(process: subprocess.Popen[str]) -> str:
    """What it prints until its end, which is to be a good one."""
    printed, errors = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, printed + errors
    return printed


def run_cases(
    daemon: RealDaemon,
    files: Iterable[Path],
    how: str = "own",
    only: Iterable[str] = (),
    without: Iterable[str] = (),
    imported: tuple[str, ...] = ("torch",),
    bridge: str = "native",
) -> dict[str, Any]:
    """What a process saw of the files' cases: frame_runner.py. bridge: "python" for one that has no
    native extension."""
    native = "1" if bridge == "native" else "0"
    chosen = {"ONLY": ",".join(only), "WITHOUT": ",".join(without), "TENSORD_NATIVE": native}
    process = python(daemon, str(RUNNER), how, *map(str, files), imported=imported, **chosen)
    said: dict[str, Any] = json.loads(output(process).splitlines()[-1])
    return said
