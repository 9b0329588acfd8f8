# SPDX-License-Identifier: Apache-2.0
"""What Linux says of a running process, by its number."""

from __future__ import annotations

import os
from pathlib import Path


def resident_bytes(pid: int) -> int:
    """Memory that it has now."""
    return _status_bytes(pid, "VmRSS:")


def anonymous_bytes_below(pid: int) -> int:
    """What it and all processes below it have that no file holds. What vanishes is nothing."""
    try:
        held = _status_bytes(pid, "RssAnon:")
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                held += anonymous_bytes_below(int(child))
    except OSError:
        return 0
    return held


def peak_resident_bytes(pid: int) -> int:
    """The most that it has had."""
    return _status_bytes(pid, "VmHWM:")


def cpu_seconds(pid: int) -> float:
    """User and system time so far."""
    user, system = _stat(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def waits_for_a_disk(pid: int) -> bool:
    """Whether it is in uninterruptible sleep."""
    return _stat(pid)[0] == "D"


def descriptors(pid: int) -> int:
    """How many it has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def _status_bytes(pid: int, field: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) * 1024
    return 0


def _stat(pid: int) -> list[str]:
    """From the state on, which stands behind the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
