# SPDX-License-Identifier: Apache-2.0
"""What a training graph saves for backward: no cast of what norms read, but what was cast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from partitioned_graphs import Graphs
from tensord import torch_compat
from tensord.v1 import graph_pb2
from torch import Tensor, fx
from torch._functorch import partitioners

aten = torch.ops.aten

WIDTH, ROWS = 16, 24


def saved(daemon: Any, elements: int) -> list[int]:
    """The types of backward's arguments of so many elements, parameters apart."""
    tensors = [i.tensor for i in daemon.graph("backward").inputs if not i.is_parameter]
    return [t.dtype for t in tensors if product(t) == elements]


def product(tensor: graph_pb2.TensorMeta) -> int:
    count = 1
    for size in tensor.sizes:
        count *= size.constant
    return count


def layer_norm(x: Tensor) -> Tensor:
    return F.layer_norm(x.float(), (WIDTH,)).bfloat16()


def group_norm(x: Tensor) -> Tensor:
    return F.group_norm(x.float().view(2, WIDTH, -1), 4).bfloat16().view(ROWS, WIDTH)


def between_views(x: Tensor) -> Tensor:
    return F.layer_norm(x.view(2, -1, WIDTH).float().transpose(0, 1), (WIDTH,)).bfloat16()


def check(function: Callable[[Tensor, Tensor], Tensor], backend: Any = "tensord") -> None:
    torch.manual_seed(0)
    x = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16)
    weight = torch.randn(WIDTH, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    (wanted,) = torch.autograd.grad(function(x, weight).float().square().sum(), weight)
    got = torch.compile(function, backend=backend, fullgraph=True, dynamic=False)(x, weight)
    (gradient,) = torch.autograd.grad(got.float().square().sum(), weight)
    torch.testing.assert_close(gradient, wanted, rtol=2e-2, atol=2e-1)


@pytest.mark.parametrize("norm", [layer_norm, group_norm, between_views])
def test_a_norm_of_a_product_saves_it_narrow(daemon: Any, norm: Callable[[Tensor], Tensor]) -> None:
    check(lambda x, weight: norm(x @ weight))
    types = saved(daemon, ROWS * WIDTH)
    assert graph_pb2.DTYPE_BFLOAT16 in types and graph_pb2.DTYPE_FLOAT32 not in types


def test_so_does_a_norm_of_a_sum(daemon: Any) -> None:
    """Which fuses with all its readers, as its cast does: no product gives it out."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        stream = x @ weight + x.sin() @ weight
        return layer_norm(stream) @ weight + stream

    check(function)
    assert graph_pb2.DTYPE_FLOAT32 not in saved(daemon, ROWS * WIDTH)


def test_a_call_reads_what_is_saved_wide(daemon: Any) -> None:
    """Whoever wants it in memory would have it cast by a kernel of its own."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        wide = (x @ weight).float()
        return wide @ wide.mT

    check(function)
    assert graph_pb2.DTYPE_FLOAT32 in saved(daemon, ROWS * WIDTH)


def test_a_sum_that_a_norm_reads_is_added_again(daemon: Any) -> None:
    """Of a residual that is saved and a product in 16 bits, rather than saved beside the first."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        stream = (x @ weight).float().sin()
        after = stream + (layer_norm(stream) @ weight).float()
        return layer_norm(after) @ weight + after.bfloat16()

    check(function)
    assert saved(daemon, ROWS * WIDTH).count(graph_pb2.DTYPE_FLOAT32) <= 1


def test_a_number_that_is_cast_is_no_tensor_to_save() -> None:
    """As functions that were vectorised have them: FlexAttention's."""
    torch_compat.let_partitioner_recompute((), (torch.ops.aten.native_layer_norm,))
    graph = fx.Graph()
    number = graph.call_function(aten._to_copy.default, (0.05,), {"dtype": torch.float32})
    number.meta["val"] = torch.tensor(0.05)
    assert not partitioners.get_default_op_list().is_view(number)


# ---- Operators that the daemon lowers whole, and torch's lists have as what they decompose into


def saved_whole(function: Callable[[Tensor, Tensor], Tensor]) -> list[tuple[str, torch.dtype]]:
    """The names and types of backward's arguments, tangents apart, where nothing is decomposed."""
    graphs = Graphs()
    check(function, graphs)
    nodes = graphs.backward.graph.find_nodes(op="placeholder")
    return [(n.name, n.meta["val"].dtype) for n in nodes if not n.name.startswith("tangents")]


def test_a_head_that_queries_share_is_not_saved_for_each() -> None:
    """Attention that no kernel takes multiplies in float32, and backward in 16 bits again."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        queries = x.view(2, 1, -1, WIDTH) + torch.arange(4).view(-1, 1, 1).bfloat16()
        key = (x @ weight).view(2, 1, -1, WIDTH)
        return F.scaled_dot_product_attention(queries.sin(), key, key.cos())

    with torch.autocast("cpu", torch.bfloat16):
        names = [name for name, _ in saved_whole(function)]
    assert names == ["primals_1", "mm", "bmm"]


def test_a_relus_gradient_wants_a_truth_value() -> None:
    """Where its result is read by nothing else in backward, as in front of a dropout."""
    types = [t for _, t in saved_whole(lambda x, w: (F.relu(x @ w) * x.sigmoid()) @ w)]
    assert types.count(torch.bool) == 1
    assert types.count(torch.bfloat16) == 3  # x, the weight, what is multiplied last


def test_a_relu_that_is_saved_anyway_is_compared_again() -> None:
    types = [dtype for _, dtype in saved_whole(lambda x, w: F.relu(x @ w) @ w)]
    assert torch.bool not in types


def test_a_relu_that_the_caller_gets_is_not_compared() -> None:
    types = [dtype for _, dtype in saved_whole(lambda x, w: F.relu(x @ w))]
    assert torch.bool not in types


def test_other_thresholds_are_not_rounded() -> None:
    """To the type of what is compared, as a comparison rounds them: 0.3 is 0.30078 in 16 bits."""

    def function(x: Tensor, weight: Tensor) -> Tensor:
        return F.threshold(x + weight.sum() * 0, 0.3, 0.0)

    x = torch.full((4, 4), 0.3, dtype=torch.bfloat16, requires_grad=True)
    got = torch.compile(function, backend=Graphs(), fullgraph=True)(x, torch.ones(1).bfloat16())
    (gradient,) = torch.autograd.grad(got.sum(), x)
    assert gradient.eq(1).all()


def test_a_row_of_numbers_is_made_again() -> None:
    def function(x: Tensor, weight: Tensor) -> Tensor:
        factors = torch.linspace(0, 1, ROWS * WIDTH).view(ROWS, WIDTH)
        return ((x @ weight) * factors).bfloat16()

    assert [dtype for _, dtype in saved_whole(function)] == [torch.bfloat16]
