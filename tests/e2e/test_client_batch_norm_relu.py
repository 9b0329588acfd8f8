# SPDX-License-Identifier: Apache-2.0
"""ReLUs of batch norms in training: backward computes the norm again and does not read the ReLU.

Partitioned graphs are looked at and run in eager; at the end the real daemon compiles them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F
from partitioned_graphs import Graphs, is_image
from torch import Tensor, fx, nn
from torch._decomp import decompositions
from torch._subclasses.fake_tensor import FakeTensorMode

pytestmark = pytest.mark.usefixtures("nothing_compiled")

aten = torch.ops.aten
C, SIZE = 8, (4, 8, 6, 5)
CHANNELS_LAST = torch.channels_last


@pytest.fixture
def wide_statistics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Graphs say that statistics of narrow images are float32, as on a GPU."""
    original = decompositions.native_batch_norm_helper

    def helper(*args: Any) -> tuple[Any, ...]:
        result, mean, rstd, *rest = original(*args)
        return result, mean.float(), rstd.float(), *rest

    with monkeypatch.context() as patch:
        patch.setattr(decompositions, "native_batch_norm_helper", helper)
        FakeTensorMode.cache_clear()
        yield
    FakeTensorMode.cache_clear()


def _norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _relu_of_norm(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return F.relu(_norm(x, weight, bias))


def _inputs(
    dtype: torch.dtype = torch.float32, affine: tuple[bool, bool] = (True, True)
) -> list[Tensor | None]:
    torch.manual_seed(0)
    x = torch.randn(SIZE).to(dtype)
    vectors = torch.randn(2, C).unbind(0)
    return [x, *(v if wanted else None for v, wanted in zip(vectors, affine, strict=True))]


def _results(function: Callable[..., Tensor], inputs: list[Tensor | None]) -> list[Tensor]:
    """The result and the gradients."""
    leaves = [None if x is None else x.detach().clone().requires_grad_() for x in inputs]
    out = function(*leaves)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    wanted = [x for x in leaves if x is not None]
    return [out.detach(), *torch.autograd.grad(out, wanted, weight)]


def _compare(function: Any, inputs: list[Tensor | None], backend: Any, **close: float) -> None:
    compiled = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)
    ours, eager = _results(compiled, inputs), _results(function, inputs)
    for a, b in zip(ours, eager, strict=True):
        torch.testing.assert_close(a, b, **close)
        assert a.stride() == b.stride()


def _operators(graph: fx.GraphModule) -> list[Any]:
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


# -- what the graphs become ------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [torch.contiguous_format, CHANNELS_LAST], ids=["nchw", "nhwc"])
@pytest.mark.parametrize(
    "affine",
    [(True, True), (False, False), (True, False), (False, True)],
    ids=["affine", "plain", "weight", "bias"],
)
def test_backward_reads_the_input_alone(affine: tuple[bool, bool], layout: Any) -> None:
    x, *vectors = _inputs(affine=affine)
    graphs = Graphs()
    _compare(_relu_of_norm, [x.to(memory_format=layout), *vectors], graphs)
    assert tensord.stats()["relus_recomputed"] == 1
    (read,) = graphs.backward_reads()
    assert read.name.startswith("primals")
    # Forward saves the input, what of weight and bias there is, and the statistics: no image.
    outputs = graphs.forward.graph.output_node().args[0]
    saved = [n for n in outputs[1:] if isinstance(n, fx.Node)]
    assert [n.name for n in saved if is_image(n)] == [read.name]
    computed = [n for n in saved if n.op != "placeholder"]
    assert computed and all(n.meta["val"].shape == (C,) for n in computed)
    step = graphs.backward.graph.find_nodes(op="call_function", target=aten.le.Scalar)
    assert aten.relu.default not in _operators(graphs.backward)
    assert [n.args[0].meta["val"].dtype for n in step] == [torch.float32]


def test_narrow_images(wide_statistics: None) -> None:
    """The value is rounded to the result's type, whose sign is asked for."""
    graphs = Graphs()
    _compare(_relu_of_norm, _inputs(torch.bfloat16), graphs, rtol=2e-2, atol=2e-2)
    assert tensord.stats()["relus_recomputed"] == 1
    (read,) = graphs.backward_reads()
    assert read.name.startswith("primals")
    (step,) = graphs.backward.graph.find_nodes(op="call_function", target=aten.le.Scalar)
    rounded = step.args[0]
    assert rounded.target is aten._to_copy.default
    assert rounded.meta["val"].dtype == torch.bfloat16
    assert rounded.args[0].meta["val"].dtype == torch.float32


def test_casts_between(wide_statistics: None) -> None:
    def function(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return F.relu(_norm(x, weight, bias).to(torch.bfloat16)).float()

    graphs = Graphs()
    _compare(function, _inputs(), graphs, rtol=2e-2, atol=2e-2)
    assert tensord.stats()["relus_recomputed"] == 1
    assert len(graphs.backward_reads()) == 1


def test_saved_for_another_reader() -> None:
    """A convolution's weights' gradient reads the ReLU; the norm's backward does not."""
    model = nn.Sequential(
        nn.Conv2d(3, C, 3, bias=False), nn.BatchNorm2d(C), nn.ReLU(True), nn.Conv2d(C, 4, 3)
    )
    graphs = Graphs()
    compiled = torch.compile(model, backend=graphs, dynamic=False)
    compiled(torch.randn(2, 3, 8, 8)).sum().backward()
    assert tensord.stats()["relus_recomputed"] == 1
    (relu,) = [n for n in graphs.backward_reads() if n.name == "relu"]
    assert [n.target for n in relu.users] == [aten.convolution_backward.default]


def test_zeros_let_nothing_through() -> None:
    """At 0, at -0, and where a positive value is rounded to 0; a NaN lets it through."""
    x = torch.tensor([[0.0, 1.0, -1.0, 2.0], [1e-30, -1e-30, 0.0, 0.0]])
    bias, nan = torch.tensor([0.0, -0.0]), torch.tensor([[0.0, 1.0], [float("nan"), 2.0]])
    for images, shift in ((x.t().contiguous(), bias), (nan, None)):
        _compare(_relu_of_norm, [images, None, shift], Graphs(), equal_nan=True)
    assert tensord.stats()["relus_recomputed"] == 2


# -- what is left as it is -------------------------------------------------------------------------


def _frozen(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.relu(F.batch_norm(x, torch.zeros(C), torch.ones(C), weight, bias, training=False))


LEFT_ALONE: dict[str, Callable[..., Tensor]] = {
    "residual": lambda x, weight, bias: F.relu(_norm(x, weight, bias) + x),
    "no training": _frozen,
    "no norm": lambda x, weight, bias: F.relu(x * weight.sum() + bias.sum()),
    "a threshold": lambda x, weight, bias: F.threshold(_norm(x, weight, bias), 0.5, 0.0),
    "a view between": lambda x, weight, bias: F.relu(_norm(x, weight, bias).flatten(1)),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(name: str) -> None:
    _compare(LEFT_ALONE[name], _inputs(), Graphs())
    assert tensord.stats()["relus_recomputed"] == 0


def test_rounded_statistics_are_left_alone() -> None:
    """As graphs for the CPU have them, of narrow images: they would give other values."""
    _compare(_relu_of_norm, _inputs(torch.bfloat16), Graphs(), rtol=5e-2, atol=5e-2)
    assert tensord.stats()["relus_recomputed"] == 0


# -- with the real daemon --------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [torch.contiguous_format, CHANNELS_LAST], ids=["nchw", "nhwc"])
@pytest.mark.parametrize("affine", [(True, True), (False, False)], ids=["affine", "plain"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_compiled(
    tensord_daemon: object, dtype: torch.dtype, affine: tuple[bool, bool], layout: Any
) -> None:
    x, *vectors = _inputs(dtype, affine)
    vectors = [None if v is None else v.to(dtype) for v in vectors]
    _compare(_relu_of_norm, [x.to(memory_format=layout), *vectors], "tensord")
    assert tensord.stats()["relus_recomputed"] == 1


def test_compiled_signs_agree(tensord_daemon: object) -> None:
    """What forward let through, and nothing else, has a gradient; also next to 0."""
    torch.manual_seed(0)
    x = torch.randint(-3, 4, (16, 64, 9, 7)).float()
    weight = torch.rand(64) + 0.5
    variance, mean = torch.var_mean(x, (0, 2, 3), correction=0)
    # Where x is 1, there is nearly 0.
    bias = ((mean - 1) * (variance + 1e-5).rsqrt() * weight).requires_grad_()
    out = torch.compile(_relu_of_norm, backend="tensord", dynamic=False)(x, weight, bias)
    (through,) = torch.autograd.grad(out, bias, torch.ones_like(out))
    assert tensord.stats()["relus_recomputed"] == 1
    assert out[x == 1].max() < 1e-5 and (out[x == 1] > 0).any() and (out[x == 1] == 0).any()
    assert torch.equal(through, (out > 0).sum((0, 2, 3)).float())
