# SPDX-License-Identifier: Apache-2.0
"""Objects are found again by the names under which modules have them."""

from __future__ import annotations

import collections
import typing

import pytest
import torch
from tensord.frames import names
from tensord.frames.errors import UnfitError, UnrecordableError


class Named(typing.NamedTuple):
    """A named tuple."""

    one: int


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
        type(None),
    ],
)
def test_found_again(value: object) -> None:
    assert names.find(names.name_of(value)) is value


def test_a_method_of_a_class_is_made_anew_and_found_again() -> None:
    method = Named._make
    found = names.find_own(names.name_of(method))
    assert found is not method and found == method
    with pytest.raises(UnrecordableError, match="no module has a name"):
        names.name_of(Named(1).count)
    with pytest.raises(UnfitError, match="is another object"):  # no guard on an object knows it
        names.find_native(names.name_of(method))


def test_an_object_without_a_name_says_so() -> None:
    with pytest.raises(UnrecordableError, match="no module has a name"):
        names.name_of(object())
