# SPDX-License-Identifier: Apache-2.0
"""Values of nodes that depend on no input."""

from __future__ import annotations

import pytest
import torch
from tensord import torch_compat
from tensord.passes.captured import constants, dynamo
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode


def sum_of_constants() -> fx.Node:
    graph = fx.Graph()
    with FakeTensorMode():
        numbers = dynamo.function(graph, torch.arange, 3)
        return dynamo.function(graph, torch.add, numbers, numbers)


def test_values_are_computed():
    node = sum_of_constants()
    value = constants.Constants(node.graph).value(node)
    assert value is not None and value.tolist() == [0, 2, 4]


def test_what_an_operation_refuses_is_no_constant(monkeypatch):
    def refuse(*args: object) -> None:
        raise IndexError("index 7 is out of range")

    node = sum_of_constants()
    node.target = refuse
    monkeypatch.setitem(dynamo._FUNCTIONS, refuse, "add")
    assert constants.Constants(node.graph).value(node) is None


def test_a_mistake_of_ours_is_not_hidden(monkeypatch):
    def broken() -> None:
        raise AttributeError("a mistake")

    node = sum_of_constants()
    monkeypatch.setattr(torch_compat, "without_modes", broken)
    with pytest.raises(AttributeError, match="a mistake"):
        constants.Constants(node.graph).value(node)
