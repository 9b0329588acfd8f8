# SPDX-License-Identifier: Apache-2.0
"""Small models with random weights for test_models.py; nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

VOCABULARY = 97
HIDDEN = 64


class Block(nn.Module):
    """One layer of a GPT: causal attention and an MLP, each after a LayerNorm."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width), nn.Dropout(dropout)
        )

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        q, k, v = (
            t.view(batch, length, self.heads, -1).transpose(1, 2)
            for t in self.qkv(self.norm_1(x)).chunk(3, -1)
        )
        mixed = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.dropout if self.training else 0.0, is_causal=True
        )
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_2(x))


class Gpt(nn.Module):
    """The quick start's GPT, small."""

    def __init__(self, dropout: float = 0.0, layers: int = 2, length: int = 32) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, HIDDEN)
        self.places = nn.Embedding(length, HIDDEN)
        self.drop = nn.Dropout(dropout)
        self.blocks = nn.ModuleList(Block(HIDDEN, 4, dropout) for _ in range(layers))
        self.norm = nn.LayerNorm(HIDDEN)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, input_ids: Tensor, labels: Tensor) -> dict[str, Tensor]:
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.drop(self.tokens(input_ids) + self.places(places))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return {"loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def _text(length: int = 19, batch: int = 3) -> dict[str, Tensor]:
    tokens = torch.randint(1, VOCABULARY, (batch, length))
    return {"input_ids": tokens, "labels": torch.randint(1, VOCABULARY, (batch, length))}


def _masked_text() -> dict[str, Tensor]:
    inputs = _text()
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, 11:] = 0
    return {**inputs, "attention_mask": mask}


def _images(size: int) -> dict[str, Tensor]:
    return {"pixel_values": torch.randn(3, 3, size, size), "labels": torch.tensor([1, 0, 4])}


def _gpt() -> tuple[nn.Module, dict[str, Tensor]]:
    return Gpt(), _text()


def _bert() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        max_position_embeddings=40,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return BertForMaskedLM(config), _masked_text()


def _gpt2() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=HIDDEN,
        n_layer=2,
        n_head=4,
        n_positions=40,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
    )
    return GPT2LMHeadModel(config), _text()


def _llama() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=96,
        max_position_embeddings=40,
        use_cache=False,
    )
    return LlamaForCausalLM(config), _text()


def _t5() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        vocab_size=VOCABULARY,
        d_model=HIDDEN,
        d_kv=16,
        d_ff=96,
        num_layers=2,
        num_heads=4,
        dropout_rate=0.0,
        decoder_start_token_id=0,
        use_cache=False,
    )
    return T5ForConditionalGeneration(config), _text()


def _vit() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import ViTConfig, ViTForImageClassification

    config = ViTConfig(
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=96,
        image_size=32,
        patch_size=8,
        num_labels=5,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return ViTForImageClassification(config), _images(32)


def _resnet() -> tuple[nn.Module, dict[str, Tensor]]:
    from transformers import ResNetConfig, ResNetForImageClassification

    config = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[1, 2], layer_type="basic", num_labels=5
    )
    return ResNetForImageClassification(config), _images(35)


# Name -> makes the model and its inputs, after torch.manual_seed.
MODELS: dict[str, Callable[[], tuple[nn.Module, dict[str, Tensor]]]] = {
    "gpt": _gpt,
    "bert": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "t5": _t5,
    "vit": _vit,
    "resnet": _resnet,
}


def build(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    """A model in training mode, and one batch for it; the same at every call."""
    torch.manual_seed(7)
    model, inputs = MODELS[name]()
    return model.train(), inputs


def results(output: Any) -> tuple[Tensor, Tensor]:
    """Loss and logits of a model's output."""
    return output["loss"], output["logits"]
