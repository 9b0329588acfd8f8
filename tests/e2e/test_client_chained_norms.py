# SPDX-License-Identifier: Apache-2.0
"""Layer norms that read another one's result, which backward computes again."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tensord
import torch
import torch.nn.functional as F
from partitioned_graphs import Graphs
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

pytestmark = pytest.mark.usefixtures("nothing_compiled")

C = 8
READERS = ["an activation", "a product of a view"]


class Patches(nn.Module):
    """An image's patches, normed, and a block that begins with a norm."""

    def __init__(self, affine: bool = True) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, C, 2, 2)
        self.norm = nn.LayerNorm(C, elementwise_affine=affine)
        self.block_norm = nn.LayerNorm(C)
        self.linear = nn.Linear(C, C)

    def patches(self, x: Tensor) -> Tensor:
        return self.norm(self.first(x).flatten(2).transpose(1, 2))

    def block(self, y: Tensor) -> Tensor:
        return y + self.linear(self.block_norm(y))

    def forward(self, x: Tensor) -> Tensor:
        return self.block(F.dropout(self.patches(x), 0.0))


def _gradients(model: nn.Module, run: Callable[[Tensor], Tensor]) -> list[Tensor]:
    model.zero_grad(set_to_none=True)
    torch.manual_seed(1)
    out = run(torch.randn(4, 3, 8, 6))
    out.square().sum().backward()
    return [out.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]


def _compare(model: nn.Module, backend: object) -> None:
    ours = _gradients(model, torch.compile(model, backend=backend, dynamic=False))
    for a, b in zip(ours, _gradients(model, model), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def _images(graphs: Graphs) -> list[str]:
    """Backward's arguments of as many elements as the patches."""
    reads = graphs.backward.graph.find_nodes(op="placeholder")
    return [n.name for n in reads if n.meta["val"].numel() == 4 * 12 * C and "tang" not in n.name]


@pytest.fixture(params=[True, False], ids=["affine", "plain"])
def model(request: pytest.FixtureRequest) -> Patches:
    torch.manual_seed(0)
    model = Patches(request.param)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.rand_like(parameter))
    return model


def test_backward_reads_what_the_first_norm_read(model: Patches) -> None:
    """And what the linear layer read, but not what is between the norms."""
    graphs = Graphs()
    _compare(model, graphs)
    assert len(_images(graphs)) == 2
    assert tensord.stats()["norms_recomputed"] == 1


def test_of_three_the_middle_ones_input_is_read(model: Patches) -> None:
    """Of which the third one's is computed again."""
    more = nn.LayerNorm(C)

    def function(x: Tensor) -> Tensor:
        return model.block(more(model.patches(x)))

    graphs = Graphs()
    run = torch.compile(function, backend=graphs, dynamic=False)
    for a, b in zip(_gradients(model, run), _gradients(model, function), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
    assert tensord.stats()["norms_recomputed"] == 1
    assert len(_images(graphs)) == 3


def test_sizes_that_change(model: Patches) -> None:
    run = torch.compile(model, backend=Graphs(), dynamic=True)
    for a, b in zip(_gradients(model, run), _gradients(model, model), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("read", [F.gelu, lambda y: y @ y.mT], ids=READERS)
def test_a_result_that_is_saved_anyway_is_read(
    model: Patches, read: Callable[[Tensor], Tensor]
) -> None:
    def function(x: Tensor) -> Tensor:
        y = model.patches(x)
        return model.block(y).sum() + read(y).sum()

    _compare_function(model, function)
    assert tensord.stats()["norms_recomputed"] == 0


def test_so_is_one_that_is_returned(model: Patches) -> None:
    graphs = Graphs()

    def both(x: Tensor) -> tuple[Tensor, Tensor]:
        y = model.patches(x)
        return y, model.block(y)

    out = torch.compile(both, backend=graphs, dynamic=False)(torch.randn(4, 3, 8, 6))
    (out[0].sum() + out[1].sum()).backward()
    assert tensord.stats()["norms_recomputed"] == 0


def test_frozen_norms_have_nothing_to_compute_it_from(model: Patches) -> None:
    """No backward of their own: neither input nor statistics are saved."""
    for parameter in (*model.first.parameters(), *model.norm.parameters()):
        parameter.requires_grad_(False)
    _compare(model, Graphs())
    assert tensord.stats()["norms_recomputed"] == 0


def test_a_checkpoint_says_itself_what_is_computed_again(model: Patches) -> None:
    def function(x: Tensor) -> Tensor:
        return checkpoint(model, x.requires_grad_(), use_reentrant=False)

    _compare_function(model, function)
    assert tensord.stats()["norms_recomputed"] == 0


def test_narrow_results_are_rounded_as_forward_rounds_them() -> None:
    """On CPUs statistics of 16 bits are rounded, and the result is read."""
    torch.manual_seed(0)
    model = Patches().bfloat16()

    def function(x: Tensor) -> Tensor:
        return model(x.bfloat16()).float()

    run = torch.compile(function, backend=Graphs(), dynamic=False)
    run(torch.randn(4, 3, 8, 6)).sum().backward()
    rounded = torch.native_layer_norm(torch.randn(2, C).bfloat16(), (C,), None, None, 1e-5)[1]
    expected = 0 if rounded.dtype == torch.bfloat16 else 1
    assert tensord.stats()["norms_recomputed"] == expected


def _compare_function(model: nn.Module, function: Callable[[Tensor], Tensor]) -> None:
    run = torch.compile(function, backend=Graphs(), dynamic=False)
    for a, b in zip(_gradients(model, run), _gradients(model, function), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
