# SPDX-License-Identifier: Apache-2.0
"""Objects are found again by the names under which modules have them."""

from __future__ import annotations

import collections
import typing

import pytest
import torch
from tensord.frames import names
from tensord.frames.errors import UnrecordableError


@pytest.mark.parametrize(
    "value",
    [
        torch.ops.aten,  # a module that nobody imports
        torch.ops.aten.relu.default,
        torch.nn.functional,
        torch.nn.functional.gelu,
        typing.Optional,
        collections.OrderedDict,
        torch.float32.__class__,
    ],
)
def test_found_again(value: object) -> None:
    assert names.find(names.name_of(value)) is value


def test_an_object_without_a_name_says_so() -> None:
    with pytest.raises(UnrecordableError, match="no module has a name"):
        names.name_of(object())
