# SPDX-License-Identifier: Apache-2.0
"""spdx.py finds and adds the licence's line."""

from __future__ import annotations

import subprocess
from pathlib import Path

import files
import pytest
import spdx


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for module in (files, spdx):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    return tmp_path


def check(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr("sys.argv", ["spdx.py", *arguments])
    return spdx.main()


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("a.cc", "int x;\n", f"// {spdx.LICENCE}\nint x;\n"),
        ("a.sh", "#!/bin/sh\ntrue\n", f"#!/bin/sh\n# {spdx.LICENCE}\ntrue\n"),
        ("CMakeLists.txt", "project(x)\n", f"# {spdx.LICENCE}\nproject(x)\n"),
    ],
)
def test_adds_the_line_once(
    name: str, before: str, after: str, tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tree / name).write_text(before)
    assert check(monkeypatch) == 1
    assert check(monkeypatch, "--fix") == 0
    assert (tree / name).read_text() == after
    assert check(monkeypatch) == 0
    check(monkeypatch, "--fix")
    assert (tree / name).read_text() == after


def test_text_needs_none(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tree / "a.md").write_text("text\n")
    (tree / "__init__.py").write_text("")
    (tree / files.OTHERS).mkdir(parents=True)
    (tree / files.OTHERS / "a.proto").write_text("// Copyright of somebody else.\n")
    assert check(monkeypatch) == 0
