# SPDX-License-Identifier: Apache-2.0
"""pass_tests.py finds passes without a test file."""

from __future__ import annotations

from pathlib import Path

import pass_tests
import pytest


def test_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = {
        "compiler/rewrite/rewrite.cc": '      {"one", One, Targets::kBoth},\n'
        '      {"two", Two, Targets::kCuda},\n',
        "compiler/pipeline.cc": '  return {part("three", Three)};\n',
        "tests/unit/rewrite/one_test.cc": "",
        "tests/unit/schedule/three_test.cc": "",
    }
    for name, text in sources.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(pass_tests, "ROOT", tmp_path)
    assert pass_tests.missing() == ["tests/unit/rewrite/two_test.cc"]
    assert pass_tests.main() == 1
    (tmp_path / "tests/unit/rewrite/two_test.cc").touch()
    assert pass_tests.main() == 0
