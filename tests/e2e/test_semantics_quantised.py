# SPDX-License-Identifier: Apache-2.0
"""Quantised weights and what goes with them; as in eager."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from both_ways import both_ways
from torch import Tensor, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def quantised(weight: Tensor) -> tuple[Tensor, Tensor]:
    """Rows as int8, and the scale of each."""
    scales = weight.abs().amax(1) / 127
    return (weight / scales[:, None]).round().to(torch.int8), scales


class Int8(nn.Module):
    """A layer of int8 weights. how: they are made wide in the graph, or an operator takes them."""

    def __init__(self, how: str, dtype: torch.dtype) -> None:
        super().__init__()
        weight, scales = quantised(torch.randn(24, 16))
        self.how = how
        self.register_buffer("weight", weight)
        self.register_buffer("scales", scales.to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        if self.how == "packed":
            return torch.ops.aten._weight_int8pack_mm(x, self.weight, self.scales)
        if self.how == "scaled after":
            return F.linear(x, self.weight.to(x.dtype)) * self.scales
        return F.linear(x, self.weight.to(x.dtype) * self.scales[:, None])


@pytest.mark.parametrize(("how", "dtype"), [
    ("packed", torch.bfloat16), ("packed", torch.float32), ("scaled after", torch.bfloat16),
    ("scaled after", torch.float32), ("scaled before", torch.float32),
])  # fmt: skip
def test_weights_of_int8(how: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    layers = nn.Sequential(Int8(how, dtype), nn.GELU())
    both_ways(layers, torch.randn(5, 16, dtype=dtype))


def test_gradients_go_through_weights_of_int8() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), Int8("scaled after", torch.float32))
    both_ways(model, torch.randn(5, 8, requires_grad=True))


def test_products_of_integers() -> None:
    def function(x: Tensor, w: Tensor) -> Tensor:
        scale = x.abs().amax() / 127
        narrow = (x / scale).round().clamp(-128, 127).to(torch.int8)
        return torch._int_mm(narrow, w).float() * scale

    w = torch.randint(-128, 128, (16, 24), dtype=torch.int8)
    both_ways(function, torch.randn(32, 16), w)


def test_fake_quantisation_trains() -> None:
    def function(x: Tensor, scale: Tensor) -> Tensor:
        y = torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127)
        zeros = torch.zeros(4, dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(y * 2, scale, zeros, 0, -8, 7).sin()

    both_ways(function, torch.randn(4, 6, requires_grad=True), torch.rand(4) + 0.1)


def test_quantised_and_made_wide_again() -> None:
    import torch.ao.quantization.fx._decomposed

    decomposed = torch.ops.quantized_decomposed

    def function(x: Tensor, scales: Tensor) -> tuple[Tensor, Tensor]:
        one = decomposed.quantize_per_tensor(x, 0.05, 2, -128, 127, torch.int8)
        zeros = torch.zeros(4, dtype=torch.int64)
        many = decomposed.quantize_per_channel(x, scales, zeros, 0, -128, 127, torch.int8)
        wide = decomposed.dequantize_per_tensor(one, 0.05, 2, -128, 127, torch.int8)
        rows = decomposed.dequantize_per_channel(many, scales, zeros, 0, -128, 127, torch.int8)
        return wide * 2, rows @ x.t()

    both_ways(function, torch.randn(4, 6), torch.rand(4) / 10 + 0.01)


def test_tensors_that_are_quantised_themselves() -> None:
    def function(x: Tensor) -> Tensor:
        q = torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
        return q.relu().dequantize() * 2 + 1

    both_ways(function, torch.randn(4, 6))


def test_a_model_that_torch_has_quantised() -> None:
    torch.manual_seed(0)
    if "x86" not in torch.backends.quantized.supported_engines:
        pytest.skip("torch has no engine for quantised layers here")
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).eval()
    model = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)

    class After(nn.Module):  # Dynamo breaks at the packed weights
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Tensor) -> Tensor:
            return self.model(x.sin() * 2).softmax(-1) * 3

    both_ways(After(), torch.randn(5, 8), fullgraph=False)


@pytest.mark.parametrize("dtype", [torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_weights_of_float8(dtype: torch.dtype) -> None:
    def function(x: Tensor, w: Tensor, scale: Tensor) -> tuple[Tensor, Any]:
        return F.linear(x, w.to(x.dtype) * scale), (x * 3).to(dtype).to(torch.float32)

    w = torch.randn(24, 16)
    both_ways(lambda x, w, s: function(x, w.view(dtype), s),
              torch.randn(5, 16), w.to(dtype).view(torch.uint8), torch.tensor(0.5))  # fmt: skip
