# SPDX-License-Identifier: Apache-2.0
"""The whole models: small, with random weights, and nothing downloaded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        b, t, c = x.shape
        parts = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, c // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) / math.sqrt(c // self.heads)
        mask = torch.ones(t, t, dtype=torch.bool, device=x.device).tril()
        weights = self.dropout(scores.masked_fill(~mask, float("-inf")).softmax(-1))
        mixed = (weights @ v).transpose(1, 2).reshape(b, t, c)
        x = x + self.dropout(self.out(mixed))
        return x + self.dropout(self.down(F.gelu(self.up(self.norm2(x)))))


class PlainGpt(nn.Module):
    """A GPT of plain modules, as people write it: attention by hand, dropout."""

    def __init__(self, width: int = 256, layers: int = 4, context: int = 128) -> None:
        super().__init__()
        self.tokens, self.places = (
            nn.Embedding(256, width),
            nn.Embedding(context, width),
        )
        self.blocks = nn.ModuleList(_Block(width, 4, 0.1) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 256, bias=False)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        x = self.tokens(input_ids) + self.places(
            torch.arange(input_ids.shape[1], device=input_ids.device)
        )
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), labels.flatten())


@dataclass(frozen=True)
class ModelCase:
    """A model and the keyword arguments of its call, which gives a loss (or has one)."""

    name: str
    make: Callable[[], tuple[nn.Module, dict[str, Any]]]


def _tokens(batch: int, length: int, vocabulary: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, vocabulary, (batch, length))
    return {"input_ids": ids, "labels": ids.clone()}


def _plain_gpt() -> tuple[nn.Module, dict[str, Any]]:
    return PlainGpt(), _tokens(8, 128, 256)


def _bert() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=4096,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
    )
    inputs = _tokens(8, 128, config.vocab_size)
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])
    return BertForMaskedLM(config), inputs


def _gpt2() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(vocab_size=4096, n_embd=256, n_layer=4, n_head=4, n_positions=256)
    return GPT2LMHeadModel(config), _tokens(8, 128, config.vocab_size)


def _llama() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=4096,
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=704,
        use_cache=False,
    )
    return LlamaForCausalLM(config), _tokens(8, 128, config.vocab_size)


def _vit() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=256,
        num_hidden_layers=4,
        num_attention_heads=4,
        intermediate_size=1024,
        image_size=112,
        patch_size=8,
        num_labels=10,
    )
    inputs = {
        "pixel_values": torch.randn(4, 3, 112, 112),
        "labels": torch.randint(0, 10, (4,)),
    }
    return ViTForImageClassification(config), inputs


def _resnet() -> tuple[nn.Module, dict[str, Any]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=32,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=10,
    )
    inputs = {
        "pixel_values": torch.randn(8, 3, 96, 96),
        "labels": torch.randint(0, 10, (8,)),
    }
    return ResNetForImageClassification(config), inputs


CASES = (
    ModelCase("GPT, plain modules, 4 layers", _plain_gpt),
    ModelCase("BERT, 4 layers", _bert),
    ModelCase("GPT-2, 4 layers", _gpt2),
    ModelCase("Llama, 4 layers", _llama),
    ModelCase("ViT, 4 layers", _vit),
    ModelCase("ResNet, 8 blocks", _resnet),
)


def loss_of(result: Any) -> torch.Tensor:
    """The loss, from a model's own result."""
    return result if isinstance(result, torch.Tensor) else result.loss


def step_of(
    module: Callable[..., Any], model: nn.Module, inputs: dict[str, Any], training: bool
) -> Callable[[], torch.Tensor]:
    """One inference step, or forward and backward (no optimizer). Returns the loss.

    module: the model as it is called, compiled or not; model: the holder of the parameters.
    """

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return loss_of(module(**inputs))

    def train() -> torch.Tensor:
        for parameter in model.parameters():
            parameter.grad = None
        loss = loss_of(module(**inputs))
        loss.backward()
        return loss.detach()

    return train if training else infer
