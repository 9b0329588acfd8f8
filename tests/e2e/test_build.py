# SPDX-License-Identifier: Apache-2.0
"""What a change makes the build do again."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

BUILD = Path(__file__).resolve().parents[2] / "build"


def readers(header: str) -> list[str]:
    """The objects of the last build that a file is compiled into."""
    done = subprocess.run(
        ["ninja", "-C", BUILD, "-t", "deps"], check=True, capture_output=True, text=True
    )
    blocks = re.split(r"\n(?=\S)", done.stdout)
    return [block.split(":", 1)[0] for block in blocks if f"/{header}\n" in f"{block}\n"]


def test_a_field_of_the_statistics_rebuilds_few_objects() -> None:
    if not (BUILD / "build.ninja").exists():
        pytest.skip("built by something else than ninja")
    objects = readers("tensord/v1/stats.pb.h")
    assert any("tensord_monitoring" in name for name in objects)
    assert len(objects) < 20, "what need not know the statistics includes them"
