# SPDX-License-Identifier: Apache-2.0
"""includes.py finds what a room may not include, in both languages, and a wrong table."""

from __future__ import annotations

import subprocess
from pathlib import Path

import files
import includes
import pytest


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty repository that the check looks at."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for module in (files, includes):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(includes, "CLIENT", tmp_path / "client")
    monkeypatch.setattr("sys.argv", ["includes.py"])
    return tmp_path


def write(path: Path, text: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_the_table_has_no_arrow_upwards() -> None:
    assert includes.check_table() == []


def test_the_table_has_no_more_than_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    assert includes.unused() == []
    monkeypatch.setitem(includes.ROOMS, "compiler/sym", ["base", "proto", "compiler/ops"])
    assert includes.unused() == ["compiler/sym may include compiler/ops, and does not"]


@pytest.mark.parametrize(
    ("room", "may", "said"),
    [
        ("base", ["runtime"], "stands below"),
        ("base", ["cellar"], "is no room"),
        ("compiler/sym", ["compiler/graph"], "stands below"),
        ("runtime/base", ["runtime"], "stands below"),
    ],
)
def test_a_wrong_table(
    room: str, may: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(includes.ROOMS, room, may)
    assert any(said in line for line in includes.check_table())


def test_cpp(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree / "base/check.h")
    write(tree / "compiler/graph/node.h", '#include "base/check.h"\n#include <vector>\n')
    assert includes.main() == 0
    write(tree / "base/check.cc", '#include "base/check.h"\n#include "compiler/graph/node.h"\n')
    assert includes.main() == 1
    assert "base/check.cc:2: base may not include compiler/graph/node.h" in capsys.readouterr().out


def test_generated_headers(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree / "server/compile/flow.h", '#include "tensord/v1/service.pb.h"\n')
    assert includes.main() == 0
    write(tree / "compiler/graph/node.h", '#include "tensord/v1/stats.pb.h"\n')
    write(tree / "server/pool/pool.h", '#include "tensord/v1/service.grpc.pb.h"\n')
    assert includes.main() == 1
    shown = capsys.readouterr().out
    assert "node.h:1: compiler/graph may not include tensord/v1/stats.pb.h" in shown
    assert "pool.h:1: server/pool may not include tensord/v1/service.grpc.pb.h" in shown


def test_python(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    client = tree / "client/tensord"
    write(client / "capture/__init__.py", "from ..wire import rpc\n")
    write(client / "wire/rpc.py", "def f():\n    from ..capture import partition\n")
    assert includes.main() == 1
    assert "client/tensord/wire may not include tensord.capture" in capsys.readouterr().out


def test_a_folder_without_a_room(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tree / "attic/box.cc")
    assert includes.main() == 1
    assert "attic/: no room has this folder" in capsys.readouterr().out


def test_the_extension_has_no_copy_of_the_runtimes_interface() -> None:
    """A formatter that writes anew leaves a file where a link was."""
    link = files.ROOT / "client/tensord/_native/runtime.h"
    assert link.is_symlink()
    assert link.samefile(files.ROOT / "runtime/include/tensord/runtime.h")
