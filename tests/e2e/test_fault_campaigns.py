# SPDX-License-Identifier: Apache-2.0
"""The campaigns of tests/faults, each for a few seconds; by hand they run as long as told."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import warm_python
from long_cases import long_but

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "faults"))

from disk import Call, Disk  # noqa: E402
from rounding import is_right  # noqa: E402

SLICES = {
    "kills": "--count 3 --clients 4",
    "publish": "--count 1 --stride 5",
    "errors": "--stride 9",
    "power": "--count 40",
    "flips": "--count 15",
    "forged": "--count 500",
    "frames": "--count 500",
    "reader": "--count 400 --batch 200",
    "limit": "--limit-mib 2 --seconds 8",
    "volume": "",
    "hangs": "--graphs 3 --slack 6",
    "stops": "--count 2 --timing 0",
    "evictions": "--count 1000 --publish 300 --timing 0",
    "bombs": "--count 3 --job-seconds 3 --alone 2 --timing 0",
    "million": "--count 2000 --keep-cache 1",
    "soak": "--minutes 0.2 --clients 2",
    "service": "--places 1 --errors 2",
    # With itself: what is tried between two builds, without building the other.
    "versions": f"--bundle {ROOT} --most 3",
}
LIMIT_S = 300.0


@pytest.mark.parametrize("name", long_but(("publish", "power", "flips", "forged"), SLICES))
def test_campaign(name: str) -> None:
    script = ROOT / "tests" / "faults" / f"{name}.py"
    done = subprocess.run(
        [*warm_python.command(warm_python.CAPTURE), str(script), *SLICES[name].split()],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env={**os.environ, "OMP_WAIT_POLICY": "PASSIVE"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    if done.stdout.startswith("skipped: "):
        pytest.skip(done.stdout.strip())


def test_every_campaign_has_a_slice() -> None:
    commands = {
        path.stem
        for path in (ROOT / "tests" / "faults").glob("*.py")
        if "campaign.main(" in path.read_text()
    }
    assert commands == set(SLICES)


def test_a_job_allows_for_eagers_own_roundings() -> None:
    exact = torch.tensor([0.0, 1.0], dtype=torch.float64)
    eager = torch.tensor([1e-5, 1.0])
    assert is_right(torch.tensor([-3e-6, 1.0]), eager, exact)
    assert not is_right(torch.tensor([6e-5, 1.0]), eager, exact)
    assert not is_right(torch.tensor([-3e-6, 1.0]), eager, eager.double())
    assert not is_right(torch.tensor([float("nan"), 1.0]), eager, exact)


# -- the model of a disk --------------------------------------------------------------------------


def _states(calls: list[Call], journal: bool) -> list[dict[str, bytes | None]]:
    disk = Disk("/s")
    for call in calls:
        disk.make(call)
    return [disk.after_power_loss(random.Random(seed), journal) for seed in range(100)]


def _written(path: str, data: bytes, synced: bool) -> list[Call]:
    calls = [Call("c", 7, 0, path, b""), Call("w", 7, 0, path, data)]
    return [*calls, Call("s", 7, 0, path, b"")] if synced else calls


@pytest.mark.parametrize("journal", [False, True])
def test_what_is_synced_stays(journal: bool) -> None:
    calls = [*_written("/s/a", b"data", synced=True), Call("s", 1, 0, "/s", b"")]
    assert all(state == {"/s": None, "/s/a": b"data"} for state in _states(calls, journal))


@pytest.mark.parametrize("journal", [False, True])
def test_what_is_not_synced_may_be_lost_or_torn(journal: bool) -> None:
    data = bytes([1]) * 4096
    found = _states(_written("/s/a", data, synced=False), journal)
    contents = [state.get("/s/a") for state in found]
    assert None in contents and b"" in contents and data in contents
    assert any(content and content != data for content in contents)


def test_a_folder_that_is_synced_outlives_its_parent_s_changes_only_with_a_journal() -> None:
    calls = [
        Call("m", 0, 0, "/s/f", b""),
        *_written("/s/f/a", b"data", synced=True),
        Call("s", 2, 0, "/s/f", b""),
    ]
    assert all("/s/f/a" in state for state in _states(calls, journal=True))
    assert any("/s/f/a" not in state for state in _states(calls, journal=False))


@pytest.mark.parametrize("journal", [False, True])
def test_a_rename_happens_in_both_folders_or_in_neither(journal: bool) -> None:
    calls = [
        Call("m", 0, 0, "/s/t", b""),
        *_written("/s/t/a", b"data", synced=True),
        Call("s", 2, 0, "/s/t", b""),
        Call("s", 1, 0, "/s", b""),
        Call("r", 0, 0, "/s/t/a", b"/s/b"),
    ]
    found = _states(calls, journal)
    assert all(("/s/t/a" in state) != ("/s/b" in state) for state in found)
    assert any("/s/b" in state for state in found)
