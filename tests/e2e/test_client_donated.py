# SPDX-License-Identifier: Apache-2.0
"""Which arguments of a backward graph the call may overwrite, and what is not said of others."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensord.wire import export
from torch import fx, nn
from torch._higher_order_ops import effects
from torch._subclasses.fake_tensor import FakeTensorMode


def backward_inputs(daemon: Any) -> list[Any]:
    return list(daemon.graph("backward").inputs)


def test_what_forward_makes_for_backward_alone_is_donated(daemon):
    w = torch.randn(8, 8, requires_grad=True)

    def function(x):
        y = (x @ w).tanh()  # saved, and so is what is returned
        z = (y @ w).tanh()
        return z, z.sum()

    torch.compile(function, backend="tensord", fullgraph=True)(torch.randn(4, 8))[1].backward()
    inputs = backward_inputs(daemon)
    assert [i.is_donated for i in inputs].count(True) == 1
    assert not any(i.is_donated for i in inputs if i.name.startswith(("primals", "tangents")))


def test_with_tokens_of_effects_nothing_is(daemon, library):
    """Whose numbers would be others: parameters' and gradients'."""
    library.define("noted(Tensor x) -> Tensor")
    library.impl("noted", lambda x: x.clone(), "CompositeExplicitAutograd")
    torch.library.register_fake("tensord_test::noted", torch.empty_like, lib=library)
    torch.library.register_autograd("tensord_test::noted", lambda ctx, g: g, lib=library)
    operator = torch.ops.tensord_test.noted.default
    handle = effects._register_effectful_op(operator, effects._EffectType.ORDERED)
    try:
        w = nn.Parameter(torch.randn(4))
        x = torch.randn(3, 4, requires_grad=True)

        def function(x):
            return (operator(x) * w).sin().tanh().sum()

        torch.compile(function, backend="tensord", fullgraph=True)(x).backward()
    finally:
        handle.destroy()
    torch.testing.assert_close(
        x.grad, torch.autograd.grad((x * w).sin().tanh().sum(), x)[0], rtol=1e-4, atol=1e-5
    )
    assert not any(i.is_donated for i in backward_inputs(daemon))


def test_nor_of_what_regions_return(daemon):
    """Their results may be their arguments' memory."""

    @torch.compiler.nested_compile_region
    def region(x, w):
        return (x.t() @ w).sin().tanh()

    x, w = (torch.randn(6, 6, requires_grad=True) for _ in range(2))
    wanted = torch.autograd.grad((x.t() @ w).sin().tanh().sum() * 2, [x, w])
    run = torch.compile(
        lambda x, w: (region(x, w) + region(x * 1, w)).sum(), backend="tensord", fullgraph=True
    )
    torch.testing.assert_close(torch.autograd.grad(run(x, w), [x, w]), wanted)
    assert not any(i.is_donated for i in backward_inputs(daemon))


@pytest.mark.parametrize("donated", [(), (0,)])
def test_a_call_back_that_keeps_a_donated_argument_has_a_copy(donated):
    """Of whose memory it makes a value that has no form on the wire: a kernel may be behind it."""
    aten = torch.ops.aten
    graph = fx.Graph()
    with FakeTensorMode():
        saved = torch.empty(8, 8)
        opaque = saved.view(torch.float8_e4m3fnuz)
        back = opaque.view(torch.float32)

    def node(made, value):
        made.meta["val"] = value
        return made

    given = node(graph.placeholder("saved"), saved)
    kept = node(graph.call_function(aten.view.dtype, (given, torch.float8_e4m3fnuz)), opaque)
    cosine = node(graph.call_function(aten.cos.default, (given,)), saved.cos())
    again = node(graph.call_function(aten.view.dtype, (kept, torch.float32)), back)
    graph.output((node(graph.call_function(aten.add.Tensor, (cosine, again)), saved + back),))
    exported = export.export(fx.GraphModule({}, graph), (), donated)
    assert [i.is_donated for i in exported.graph.inputs] == [bool(donated)]
    first = exported.call_backs[0]
    assert set(first.copies) == ({0} if donated else set())
