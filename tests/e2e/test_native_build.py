# SPDX-License-Identifier: Apache-2.0
"""Where the native extension is found: a bundle's, then the user's cache."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tensord._native import build

pytestmark = pytest.mark.usefixtures("native_guards")


@pytest.fixture
def prebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle's extension, for this Python and torch; an empty cache; no compiler."""
    built = build.built_path()
    assert built is not None
    path = tmp_path / "prebuilt" / build.key() / built.name
    path.parent.mkdir(parents=True)
    shutil.copy(built, path)
    monkeypatch.setattr(build, "PREBUILT", tmp_path / "prebuilt")
    monkeypatch.setenv("TENSORD_NATIVE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(build, "compiler", lambda: None)
    return path


def test_a_bundles_is_found_where_nothing_can_be_built(prebuilt: Path) -> None:
    assert build.built_path() == prebuilt
    assert build.build() == prebuilt


def test_one_that_others_may_write_is_not(prebuilt: Path) -> None:
    prebuilt.chmod(0o666)
    assert build.built_path() is None
    with pytest.raises(RuntimeError, match="no C\\+\\+ compiler"):
        build.build()


def test_one_for_another_torch_is_not(prebuilt: Path) -> None:
    prebuilt.parent.rename(prebuilt.parent.with_name("0" * 32))
    assert build.built_path() is None


@pytest.mark.long
def test_is_built_into_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, str(Path(build.__file__)), "--into", str(tmp_path)]
    subprocess.run(command, check=True, capture_output=True)
    assert (tmp_path / build.key() / f"{build.NAME}.so").stat().st_size > 100_000
