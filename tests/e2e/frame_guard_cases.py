# SPDX-License-Identifier: Apache-2.0
"""Changes after which a captured frame is not to be used: a generator each.

It yields a function and the arguments of the captured call; makes the change, which the fixture of
pytest's monkeypatch takes back; and yields the arguments of the next call, if they are others.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import Any

import pytest

Case = Callable[[pytest.MonkeyPatch], Iterator[Any]]


def check(case: Case, patch: pytest.MonkeyPatch) -> str:
    """That the guards hold for the captured call, not after the change, and again when it is taken
    back, whether they were loaded before the change or after it, natively or in Python. Gives the
    reason."""
    from frame_guards import capture, locals_of, why_not

    steps = case(patch)
    function, arguments = next(steps)
    recorded = capture(function, *arguments)
    trees = recorded.trees().values()
    called = locals_of(function, arguments)
    for tree in trees:
        assert tree.failure(called) is None
        assert all(tree(called) for _ in range(3))  # from the second on by what is remembered
    assert why_not(recorded, function, arguments) == ""
    changed = next(steps, None) or arguments
    called = locals_of(function, changed)
    seen = [(tree(called), tree.failure(called)) for tree in trees]
    elsewhere = why_not(recorded, function, changed)
    steps.close()
    patch.undo()
    assert elsewhere, f"loaded after the change, they hold; before: {seen}"
    for holds, here in seen:
        assert not (here and holds), f"what is remembered holds; from the beginning: {here}"
        assert here, f"loaded before the change, they hold; afterwards: {elsewhere}"
    called = locals_of(function, arguments)
    for tree in trees:
        assert tree(called)
        assert tree.failure(called) is None
    assert why_not(recorded, function, arguments) == ""
    return str(seen[0][1])


def parametrised(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=[case.__name__ for case in cases])


class Mode(enum.Enum):
    """A setting of a test's model."""

    ADD = 1
    MULTIPLY = 2
