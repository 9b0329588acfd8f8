# SPDX-License-Identifier: Apache-2.0
"""check_docs.py finds what documents say of things that do not exist."""

from __future__ import annotations

import pathlib
import subprocess

import check_docs
import pytest


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> check_docs.Tree:
    """A small repository: one source, one document."""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    (tmp_path / "server").mkdir()
    (tmp_path / "server" / "config.cc").write_text(
        'int RunDaemon(); // {"store_limit"}, "--dump", TENSORD_STORE\n'
    )
    return check_docs.Tree(tmp_path)


def findings(tree: check_docs.Tree, text: str) -> list[str]:
    document = tree.root / "page.md"
    document.write_text(text)
    return [what for _, what in check_docs.check(tree, document)]


@pytest.mark.parametrize(
    "text",
    [
        "`server/config.cc`, `config.cc`, `server/` and `server/*.cc`",
        "`RunDaemon()` and `RunDaemon`",
        "`tensord --dump --store-limit 4`, `TENSORD_STORE`",
        "`cmake --preset release` is somebody else's",
        "[a part](#a-part)\n\n# A part\n",
        "```\nsomebody --else\n```",
    ],
)
def test_what_exists_is_fine(tree: check_docs.Tree, text: str) -> None:
    assert findings(tree, text) == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("`server/gone.cc`", "server/gone.cc"),
        ("`gone.cc`", "gone.cc"),
        ("`RunDemon()`", "RunDemon"),
        ("`RunDemon`", "RunDemon"),
        ("`tensord --dumb`", "--dumb"),
        ("`--dumb`", "--dumb"),
        ("`TENSORD_STORES`", "TENSORD_STORES"),
        ("```\ntensorctl --dumb\n```", "--dumb"),
        ("[there](gone.md)", "gone.md"),
        ("[there](#gone)", "#gone"),
        ("word " * 121, "121 words"),
        ("- " + "word " * 121, "words"),
        ("| a | " + "word " * 121 + "|", "121 words"),
    ],
)
def test_what_does_not_exist_is_found(tree: check_docs.Tree, text: str, wrong: str) -> None:
    (found,) = findings(tree, text)
    assert wrong in found


@pytest.mark.parametrize(
    ("name", "text", "wrong"),
    [
        ("a.cc", 'int x;  // server/config.cc, config.cc, "tensord/config.cc"', []),
        ("a.cc", "// PASS_test.cc, build/made.h and nvrtc.h", []),
        ("a.cc", '#include "gone.h"', []),
        ("a.cc", "int x;\nint y;  // as in gone.cc.", [(2, "gone.cc")]),
        ("a.cc", "// client/config.cc:", [(1, "client/config.cc")]),
        (
            "a.py",
            '"""Says\ngone.py."""\nx = "other.py"  # (lost.py)',
            [(2, "gone.py"), (3, "lost.py")],
        ),
        ("a.sh", "run gone.sh  # see lost.sh", [(1, "lost.sh")]),
    ],
)
def test_files_in_comments(
    tree: check_docs.Tree, name: str, text: str, wrong: list[tuple[int, str]]
) -> None:
    source = tree.root / name
    source.write_text(text)
    expected = [(line, f"no such file: {file}") for line, file in wrong]
    assert list(check_docs.check_comments(tree, source)) == expected


def test_pieces_are_counted_apart(tree: check_docs.Tree) -> None:
    half = "word " * 70
    assert findings(tree, f"{half}\n\n{half}\n- {half}\n- {half}\n| {half} | {half} |\n") == []
