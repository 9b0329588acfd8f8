# SPDX-License-Identifier: Apache-2.0
"""Numbers that are copied where a tensor is wanted become tensors on the wire."""

from __future__ import annotations

import pytest
import torch
from tensord.passes.partitioned.tensors_of_numbers import tensors_of_numbers
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

aten = torch.ops.aten


def graph_of(source: object, dtype: torch.dtype) -> fx.GraphModule:
    """x + _to_copy(source, dtype=dtype); source: a number, or None for x itself."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    copied = graph.call_function(
        aten._to_copy.default, (x if source is None else source,), {"dtype": dtype}
    )
    total = graph.call_function(aten.add.Tensor, (x, copied))
    graph.output((total,))
    with FakeTensorMode():
        x.meta["val"] = torch.ones(3)
        copied.meta["val"] = torch.ones([] if source is not None else 3, dtype=dtype)
        total.meta["val"] = x.meta["val"] + copied.meta["val"]
    return fx.GraphModule({}, graph)


@pytest.mark.parametrize(
    ("number", "dtype"), [(1, torch.float32), (2.5, torch.float64), (True, torch.int64)]
)
def test_a_number_becomes_a_tensor(number: object, dtype: torch.dtype) -> None:
    module = graph_of(number, dtype)
    x = torch.rand(3)
    assert tensors_of_numbers(module) == 1
    module.recompile()
    (made,) = module.graph.find_nodes(op="call_function", target=aten.full.default)
    assert made.meta["val"].dtype == dtype and made.meta["val"].shape == ()
    assert torch.equal(module(x)[0], x + torch.tensor(number, dtype=dtype))


def test_tensors_are_copied_as_they_were() -> None:
    module = graph_of(None, torch.float64)
    assert tensors_of_numbers(module) == 0
    assert module.graph.find_nodes(op="call_function", target=aten._to_copy.default)
