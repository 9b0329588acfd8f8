# SPDX-License-Identifier: Apache-2.0
"""Starts the daemon of a user who has none.

However many jobs race, one daemon is started per socket: the starter holds a file lock until the
daemon answers. The daemon is detached from the job (its own session, no inherited descriptors) and
ends itself after a long idle time. TENSORD_AUTOSTART=0 forbids all of it.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import pathlib
import shutil
import subprocess
import time

from .. import programs
from ..errors import DaemonUnavailableError
from . import address as addresses

START_TIMEOUT_S = 5.0
IDLE_EXIT_S = 3600
# The daemon's exit code when another one serves its socket, which then only has to be waited for.
ANOTHER_DAEMON_EXIT = 3
_FIRST_DELAY_S = 0.01
_LONGEST_DELAY_S = 0.2


def allowed(address: addresses.Address) -> bool:
    """True when this process may start a daemon for `address`: a Unix socket, and not forbidden."""
    return address.path is not None and os.environ.get("TENSORD_AUTOSTART", "1") != "0"


def find_daemon() -> str | None:
    """The daemon's binary: TENSORD_DAEMON, the one that comes with the package, PATH."""
    explicit = os.environ.get("TENSORD_DAEMON")
    if explicit:
        return os.path.abspath(explicit) if os.access(explicit, os.X_OK) else None
    return programs.find("tensord") or shutil.which("tensord")


def ensure_running(address: addresses.Address) -> bool:
    """Returns once something listens on `address`; True when it did not do so before.

    Raises DaemonUnavailableError, within about START_TIMEOUT_S, when nothing does. Of an address of
    the network the greeting tells.
    """
    if address.path is None:
        return False
    if addresses.listens(address):
        return False
    if not allowed(address):
        raise DaemonUnavailableError(
            f"no daemon listens on {address}; TENSORD_AUTOSTART=0 forbids starting one"
        )
    folder = os.path.dirname(address.path) or "."
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not address.explicit and os.stat(folder).st_uid not in (0, os.getuid()):
            raise DaemonUnavailableError(f"{folder} belongs to another user")
        lock = os.open(address.path + ".start", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DaemonUnavailableError(f"cannot prepare {folder} for a daemon: {error}") from error
    try:
        _start_under_lock(address, lock)
    finally:
        os.close(lock)  # drops the lock too
    return True


def _start_under_lock(address: addresses.Address, lock: int) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    delay = _FIRST_DELAY_S
    process: subprocess.Popen[bytes] | None = None
    locked = False
    while not addresses.listens(address):
        if time.monotonic() > deadline:
            raise DaemonUnavailableError(
                f"the daemon does not listen on {address} after {START_TIMEOUT_S:.0f} s; "
                f"its log is {_log_path()}"
            )
        if not locked:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                locked = True
                continue  # whoever held the lock may have started it in between
            except BlockingIOError:
                pass  # another job is starting it: wait for the socket
        elif process is None:
            process = _spawn(address)
        elif process.poll() not in (None, 0, ANOTHER_DAEMON_EXIT):
            raise DaemonUnavailableError(
                f"the daemon ended at once with status {process.returncode}; "
                f"its log is {_log_path()}"
            )
        time.sleep(delay)
        delay = min(delay * 2, _LONGEST_DELAY_S)


def _log_path() -> str:
    return os.path.join(addresses.state_folder(), "tensord.log")


def _spawn(address: addresses.Address) -> subprocess.Popen[bytes]:
    binary = find_daemon()
    if binary is None:
        raise DaemonUnavailableError(
            "no daemon runs and its binary `tensord` was not found; "
            "set TENSORD_DAEMON to it or put it on PATH"
        )
    try:
        os.makedirs(addresses.state_folder(), mode=0o700, exist_ok=True)
        with open(_log_path(), "ab") as log:
            process = subprocess.Popen(
                [binary, "--idle-exit", str(IDLE_EXIT_S)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                close_fds=True,
                cwd="/",  # never keeps the job's folder busy
                env=_daemon_environment(address),
            )
    except OSError as error:
        raise DaemonUnavailableError(f"cannot start {binary}: {error}") from error
    # The daemon outlives this object; without this, its collection warns about a running child.
    _started.append(process)
    return process


# What steers one rank or one GPU of the job must not steer the daemon of all jobs.
_NOT_INHERITED = ("LD_PRELOAD", "CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RANK", "LOCAL_RANK")


def _daemon_environment(address: addresses.Address) -> dict[str, str]:
    environment = {name: v for name, v in os.environ.items() if name not in _NOT_INHERITED}
    if address.explicit:  # made absolute: the daemon runs in another folder
        environment["TENSORD_ADDRESS"] = f"unix:{address.path}"
    nvrtc = find_nvrtc()
    if nvrtc is not None:
        environment.setdefault("TENSORD_NVRTC", nvrtc)
    return environment


# Below a Python environment's site-packages: NVRTC of CUDA 13 and later, and of CUDA 12.
_NVRTC_FOLDERS = ("nvidia/cu[1-9]*/lib", "nvidia/cuda_nvrtc/lib")


def find_nvrtc() -> str | None:
    """The folder of the NVRTC that torch's wheels brought along; torch is not imported for it."""
    torch = importlib.util.find_spec("torch")
    if torch is None or torch.origin is None:
        return None
    site_packages = pathlib.Path(torch.origin).parent.parent
    for pattern in _NVRTC_FOLDERS:
        for folder in sorted(site_packages.glob(pattern), reverse=True):
            if any(folder.glob("libnvrtc.so.*")):
                return str(folder)
    return None


_started: list[subprocess.Popen[bytes]] = []
