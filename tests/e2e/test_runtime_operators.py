# SPDX-License-Identifier: Apache-2.0
"""Operators of torch inside a plan: into out=, by the stable interface, by the bridge."""

from __future__ import annotations

import pytest
import torch
from runtime_artifacts import Builder, arg, expr, meta, meta_of
from tensord.bridge import runtime
from tensord.v1 import artifact_pb2 as a
from tensord.v1 import graph_pb2 as g
from torch.utils._python_dispatch import TorchDispatchMode

pytest_plugins = ["runtime_fixtures"]


def test_matmul_into_out(load, store):
    b = Builder(store)
    x, w, bias = b.input(meta([3, 4])), b.input(meta([4, 5])), b.input(meta([5]))
    t = b.buffer(meta=meta([3, 5]), workspace=expr(0))
    b.a.workspace_bytes.CopyFrom(expr(64))
    out = b.buffer(meta=meta([3, 5]), owned=True)
    wide = b.buffer(meta=meta([3, 5], [1, 3]), owned=True)
    b.call("aten::mm.out", [x, w, t], [t], into_out=True)
    b.call("aten::addmm.out", [bias, x, w, 2, 0.5, out], [out], into_out=True)
    b.call("aten::mm.out", [x, w, wide], [wide], into_out=True)
    sums = b.buffer(meta=meta([3, 5]), owned=True)
    b.launch("fma3", [t, t, out, sums], [15])
    b.output(out, sums, wide)
    program = load(b.a)
    x, w, bias = torch.randn(3, 4), torch.randn(4, 5, requires_grad=True), torch.randn(5)
    out, sums, wide = program(x, w, bias)
    expected = torch.addmm(bias, x, w, beta=2, alpha=0.5)
    torch.testing.assert_close(out, expected.detach())
    torch.testing.assert_close(sums, ((x @ w) * (x @ w) + expected).detach())
    torch.testing.assert_close(wide, (x @ w).detach())
    assert not out.requires_grad and wide.stride() == (1, 3)
    assert torch.is_grad_enabled()


def test_batched_into_out(load, store):
    b = Builder(store)
    x, y, z = b.input(meta([2, 3, 4])), b.input(meta([2, 4, 5])), b.input(meta([2, 3, 5]))
    p, q = (b.buffer(meta=meta([2, 3, 5]), owned=True) for _ in range(2))
    b.call("aten::bmm.out", [x, y, p], [p], into_out=True)
    b.call("aten::baddbmm.out", [z, x, y, 1, 1, q], [q], into_out=True)
    b.output(p, q)
    x, y, z = torch.randn(2, 3, 4), torch.randn(2, 4, 5), torch.randn(2, 3, 5)
    p, q = load(b.a)(x, y, z)
    torch.testing.assert_close(p, x @ y)
    torch.testing.assert_close(q, z + x @ y)


def test_convolution_forward_and_backward(load, store):
    x, w = torch.randn(2, 3, 8, 8), torch.randn(4, 3, 3, 3)
    y = torch.ops.aten.convolution(x, w, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    b = Builder(store)
    bx, bw = b.input(meta_of(x)), b.input(meta_of(w))
    by = b.buffer(meta=meta_of(y), extern_result=True)
    conv = [None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1]
    b.call("aten::convolution", [bx, bw, *conv], [by])
    gx = b.buffer(meta=g.TensorMeta(), extern_result=True)  # not asked for, so undefined
    gw = b.buffer(meta=meta_of(w), extern_result=True)
    gb = b.buffer(meta=meta([4]), extern_result=True)
    b.call(
        "aten::convolution_backward",
        [by, bx, bw, [4], *conv[1:], [False, True, True]],
        [gx, gw, gb],
    )
    b.output(by, gx, gw, gb)
    program = load(b.a)
    for _ in range(3):
        got = program(x, w)
    expected = torch.ops.aten.convolution_backward(
        y, x, w, [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 1, [False, True, True]
    )
    torch.testing.assert_close(got[0], y)
    assert got[1] is None
    torch.testing.assert_close(got[2], expected[1])
    torch.testing.assert_close(got[3], expected[2])


# Operators with every kind of argument: the stable interface takes some, the bridge the rest.
@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("aten::topk", ["x", 2, -1, True, True]),
        ("aten::sort.stable", ["x", True, 1, True]),
        ("aten::cumsum", ["x", 1, torch.float64]),
        ("aten::cumsum", ["x", 1, None]),
        ("aten::add.Scalar", ["x", 2.5, 1]),
        ("aten::add.Scalar", ["x", 2, 1.5]),
        ("aten::add.Tensor", ["x", "x", 3]),
        ("aten::cat", [["x", "x"], 1]),
        ("aten::index.Tensor", ["x", [None, "i"]]),
        ("aten::gelu", ["x", "tanh"]),
        ("aten::clamp", ["x", None, 0.5]),
        ("aten::split.Tensor", ["x", 2, 1]),
        ("aten::sum.dim_IntList", ["x", [0], True, None]),
        ("aten::full", [[2, 3], 7, torch.int32, None, None, None]),
        ("aten::var_mean.correction", ["x", [1], 1, False]),
        ("aten::native_layer_norm", ["x", [6], None, None, 1e-5]),
        ("aten::upsample_nearest2d", ["y", [4, 4], 2.0, None]),
        ("aten::max.dim", ["x", 1, False]),
        ("aten::_softmax", ["x", 1, False]),
        ("aten::linear", ["x", "x", None]),
    ],
)
def test_operators(load, store, op, args):
    tensors = {
        "x": torch.randn(5, 6, requires_grad=True),
        "i": torch.tensor([0, 3, 3]),
        "y": torch.randn(1, 2, 2, 2),
    }
    name, _, overload = op.partition(".")
    function = getattr(getattr(torch.ops.aten, name.removeprefix("aten::")), overload or "default")

    def fill(value):
        if isinstance(value, list):
            return [fill(x) for x in value]
        return tensors.get(value, value) if isinstance(value, str) else value

    plain, keyword = [], {}
    for parameter, value in zip(function._schema.arguments, fill(args), strict=True):
        if parameter.kwarg_only:
            keyword[parameter.name] = value
        else:
            plain.append(value)
    expected = function(*plain, **keyword)
    expected = list(expected) if isinstance(expected, tuple | list) else [expected]

    b = Builder(store)
    buffers = {key: b.input(meta_of(tensor)) for key, tensor in tensors.items()}

    def place(value):
        if isinstance(value, list):
            return [place(x) for x in value]
        return buffers.get(value, value) if isinstance(value, str) else value

    results = [b.buffer(meta=meta_of(t), extern_result=True) for t in expected]
    b.call(op, place(args), results)
    b.output(*results)
    program = load(b.a)
    for _ in range(3):
        for got, want in zip(program(*tensors.values()), expected, strict=True):
            torch.testing.assert_close(got, want.detach())
            assert not got.requires_grad


def test_device_layout_and_memory_format_arguments(load, store):
    b = Builder(store)
    full = b.buffer(meta=meta([2, 3, 4, 4], [48, 1, 12, 3]), extern_result=True)
    b.a.steps.add(
        call=a.ExternCall(
            op="aten::empty",
            overload="memory_format",
            args=[
                arg([2, 3, 4, 4]),
                arg(torch.float32),
                g.Argument(layout_strided=True),
                g.Argument(device=g.DEVICE_TYPE_CPU),
                arg(None),
                g.Argument(memory_format=g.MEMORY_FORMAT_CHANNELS_LAST),
            ],
            results=[full.number],
            node="empty",
        )
    )
    b.output(full)
    assert load(b.a)()[0].is_contiguous(memory_format=torch.channels_last)


def test_result_strides_and_sizes(load, store):
    """Other strides are copied into the planned ones; other sizes are an error."""
    b = Builder(store)
    x = b.input(meta([3, 4]))
    planned = b.buffer(meta=meta([4, 3]), extern_result=True)
    b.call("aten::t", [x], [planned])
    b.output(planned)
    data = torch.randn(3, 4)
    (got,) = load(b.a)(data)
    assert got.is_contiguous() and torch.equal(got, data.t())

    b = Builder(store)
    x = b.input(meta([3, 4]))
    wrong = b.buffer(meta=meta([3, 4]), extern_result=True)
    b.call("aten::t", [x], [wrong], node="turned")
    b.output(wrong)
    with pytest.raises(runtime.TensordRuntimeError, match="turned") as caught:
        load(b.a)(data)
    assert caught.value.code == runtime.OPERATOR


def test_result_that_views_the_workspace_survives(load, store):
    b = Builder(store)
    x = b.input(meta([4]))
    t = b.buffer(meta=meta([4]), workspace=expr(0))
    b.a.workspace_bytes.CopyFrom(expr(64))
    b.launch("plus1", [x, t], [4])
    view = b.buffer(meta=meta([2, 2]), extern_result=True)
    b.call("aten::view", [t, [2, 2]], [view])
    b.output(view)
    program = load(b.a)
    first = program(torch.zeros(4))[0]
    program(torch.full((4,), 5.0))
    assert torch.equal(first, torch.ones(2, 2))


@pytest.mark.parametrize("common", [0, 64])
def test_result_that_views_a_block_survives_its_next_tenant(load, store, common):
    b = Builder(store)
    x = b.input(meta([4]))
    b.a.workspace_bytes.CopyFrom(expr(common))
    b.a.standalone_bytes.CopyFrom(expr(64))
    block = b.buffer(meta=meta([64], [1], torch.uint8), workspace=expr(common), standalone=True)
    t, u = (b.buffer(meta=meta([4]), view_of=block.number) for _ in range(2))
    b.launch("plus1", [x, t], [4])
    view = b.buffer(meta=meta([2, 2]), extern_result=True)
    b.call("aten::view", [t, [2, 2]], [view])
    b.launch("plus1", [t, u], [4])
    out = b.buffer(meta=meta([4]), owned=True)
    b.launch("plus1", [u, out], [4])
    b.output(view, out)
    view, out = load(b.a)(torch.zeros(4))
    assert torch.equal(view, torch.ones(2, 2))
    assert torch.equal(out, torch.full((4,), 3.0))


def test_out_of_memory_is_torchs_error(load, store):
    """Both bridges raise torch's class for the runtime's code; this caller reports it."""

    @torch.library.custom_op("tensord_test::greedy", mutates_args=())
    def greedy(x: torch.Tensor) -> torch.Tensor:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 TiB.")

    b = Builder(store)
    x = b.input(meta([4]))
    out = b.buffer(meta=meta([4]), extern_result=True)
    b.call("tensord_test::greedy", [x], [out], node="greedy")
    b.output(out)
    program = load(b.a)
    library = runtime._Library.get()
    library.lib.tensord_set_operator_caller(library._caller, None)
    with pytest.raises(torch.OutOfMemoryError, match=r"greedy.*CUDA out of memory. Tried"):
        program(torch.randn(4))


def test_bits_of_results_are_computed(load, store):
    """Fake tensors do not show them: SVD of complex numbers on a GPU gives Vh with one."""

    @torch.library.custom_op("tensord_test::conjugated", mutates_args=())
    def conjugated(x: torch.Tensor) -> torch.Tensor:
        return torch.view_as_complex(x.clone()).conj()

    b = Builder(store)
    x = b.input(meta([4, 2]))
    z = b.buffer(meta=meta([4], dtype=torch.complex64), extern_result=True)
    out = b.buffer(meta=meta([4, 2]), extern_result=True)
    b.call("tensord_test::conjugated", [x], [z], node="conjugated")
    b.call("aten::view_as_real", [z], [out])
    b.output(out)
    parts = torch.randn(4, 2)
    assert torch.equal(load(b.a)(parts)[0], parts * torch.tensor([1.0, -1.0]))


class _PassedOn(TorchDispatchMode):
    """A mode of torch's, under which operators are called from Python."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def test_operator_that_raises(load, store, request):
    b = Builder(store)
    x = b.input(meta([2, 3]))
    out = b.buffer(meta=meta([2, 2]), extern_result=True)
    b.call("aten::mm", [x, x], [out], node="product")
    b.output(out)
    program = load(b.a)
    for _ in range(3):
        with pytest.raises(runtime.TensordRuntimeError, match=r"product.*mat1") as caught:
            program(torch.zeros(2, 3))
        assert caught.value.code == runtime.OPERATOR
    assert torch.is_grad_enabled()
    # A callback of ctypes cannot take the exception that is set when it is entered.
    why = "product" if "ctypes" in request.node.name else r"product.*mat1"
    with _PassedOn(), pytest.raises(runtime.TensordRuntimeError, match=why) as caught:
        program(torch.zeros(2, 3))
    assert caught.value.code == runtime.OPERATOR
