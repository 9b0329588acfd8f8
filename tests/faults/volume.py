#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A store on a volume of 64 MiB that is full: programs that are stored are still found, others are
compiled and served from memory, also by a daemon that starts there; within 10 s of there being room
again everything is stored.

The volume is a tmpfs of a mount namespace of its own, which takes root; otherwise this is skipped.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

import campaign
from campaign import Skipped

_INSIDE = "TENSORD_FAULTS_INSIDE"
STORED, ADDED = 6, 4


def _enter_namespace() -> None:
    """Runs this program once more where its mounts are its own."""
    if os.environ.get(_INSIDE) or os.geteuid() != 0:
        return
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True, check=False)
    if probe.returncode == 0:
        os.environ[_INSIDE] = "1"
        os.execvp("unshare", ["unshare", "-m", sys.executable, *sys.argv])


def _fill(path: Path) -> None:
    """Writes until nothing more fits."""
    with path.open("wb", buffering=0) as file:
        for size in (1 << 20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def run(arguments: argparse.Namespace, table: campaign.Table) -> None:
    """With room, without, in a daemon that starts without, and with room again."""
    if not os.environ.get(_INSIDE):
        raise Skipped("only root mounts a volume")
    import jobs
    import tensord
    from real_daemon import RealDaemon

    with campaign.folder() as folder:
        volume = folder / "store"
        volume.mkdir(mode=0o700)
        mount = ["mount", "-t", "tmpfs", "-o", f"size={arguments.mib}m,mode=700", "none", volume]
        if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
            raise Skipped("this kernel mounts no tmpfs here")
        daemon = RealDaemon(folder)
        # A job whose own cache is on the volume, as by default.
        os.environ.update(
            TENSORD_ADDRESS=daemon.address, TENSORD_AUTOSTART="0", TENSORD_STORE=str(volume)
        )

        def compare(first: int, count: int) -> tuple[int, int, int]:
            """Compiled, found, and in eager or not right."""
            tensord.reset_stats()
            outcome = jobs.Outcome()
            for number in range(first, first + count):
                jobs.compare(number, outcome)
            stats = tensord.stats()
            bad = len(outcome.errors) + len(outcome.wrong) + stats["fallbacks"]
            return stats["compiled"], stats["hits"], bad

        def expect(name: str, got: tuple[int, int, int], want: tuple[int, int, int]) -> None:
            table.must(f"{name}: compiled, found, eager", got, got == want, str(want))

        try:
            expect("with room", compare(0, STORED), (STORED, 0, 0))
            _fill(volume / "filler")
            expect("full, stored", compare(0, STORED), (0, STORED, 0))
            expect("full, others", compare(100, ADDED), (ADDED, 0, 0))
            expect("full, others again", compare(100, ADDED), (0, ADDED, 0))
            problem = tensord.daemon_stats()["store_problem"]
            table.must("status says why", "memory" in problem, "memory" in problem, "True")
            daemon.stop()
            daemon.start()
            expect("started full, stored", compare(0, STORED), (0, STORED, 0))
            expect("started full, others", compare(200, ADDED), (ADDED, 0, 0))
            (volume / "filler").unlink()
            start = time.monotonic()
            while tensord.daemon_stats()["store_problem"] and time.monotonic() - start < 60:
                time.sleep(0.05)
            waited = time.monotonic() - start
            table.must("seconds until all is stored", waited, waited <= 10, "at most 10")
            daemon.kill()  # what was in memory only would be lost
            daemon.start()
            expect("with room again", compare(200, ADDED), (0, ADDED, 0))
            expect("with room again, new", compare(300, 1), (1, 0, 0))
        finally:
            daemon.close()
            # The job has mapped blobs of it; without its name it goes with the last of them.
            subprocess.run(["umount", "--lazy", volume], check=False)


if __name__ == "__main__":
    _enter_namespace()
    campaign.main(run, __doc__, mib=64)
