# SPDX-License-Identifier: Apache-2.0
"""Guards of real models, recorded in one process and checked in another that builds them again."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("native_guards")
pytest.importorskip("transformers")
HERE = Path(__file__).resolve().parent


def run(verb: str, model: str, mode: str, folder: Path, change: str = "none") -> list[str]:
    done = subprocess.run(
        [sys.executable, str(HERE / "frame_models.py"), verb, model, mode, str(folder)],
        env={**os.environ, "CHANGE": change},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.parametrize("mode", ["inference", "training"])
@pytest.mark.parametrize("model", ["bert", "gpt2", "llama", "t5", "vit", "resnet"])
def test_a_model_is_known_again_without_dynamo(model: str, mode: str, tmp_path: Path) -> None:
    for line in run("record", model, mode, tmp_path):
        assert line.split(" ", 1)[1] == "", line
    assert run("check", model, mode, tmp_path) == ["holds"]


CHANGES = [
    "config", "training", "inner_training", "class", "default", "function", "dtype", "tied", "hook",
    "layers", "inner_module", "activation",
]  # fmt: skip


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("frames")
    run("record", "bert", "training", folder)
    return folder


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_not_taken_for_the_recorded_one(change: str, recorded: Path) -> None:
    (line,) = run("check", "bert", "training", recorded, change)
    assert line != "holds"
