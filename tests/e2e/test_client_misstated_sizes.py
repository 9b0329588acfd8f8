# SPDX-License-Identifier: Apache-2.0
"""Values of whose sizes fake tensors are wrong never reach the daemon."""

from __future__ import annotations

import operator

import torch
from tensord.passes.joint.misstated_sizes import misstated_sizes
from tensord.wire import export
from tensord.wire.call_backs import DISGUISED, OPERATOR
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode

aten = torch.ops.aten


def _graph() -> fx.GraphModule:
    """x[unique elements of i] and x.cos(), with fake values as torch 2.11 has them."""
    graph = fx.Graph()
    x, i = graph.placeholder("x"), graph.placeholder("i")
    unique = graph.call_function(aten._unique.default, (i, False))
    first = graph.call_function(operator.getitem, (unique, 0))
    rows = graph.call_function(aten.index_select.default, (x, 0, first))
    cosine = graph.call_function(aten.cos.default, (x,))
    graph.output((rows, cosine))
    with FakeTensorMode():
        x.meta["val"], i.meta["val"] = torch.ones(5, 3), torch.zeros(4, dtype=torch.int64)
        unique.meta["val"] = (i.meta["val"][:1], i.meta["val"][:0])
        first.meta["val"] = i.meta["val"][:1]
        rows.meta["val"], cosine.meta["val"] = x.meta["val"][:1], x.meta["val"].cos()
    return fx.GraphModule({}, graph)


def test_all_that_depends_on_them_runs_in_the_job() -> None:
    module = _graph()
    assert misstated_sizes(module) == 0
    marked = {node.name for node in module.graph.nodes if DISGUISED in node.meta}
    assert marked == {"_unique_default", "getitem", "index_select_default"}
    exported = export.export(module)
    assert sorted(node.op for node in exported.graph.nodes) == ["aten::cos", OPERATOR]
    assert exported.returns == [0, None]
    assert len(exported.graph.outputs) == 1


def test_norms_that_keep_what_they_reduce() -> None:
    """As torch 2.11 has those along dimensions of size 1 that are counted from the end."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    norms = [
        graph.call_function(aten.linalg_vector_norm.default, (x, 2.0, [-2], *keeps))
        for keeps in ((), (), (True,))
    ]
    graph.output(tuple(norms))
    with FakeTensorMode():
        x.meta["val"] = torch.ones(1, 9)
        shapes = ((1, 9), (9,), (1, 9))
        for norm, shape in zip(norms, shapes, strict=True):
            norm.meta["val"] = torch.ones(shape)
    misstated_sizes(fx.GraphModule({}, graph))
    assert [DISGUISED in norm.meta for norm in norms] == [True, False, False]


def test_gradients_of_them() -> None:
    """Of a joint graph's results. A gradient that follows from one has true sizes, and says nothing
    of other results."""
    graph = fx.Graph()
    names = ("primals_1", "tangents_1", "tangents_2")
    x, of_norm, of_sine = (graph.placeholder(name) for name in names)
    norm = graph.call_function(aten.linalg_vector_norm.default, (x, 2.0, [-2]))
    sine = graph.call_function(aten.sin.default, (x,))
    gradient = graph.call_function(aten.mul.Tensor, (of_norm, x))
    cosine = graph.call_function(aten.mul.Tensor, (of_sine, sine))
    graph.output((norm, sine, gradient, cosine))
    with FakeTensorMode():
        for node in graph.nodes:
            node.meta["val"] = torch.ones(1, 9)
        for node in (of_sine, sine, cosine, gradient):
            node.meta["val"] = torch.ones(1, 9, 1)
    misstated_sizes(fx.GraphModule({}, graph))
    marked = {node.name for node in graph.nodes if DISGUISED in node.meta}
    assert marked == {norm.name, of_norm.name, gradient.name}


def test_arguments_that_another_graph_made() -> None:
    """As backward's of what forward saves: the partitioner keeps the marks."""
    graph = fx.Graph()
    x, saved, unread = (graph.placeholder(name) for name in ("x", "saved", "unread"))
    sine = graph.call_function(aten.sin.default, (x,))
    negative = graph.call_function(aten.neg.default, (saved,))
    graph.output((sine, negative))
    with FakeTensorMode():
        for node in graph.nodes:
            node.meta["val"] = torch.ones(1)
    for node in (saved, unread):
        node.meta[DISGUISED] = "has sizes that torch does not know"
    exported = export.export(fx.GraphModule({}, graph))
    assert sorted(node.op for node in exported.graph.nodes) == ["aten::sin", OPERATOR]
    assert exported.kept == [0] and list(exported.opaque) == [1]
