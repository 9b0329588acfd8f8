# SPDX-License-Identifier: Apache-2.0
"""Training graphs whose convolutions run on channels-last memory: the pass over the joint graph.

It aims at GPUs, so here it is told to act on graphs for the CPU. Partitioned graphs are looked at
and run in eager; at the end the real daemon compiles them.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import client_passes
import pytest
import tensord
import torch
import torch.nn.functional as F
from compare import check_relative, wide
from tensord import torch_compat
from tensord.capture import partition
from tensord.passes.joint import channels_last
from torch import Tensor, fx, nn
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func

pytestmark = pytest.mark.usefixtures("nothing_compiled")

aten = torch.ops.aten
CONVOLUTIONS = (aten.convolution.default, aten.convolution_backward.default)


class Residual(nn.Module):
    """A stem, two blocks with a shortcut each, and a classifier, as in a ResNet."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True)
        )
        self.first = self._convolutions(width, width, 1)
        self.second = self._convolutions(width, 2 * width, 2)
        self.down = nn.Conv2d(width, 2 * width, 1, 2)
        self.out = nn.Linear(2 * width, 5)

    @staticmethod
    def _convolutions(before: int, after: int, stride: int) -> nn.Module:
        return nn.Sequential(
            nn.Conv2d(before, after, 3, stride, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(inplace=True),
            nn.Conv2d(after, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
        )

    def features(self, x: Tensor) -> Tensor:
        x = F.max_pool2d(self.stem(x), 3, 2, 1)
        x = F.relu(self.first(x) + x)
        return F.relu(self.second(x) + self.down(x))

    def forward(self, x: Tensor) -> Tensor:
        return self.out(torch.flatten(F.adaptive_avg_pool2d(self.features(x), 1), 1))


class Features(Residual):
    """Gives the images as well: they leave the graph in eager's layout."""

    def forward(self, x: Tensor) -> Tensor:
        return self.features(x)


class Checkpointed(Residual):
    """Computes everything but its classifier again in backward."""

    def __init__(self) -> None:
        super().__init__()
        for norm in (m for m in self.modules() if isinstance(m, nn.BatchNorm2d)):
            norm.running_mean = norm.running_var = norm.num_batches_tracked = None

    def features(self, x: Tensor) -> Tensor:
        return torch.utils.checkpoint.checkpoint(super().features, x, use_reentrant=False)


class Tokens(Residual):
    """Views that channels-last memory has not, and one that it has."""

    def forward(self, x: Tensor) -> Tensor:
        x = self.features(x)
        flat = x.view(x.shape[0], -1)
        tokens = x.flatten(2).transpose(1, 2)
        corner = torch.as_strided(x, (2, 3), (5, 1))
        return (tokens.softmax(1) * tokens).sum(1) * flat.mean() + corner.sum()


class Segments(nn.Module):
    """An encoder and a decoder with a shortcut: concatenation, upsampling, a transposed
    convolution, a depthwise one and a group norm."""

    def __init__(self) -> None:
        super().__init__()
        self.inside = nn.Conv2d(3, 16, 3, 1, 1)
        self.depthwise = nn.Conv2d(16, 16, 3, 1, 1, groups=16)
        self.norm = nn.GroupNorm(4, 16)
        self.scale = nn.Conv2d(16, 16, 1)
        self.up = nn.ConvTranspose2d(16, 16, 2, 2)
        self.out = nn.Conv2d(48, 16, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        whole = F.silu(self.inside(x))
        x = F.gelu(self.norm(self.depthwise(F.avg_pool2d(whole, 2))))
        x = x * torch.sigmoid(self.scale(x.mean((2, 3), keepdim=True)))
        return self.out(torch.cat([whole, F.interpolate(x, scale_factor=2.0), self.up(x)], 1))


MODELS: dict[str, Callable[[], nn.Module]] = {
    "residual": Residual,
    "features": Features,
    "checkpointed": Checkpointed,
    "tokens": Tokens,
    "segments": Segments,
}


class Graphs:
    """A backend that cuts graphs as tensord does and runs them in eager."""

    def __init__(self) -> None:
        self.graphs: dict[str, fx.GraphModule] = {}

    def __call__(self, module: fx.GraphModule, inputs: Any) -> Any:
        compilers = {
            f"{which}_compiler": functools.partial(self._keep, which) for which in ("fw", "bw")
        }
        with torch_compat.lower_backward_early():
            return aot_autograd(partition_fn=partition.partition, **compilers)(module, inputs)

    def _keep(self, which: str, module: fx.GraphModule, inputs: Any) -> Any:
        module.graph.lint()
        self.graphs[which] = module
        return make_boxed_func(module.forward)

    def nodes(self, *targets: Any) -> list[fx.Node]:
        every = [node for graph in self.graphs.values() for node in graph.graph.nodes]
        return [node for node in every if node.target in targets]


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> None:
    force = functools.partial(channels_last.channels_last, force=True)
    client_passes.change(monkeypatch, "channels_last", run=force)


@pytest.fixture
def tensor_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if this were a GPU on which every type has tensor cores."""
    monkeypatch.setattr(channels_last, "_on_tensor_cores", lambda tensor: tensor.dim() == 4)


def _images(channels: int = 3, size: int = 32) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(2, channels, size, size)


def _model(name: str) -> nn.Module:
    torch.manual_seed(0)
    return MODELS[name]()


def _step(model: nn.Module, run: Any, images: Tensor, low: bool = False) -> dict[str, Tensor]:
    """What one step leaves: the result, every gradient and every buffer."""
    images = images.detach().clone().requires_grad_()
    with torch.autocast("cpu", torch.bfloat16, enabled=low):
        out = run(images)
    weight = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    (out * weight).sum().backward()
    found = {"result": out.detach(), "gradient of images": images.grad}
    gradients = {name: p.grad for name, p in model.named_parameters()}
    found |= {f"gradient of {name}": g for name, g in gradients.items() if g is not None}
    return found | {f"buffer {name}": b.clone() for name, b in model.named_buffers()}


def _strides(tensor: Tensor) -> list[int]:
    """Those that mean something: of the others, the library may give what it likes."""
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return [stride for size, stride in strides if size > 1]


def _compare(name: str, backend: Any, low: bool) -> None:
    model, images = _model(name), _images()
    eager_model, exact_model = copy.deepcopy(model), copy.deepcopy(model).double()
    eager = _step(eager_model, eager_model, images, low)
    exact = _step(exact_model, exact_model, wide(images).detach())
    ours = _step(model, torch.compile(model, backend=backend, dynamic=False), images, low)
    assert ours.keys() == eager.keys()
    for key, value in eager.items():
        assert _strides(ours[key]) == _strides(value), key
        if value.is_floating_point():
            check_relative(key, ours[key], value, exact[key], 2e-2 if low else 2e-5)
        else:
            assert torch.equal(ours[key], value), key


def _is_channels_last(node: fx.Node) -> bool:
    return node.meta["val"].is_contiguous(memory_format=torch.channels_last)


def _copies(graphs: Graphs) -> list[fx.Node]:
    """Copies of images; those of weights are small."""
    copies = graphs.nodes(aten.clone.default)
    return [n for n in copies if n.meta["val"].dim() == 4 and n.meta["val"].shape[0] == 2]


# -- what the graphs become ------------------------------------------------------------------------


@pytest.mark.parametrize("low", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("name", MODELS)
def test_results_and_their_strides(forced: None, name: str, low: bool) -> None:
    graphs = Graphs()
    _compare(name, graphs, low)
    assert tensord.stats()["channels_last"] > 0
    operands = [
        arg
        for node in graphs.nodes(*CONVOLUTIONS)
        for arg in node.args[: 2 if node.target is CONVOLUTIONS[0] else 3]
    ]
    wrong = [arg for arg in operands if not _is_channels_last(arg)]
    assert operands and not wrong, wrong


def test_layout_goes_through(forced: None) -> None:
    """One copy brings the images in, and their gradient is copied back: nothing else."""
    graphs = Graphs()
    _compare("residual", graphs, low=False)
    assert len(_copies(graphs)) == 3
    (pool,) = graphs.nodes(aten.max_pool2d_with_indices_backward.default)
    assert all(_is_channels_last(arg) for arg in pool.all_input_nodes)
    norms = graphs.nodes(aten.native_batch_norm_backward.default)
    assert len(norms) == 5
    assert all(_is_channels_last(arg) for node in norms for arg in node.args[:2])


def test_casts_write_the_layout(forced: None) -> None:
    """Under autocast no copy is needed where a cast is."""
    graphs = Graphs()
    _compare("residual", graphs, low=True)
    casts = [n for n in graphs.nodes(aten._to_copy.default) if "memory_format" in n.kwargs]
    assert len(casts) == 1 + 5  # of the images, and of all weights that are no matrices
    weights = [n for n in graphs.nodes(aten.clone.default) if n not in _copies(graphs)]
    assert all(n.kwargs["memory_format"] is torch.contiguous_format for n in weights)


# -- where it acts ---------------------------------------------------------------------------------


def _turned(model: nn.Module, images: Tensor, **options: Any) -> int:
    torch._dynamo.reset()
    tensord.reset_stats()
    compiled = torch.compile(model, backend=Graphs(), **{"dynamic": False, **options})
    compiled(images).square().mean().backward()
    return tensord.stats()["channels_last"]


def test_where_it_pays(tensor_cores: None) -> None:
    assert _turned(_model("residual"), _images(size=64)) == 12
    assert _turned(_model("segments"), _images(size=64)) > 0


class Patches(nn.Module):
    """One convolution, whose patches do not overlap, and then a transformer's tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.patches, self.out = nn.Conv2d(3, 32, 8, 8), nn.Linear(32, 32)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.patches(x).flatten(2).transpose(1, 2))


def _chain(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers)


LEFT_ALONE: dict[str, tuple[Callable[[], nn.Module], Tensor]] = {
    "few channels": (lambda: _chain(nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)), _images()),
    "odd channels": (lambda: _chain(nn.Conv2d(30, 30, 3), nn.Conv2d(30, 30, 3)), _images(30)),
    "groups": (lambda: _chain(nn.Conv2d(32, 32, 3), nn.Conv2d(32, 32, 3, groups=4)), _images(32)),
    "patches": (Patches, _images()),
    "of one dimension": (lambda: _chain(nn.Conv1d(32, 32, 3)), torch.randn(2, 32, 50)),
    "of three dimensions": (lambda: _chain(nn.Conv3d(16, 16, 3)), torch.randn(2, 16, 6, 6, 6)),
    "no convolution": (lambda: _chain(nn.Linear(32, 32)), _images()),
    "already": (
        lambda: Residual().to(memory_format=torch.channels_last),
        _images(size=64).to(memory_format=torch.channels_last),
    ),
}


@pytest.mark.parametrize("name", LEFT_ALONE)
def test_left_alone(tensor_cores: None, name: str) -> None:
    make, images = LEFT_ALONE[name]
    assert _turned(make(), images) == 0


def test_unknown_sizes_are_left_alone(tensor_cores: None) -> None:
    assert _turned(_model("residual"), _images(size=64), dynamic=True) == 0


def test_the_cpu_is_left_alone() -> None:
    assert _turned(_model("residual"), _images(size=64)) == 0


def test_one_dimension_beside_two(forced: None) -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = nn.Conv1d(16, 16, 3), nn.Conv2d(16, 16, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.one(self.two(x).flatten(2))

    assert _turned(Both(), _images(16)) == 2


# -- with the real daemon --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "low"),
    [("residual", False), ("residual", True), ("tokens", True), ("segments", False)],
)
def test_compiled(tensord_daemon: object, forced: None, name: str, low: bool) -> None:
    _compare(name, "tensord", low)
    assert tensord.stats()["channels_last"] > 0
