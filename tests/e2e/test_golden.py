# SPDX-License-Identifier: Apache-2.0
"""The golden cases (tests/golden/cases) are what their families write."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

GOLDEN = Path(__file__).parents[1] / "golden"

sys.path.insert(0, str(GOLDEN))
import expression_vectors  # noqa: E402
import philox_vectors  # noqa: E402
import recorder  # noqa: E402
import write  # noqa: E402


def same(stored: Any, made: Any, tolerance: float) -> bool:
    """Equal, numbers within the case's tolerance: torch's vector functions differ by machine."""
    if isinstance(stored, dict):
        return stored.keys() == made.keys() and all(
            same(stored[k], made[k], tolerance) for k in stored
        )
    if isinstance(stored, list):
        return len(stored) == len(made) and all(
            same(s, m, tolerance) for s, m in zip(stored, made, strict=True)
        )
    if {float} <= {type(stored), type(made)} <= {float, int}:
        return math.isclose(stored, made, rel_tol=tolerance, abs_tol=tolerance)
    return stored == made


@pytest.mark.parametrize("family", write.FAMILIES)
def test_cases_are_what_the_family_writes(family: str) -> None:
    made = json.loads(json.dumps(write.make(family)))
    stored = {c["name"]: c for c in json.loads(write.path_of(family).read_text())}
    again = f"run .venv/bin/python tests/golden/write.py {family}"
    assert list(stored) == sorted(made), again
    for name, golden in stored.items():
        assert same(golden, made[name], golden["tolerance"]), f"{name}: {again}"


def test_every_file_has_a_family() -> None:
    assert sorted(path.stem for path in (GOLDEN / "cases").glob("*.json")) == write.FAMILIES


@pytest.mark.parametrize("vectors", [expression_vectors, philox_vectors])
def test_vectors_are_what_their_script_writes(vectors: ModuleType) -> None:
    assert vectors.OUT.read_text() == vectors.text()


def test_vectors_of_definitions_are_what_their_script_writes() -> None:
    assert expression_vectors.DEFINITIONS_OUT.read_text() == expression_vectors.definitions_text()


def test_a_case_does_not_depend_on_others() -> None:
    def silu_behind(*others: Any) -> dict:
        family = recorder.start_family()
        for other in others:
            recorder.case(other, recorder.rand(4))
        recorder.case(recorder.aten.silu, recorder.rand(3, 5))
        return family.cases["silu_rand_3_5"]

    assert silu_behind() == silu_behind(recorder.aten.gelu, recorder.aten.exp)


def test_a_case_is_listed_once() -> None:
    recorder.start_family()
    recorder.case(recorder.aten.silu, recorder.rand(3, 5))
    with pytest.raises(ValueError, match="two cases"):
        recorder.case(recorder.aten.silu, recorder.rand(3, 5))
