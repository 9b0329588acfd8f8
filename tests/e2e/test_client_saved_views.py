# SPDX-License-Identifier: Apache-2.0
"""What backward is given of a larger tensor does not keep the whole."""

from __future__ import annotations

import pytest
import tensord
import torch
import torch.nn.functional as F
from tensord.capture import saved_views
from torch import fx, nn
from torch._subclasses.fake_tensor import FakeTensorMode

ROWS, HEADS, DEPTH = 512, 4, 64
WIDTH = HEADS * DEPTH


@pytest.fixture(autouse=True)
def _on_cpus_too(monkeypatch):
    monkeypatch.setattr(saved_views, "DEVICES", ("cpu",))
    monkeypatch.setattr(saved_views, "LEAST_FREED_BYTES", 1 << 10)


class Attention(nn.Module):
    """Queries, keys and values are one product. rotated: queries and keys are changed before they
    are saved, so that nothing but the values is saved of the product."""

    def __init__(self, rotated: bool) -> None:
        super().__init__()
        self.rotated = rotated
        self.product = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, rows, _ = x.shape
        parts = self.product(x).chunk(3, -1)
        q, k, v = (p.view(batch, rows, HEADS, DEPTH).transpose(1, 2) for p in parts)
        if self.rotated:
            angle = torch.arange(rows, dtype=x.dtype)[:, None] / DEPTH
            q, k = (p * angle.cos() + p.flip(-1) * angle.sin() for p in (q, k))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, rows, WIDTH))


def bytes_of(tensor) -> tuple[int, int]:
    """Of its elements, and from its first to its last."""
    sizes, strides = ([e.constant for e in each] for each in (tensor.sizes, tensor.strides))
    count = 1
    for size in sizes:
        count *= size
    span = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
    return 4 * count, 4 * span


@pytest.mark.parametrize("rotated", [True, False])
def test_values_beside_rotated_queries_and_keys_are_copied(daemon, rotated):
    torch.manual_seed(0)
    model = Attention(rotated)
    x = torch.randn(2, ROWS, WIDTH, requires_grad=True)
    wanted = torch.autograd.grad(model(x).square().sum(), [x, *model.parameters()])
    tensord.reset_stats()
    y = torch.compile(model, backend="tensord", fullgraph=True)(x)
    got = torch.autograd.grad(y.square().sum(), [x, *model.parameters()])
    torch.testing.assert_close(got, wanted, rtol=1e-3, atol=1e-3)
    saved = [i.tensor for i in daemon.graph("backward").inputs if not i.is_parameter]
    wide = [t for t in saved if bytes_of(t)[1] > bytes_of(t)[0] + (1 << 16)]
    # Where all three are saved as they are, the product is there anyway, and nothing is copied.
    assert (len(wide) == 0) == rotated
    assert tensord.stats()["saved_views_copied"] == int(rotated)


def test_a_copy_is_made_where_the_view_is(daemon):
    """Rather than at the end, until when all layers' products would have to be kept."""
    model = nn.Sequential(Attention(True), Attention(True))
    torch.compile(model, backend="tensord", fullgraph=True)(torch.randn(2, ROWS, WIDTH))
    ops = [node.op for node in daemon.graph("forward").nodes]
    copies = [i for i, op in enumerate(ops) if op.startswith("aten::clone")]
    products = [i for i, op in enumerate(ops) if op.startswith(("aten::addmm", "aten::mm"))]
    assert tensord.stats()["saved_views_copied"] == 2
    assert copies[0] < products[1]  # of the first layer's result


def test_what_somebody_else_keeps_is_not_copied(daemon):
    """A result, and an argument."""

    def function(x, y):
        whole = (x * 2).sin()
        return whole, (whole[:64].cos() * y[:64].cos()).sum()

    x, y = torch.randn(1024, 64, requires_grad=True), torch.randn(1024, 64, requires_grad=True)
    tensord.reset_stats()
    run = torch.compile(function, backend="tensord", fullgraph=True)
    wanted = torch.autograd.grad(function(x, y)[1], [x, y])
    torch.testing.assert_close(torch.autograd.grad(run(x, y)[1], [x, y]), wanted)
    assert tensord.stats()["saved_views_copied"] == 0


@pytest.mark.parametrize("by_strides", [False, True])
def test_what_backward_takes_by_its_strides_is_left(by_strides):
    aten = torch.ops.aten
    with FakeTensorMode():
        x = torch.empty(1024, 64)
        whole = x.sin()
        part = whole[:, :8]
    forward, backward = fx.Graph(), fx.Graph()

    def node(made, value):
        made.meta["val"] = value
        return made

    sine = node(
        forward.call_function(aten.sin.default, (node(forward.placeholder("x"), x),)), whole
    )
    saved = node(forward.call_function(aten.slice.Tensor, (sine, 1, 0, 8)), part)
    total = node(forward.call_function(aten.sum.default, (saved,)), part.sum())
    forward.output((total, saved))
    given = node(backward.placeholder(saved.name), part)
    shape, strides = (1024, 8), (64, 1)
    if by_strides:
        taken = backward.call_function(aten.as_strided.default, (given, shape, strides))
    else:
        taken = backward.call_function(aten.t.default, (given,))
    node(taken, part.as_strided(shape, strides) if by_strides else part.t())
    backward.output(
        (node(backward.call_function(aten.cos.default, (taken,)), taken.meta["val"].cos()),)
    )
    modules = [fx.GraphModule({}, graph) for graph in (forward, backward)]
    assert saved_views.copy_saved_views(*modules, results=1) == int(not by_strides)
    last = modules[0].graph.output_node().args[0][1]
    assert last.target == (aten.slice.Tensor if by_strides else aten.clone.default)
    assert [n.op for n in modules[0].graph.nodes].count("call_function") == 3 + int(not by_strides)
    found = [n.meta["val"].stride() for n in modules[1].graph.nodes if n.op != "output"]
    assert found[:2] == ([(64, 1), (64, 1)] if by_strides else [(8, 1), (1, 8)])


def test_a_copy_is_found_by_hooks_of_saved_tensors(daemon):
    """Which torch compiles into both graphs."""

    def function(x, w):
        whole = x @ w
        part, rest = whole[:, :16], whole[:, 16:]
        return (part.sin() * part).sum() * 2 + rest.sum()

    x, w = torch.randn(64, 32, requires_grad=True), torch.randn(32, 64, requires_grad=True)
    wanted = torch.autograd.grad(function(x, w), [x, w])
    pack, unpack = fx.symbolic_trace(lambda t: t.to(torch.float64)), fx.symbolic_trace(_narrow)
    pack.meta["user_string"], unpack.meta["user_string"] = "pack", "unpack"
    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        got = torch.compile(function, backend="tensord", fullgraph=True)(x, w)
    torch.testing.assert_close(torch.autograd.grad(got, [x, w]), wanted, rtol=1e-4, atol=1e-4)


def _narrow(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.float32)


def test_operators_of_others_get_eagers_strides(daemon, library):
    library.define("packed(Tensor v) -> Tensor")
    library.define("packed_backward(Tensor v, Tensor g) -> Tensor")

    def backward(v, g):
        assert v.stride(0) == 64, v.stride()
        return v.cos() * g

    library.impl("packed", torch.sin, "CompositeExplicitAutograd")
    library.impl("packed_backward", backward, "CompositeExplicitAutograd")
    for name in ("packed", "packed_backward"):
        torch.library.register_fake(
            f"tensord_test::{name}", lambda v, *_: v.new_empty(v.shape), lib=library
        )
    operators = torch.ops.tensord_test
    torch.library.register_autograd(
        "tensord_test::packed",
        lambda ctx, g: operators.packed_backward(ctx.saved_tensors[0], g),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
        lib=library,
    )
    x, w = torch.randn(64, 32, requires_grad=True), torch.randn(32, 64, requires_grad=True)
    wanted = torch.autograd.grad((x @ w)[:, :16].sin().sum(), [x, w])
    run = torch.compile(
        lambda x, w: operators.packed((x @ w)[:, :16]).sum(), backend="tensord", fullgraph=True
    )
    got = torch.autograd.grad(run(x, w), [x, w])
    torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-4)
