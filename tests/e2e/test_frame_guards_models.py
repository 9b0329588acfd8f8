# SPDX-License-Identifier: Apache-2.0
"""Guards of real models, recorded in one process and checked in another that builds them again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import warm_python

pytestmark = [pytest.mark.usefixtures("native_guards"), pytest.mark.long]
pytest.importorskip("transformers")
HERE = Path(__file__).resolve().parent


CASES = [
    f"{model}/{mode}"
    for model in ("bert", "gpt2", "llama", "t5", "vit", "resnet")
    for mode in ("inference", "training")
]
CHANGES = [
    "config", "training", "inner_training", "class", "default", "function", "dtype", "tied", "hook",
    "layers", "inner_module", "activation",
]  # fmt: skip
CHANGED = "bert/training"


def run(verb: str, folder: Path, cases: list[str]) -> dict[str, list[str]]:
    """What frame_models.py found, by case."""
    done = subprocess.run(
        [*warm_python.command(), str(HERE / "frame_models.py"), verb, str(folder), *cases],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, list[str]] = {case: [] for case in cases}
    for line in done.stdout.splitlines():
        case, text = line.split(" ", 1)
        found[case].append(text)
    return found


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("frames")


@pytest.fixture(scope="module")
def recorded(folder: Path) -> dict[str, list[str]]:
    """One process's frames of all models."""
    return run("record", folder, CASES)


@pytest.fixture(scope="module")
def checked(folder: Path, recorded: dict[str, list[str]]) -> dict[str, list[str]]:
    """What another finds of the same models, and of changed ones."""
    return run("check", folder, [*CASES, *(f"{CHANGED}/{change}" for change in CHANGES)])


@pytest.mark.parametrize("case", CASES)
def test_a_model_is_known_again_without_dynamo(
    case: str, recorded: dict[str, list[str]], checked: dict[str, list[str]]
) -> None:
    assert recorded[case]
    for line in recorded[case]:
        assert line.split(" ", 1)[1] == "", line
    assert checked[case] == ["holds"]


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_model_is_not_taken_for_the_recorded_one(
    change: str, checked: dict[str, list[str]]
) -> None:
    (line,) = checked[f"{CHANGED}/{change}"]
    assert line != "holds"
