# SPDX-License-Identifier: Apache-2.0
"""Changes of the client's table of passes, for tests: what aims at GPUs runs on the CPU, others are
run in a pass's place."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tensord import passes


def change(monkeypatch: pytest.MonkeyPatch, *names: str, **fields: Any) -> None:
    """Replaces fields of the passes of these names; of all where none is named."""
    known = {one.name for one in passes.TABLE}
    assert known >= set(names)
    table = [
        dataclasses.replace(one, **fields) if one.name in (names or known) else one
        for one in passes.TABLE
    ]
    monkeypatch.setattr(passes, "TABLE", tuple(table))


def on_any_device(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Has these passes, or all, run on graphs without a GPU's tensors too."""
    change(monkeypatch, *names, devices=())
