# SPDX-License-Identifier: Apache-2.0
"""Graphs on CUDA as the client sends them: fake tensors on fake devices, no GPU."""

from __future__ import annotations

import torch
from tensord import philox
from tensord.capture import decompositions
from tensord.frames import graph_calls
from tensord.passes.joint import counter_based_random
from tensord.passes.partitioned import move_constants_to_device
from tensord.v1 import graph_pb2 as g
from tensord.wire import export
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
# Operators that the daemon lowers and that would be decomposed otherwise.
KNOWN = ("aten::where.self", "aten::index.Tensor")


def trace(function, *inputs):
    """The graph that AOTAutograd would hand over; inputs: (shape, device)."""
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = [torch.empty(shape, device=device) for shape, device in inputs]
        return make_fx(function, decomposition_table=decompositions.decompositions(KNOWN))(*fakes)


def send(module):
    move_constants_to_device.move_constants_to_device(module)
    return export.export(module)


def nodes(exported, op):
    return [node for node in exported.graph.nodes if node.op == op]


def test_devices_reach_the_wire_without_their_index():
    exported = send(trace(lambda x: x.sin() + torch.arange(3, device=x.device), ((4, 3), "cuda:1")))
    assert exported.cuda_index == 1
    assert exported.graph.inputs[0].tensor.device == g.DEVICE_TYPE_CUDA
    for node in exported.graph.nodes:
        assert [o.device for o in node.outputs] == [g.DEVICE_TYPE_CUDA]
    (arange,) = nodes(exported, "aten::arange")
    assert [a.device for a in arange.args if a.HasField("device")] == [g.DEVICE_TYPE_CUDA]
    other = send(trace(lambda x: x.sin() + torch.arange(3, device=x.device), ((4, 3), "cuda:0")))
    for node in (*exported.graph.nodes, *other.graph.nodes):
        node.ClearField("source")
    assert exported.graph.SerializeToString() == other.graph.SerializeToString()


def test_a_graph_on_the_cpu_has_no_cuda_index():
    assert send(trace(lambda x: x.sin(), ((4, 3), "cpu"))).cuda_index is None


def test_a_recorded_graph_is_for_the_device_that_it_was_captured_for(monkeypatch):
    """Also where none of its arguments lies there."""
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    for function in (
        lambda x: x.sin() + torch.arange(3, device=x.device),
        lambda x: x.cpu() * 2,
        lambda x: torch.arange(3, device="cuda") * 2,
    ):
        exported = send(trace(function, ((4, 3), "cuda")))
        assert graph_calls.cuda_index(exported.graph) == exported.cuda_index == 0
    made = send(trace(lambda x: (x * 2, torch.arange(3, device="cuda")), ((4, 3), "cpu")))
    assert graph_calls.cuda_index(made.graph) == made.cuda_index == 0
    assert graph_calls.cuda_index(send(trace(lambda x: x.sin(), ((4, 3), "cpu"))).graph) is None


def test_numbers_on_the_cpu_keep_their_device():
    """A 0-dim CPU input beside CUDA ones: the daemon copies it over."""
    exported = send(trace(lambda x, s: x * s, ((4, 3), "cuda"), ((), "cpu")))
    assert exported.cuda_index == 0
    kinds = [entry.tensor.device for entry in exported.graph.inputs]
    assert kinds == [g.DEVICE_TYPE_CUDA, g.DEVICE_TYPE_CPU]
    assert nodes(exported, "aten::mul")[0].outputs[0].device == g.DEVICE_TYPE_CUDA


def test_results_on_the_cpu():
    exported = send(trace(lambda x: x.to("cpu"), ((4, 3), "cuda")))
    (copy,) = nodes(exported, "aten::_to_copy")
    assert copy.outputs[0].device == g.DEVICE_TYPE_CPU
    assert exported.cuda_index == 0


def test_constants_go_to_the_device():
    def function(x):
        limit = torch.where(x > 0, x, torch.tensor(-1.0))
        picked = aten.index.Tensor(limit, [torch.tensor([0, 2])])
        return picked + torch.tensor([1.0, 2.0, 3.0]).to(x.device)

    module = trace(function, ((4, 3), "cuda"))
    exported = send(module)
    assert {c.meta.device for c in exported.graph.constants} == {g.DEVICE_TYPE_CUDA}
    assert sorted(len(c.data) for c in exported.graph.constants) == [4, 12, 16]
    # The module itself stays as it was: it must run in eager.
    attributes = [n for n in module.graph.nodes if n.op == "get_attr" and n.users]
    assert attributes
    for node in attributes:
        assert getattr(module, node.target).device.type == "cpu"


def test_numbers_go_to_the_device():
    """As nested vmaps write them; a copy in every call is what eager pays."""

    def function(x):
        number = torch.full((), 20.0)
        return x / number, x * number, number * 2

    module = trace(function, ((3,), "cuda"))
    assert move_constants_to_device.move_constants_to_device(module) == 2
    made = [n.kwargs["device"] for n in module.graph.nodes if n.target == aten.full.default]
    assert sorted(device.type for device in made) == ["cpu", "cuda"]
    kinds = [node.outputs[0].device for node in nodes(export.export(module), "aten::full")]
    assert sorted(kinds) == [g.DEVICE_TYPE_CPU, g.DEVICE_TYPE_CUDA]


@torch.library.custom_op("tensord_tests::scaled_by_host", mutates_args=())
def _scaled_by_host(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return x * float(scale)


@_scaled_by_host.register_fake
def _(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def test_an_operator_of_others_may_want_a_number_on_the_cpu():
    module = trace(lambda x: _scaled_by_host(x, torch.full((), 2.0)) + 1, ((3,), "cuda"))
    assert move_constants_to_device.move_constants_to_device(module) == 0


def test_a_constant_that_the_cpu_needs_too_stays_there_as_well():
    def function(x, y):
        number = torch.tensor(-1.0)
        return x + number, y + number

    exported = send(trace(function, ((3,), "cuda"), ((3,), "cpu")))
    kinds = sorted(c.meta.device for c in exported.graph.constants)
    assert kinds == [g.DEVICE_TYPE_CPU, g.DEVICE_TYPE_CUDA]


def test_constants_of_a_cpu_graph_stay():
    module = trace(lambda x: x + torch.tensor(-1.0), ((3,), "cpu"))
    assert move_constants_to_device.move_constants_to_device(module) == 0


def test_what_is_on_another_device_is_a_call_back():
    def function(x, y):
        return x + 1, y + 1

    exported = send(trace(function, ((3,), "cuda:0"), ((3,), "cuda:1")))
    assert exported.cuda_index == 0 and list(exported.opaque) == [1]
    assert exported.returns == [None, 1]
    (step,) = exported.call_backs
    assert step.takes == [("slot", 0)]
    exported = send(trace(lambda x: x.to("cuda:1"), ((3,), "cuda:0")))
    (step,) = exported.call_backs
    assert "it is on cuda:1, not on cuda:0" in next(iter(step.reasons.values()))


def test_random_numbers_come_from_the_devices_own_generator():
    def function(x):
        return torch.nn.functional.dropout(x, 0.5) + torch.randn(3, device=x.device)

    module = trace(function, ((4, 3), "cuda:1"))
    assert counter_based_random.counter_based_random(module) == 2
    exported = send(module)
    (seed,) = nodes(exported, "tensord::seed")
    assert seed.args[0].device == g.DEVICE_TYPE_CUDA
    assert seed.outputs[0].device == g.DEVICE_TYPE_CUDA and not seed.outputs[0].sizes
    assert len(nodes(exported, "tensord::philox_uniform")) == 1
    assert len(nodes(exported, "tensord::philox_normal")) == 1
    # One draw on the device, no look at its value from the host.
    with FakeTensorMode():
        drawn = philox._seed(torch.device("cuda:1"))
    assert drawn.device == torch.device("cuda:1") and drawn.dtype == torch.int64


def test_powers_cut_off_to_integers_are_the_librarys():
    """3 ** 1 of a GPU's pow may be a little less than 3; eager computes one element on the host."""

    def function(x, end, dtype):
        many = torch.logspace(0, 3, 5, dtype=dtype, device=x.device)
        return many, torch.logspace(1, end, 1, base=3, dtype=dtype, device=x.device) * x

    inputs = ((4,), "cuda"), ((), "cpu")
    whole = send(trace(lambda x, end: function(x, end, torch.int64), *inputs))
    assert len(nodes(whole, "aten::logspace")) == 2
    assert not nodes(whole, "aten::pow")
    apart = send(trace(lambda x, end: function(x, end, torch.float32), *inputs))
    assert not nodes(apart, "aten::logspace")
    assert len(nodes(apart, "aten::pow")) == 2
