# SPDX-License-Identifier: Apache-2.0
"""The whole models of the GPU benchmark: real sizes, random weights, nothing downloaded.

Each takes `small`: a few layers and tokens, for a dry run on a CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from model_cases import PlainGpt, loss_of
from torch import nn

Made = tuple[nn.Module, dict[str, Any]]


@dataclass(frozen=True)
class GpuModel:
    """A model and the keyword arguments of its call, on the CPU; its result has a loss."""

    name: str
    make: Callable[[bool], Made]


def _tokens(batch: int, length: int, vocabulary: int) -> dict[str, torch.Tensor]:
    ids = torch.randint(0, vocabulary, (batch, length))
    return {"input_ids": ids, "labels": ids.clone()}


def _images(batch: int, size: int, classes: int = 1000) -> dict[str, torch.Tensor]:
    pixels = torch.randn(batch, 3, size, size)
    return {"pixel_values": pixels, "labels": torch.randint(0, classes, (batch,))}


def _bert(small: bool) -> Made:
    from transformers import BertConfig, BertForMaskedLM

    shape = _SMALL if small else {}
    config = BertConfig(**shape)
    return BertForMaskedLM(config), _tokens(*((2, 32) if small else (16, 512)), config.vocab_size)


_SMALL = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
}


class Classifier(nn.Module):
    """A network from images to classes, with the loss of its answers."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, pixel_values: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(self.network(pixel_values).float(), labels)


def _resnet(small: bool) -> Made:
    inputs = _images(2, 64) if small else _images(64, 224)
    try:
        from torchvision.models import resnet18, resnet50
    except (ImportError, RuntimeError):  # missing, or built for another torch
        from transformers import ResNetConfig, ResNetForImageClassification

        depths = [1, 1, 1, 1] if small else [3, 4, 6, 3]
        return ResNetForImageClassification(ResNetConfig(depths=depths, num_labels=1000)), inputs
    return Classifier(resnet18() if small else resnet50()), inputs


def _vit(small: bool) -> Made:
    from transformers import ViTConfig, ViTForImageClassification

    size = 64 if small else 224
    config = ViTConfig(image_size=size, num_labels=1000, **(_SMALL if small else {}))
    return ViTForImageClassification(config), _images(2 if small else 64, size)


def _gpt2(small: bool) -> Made:
    from transformers import GPT2Config, GPT2LMHeadModel

    shape = {"n_embd": 64, "n_layer": 2, "n_head": 4} if small else {}
    config = GPT2Config(use_cache=False, **shape)
    return GPT2LMHeadModel(config), _tokens(*((2, 32) if small else (8, 512)), config.vocab_size)


def _llama(small: bool) -> Made:
    from transformers import LlamaConfig, LlamaForCausalLM

    width, layers = (64, 2) if small else (1024, 12)
    config = LlamaConfig(
        vocab_size=32000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64 or 1,
        num_key_value_heads=max(1, width // 256),
        intermediate_size=width * 11 // 4,
        use_cache=False,
    )
    return LlamaForCausalLM(config), _tokens(*((2, 32) if small else (4, 1024)), config.vocab_size)


def _t5(small: bool) -> Made:
    from transformers import T5Config, T5ForConditionalGeneration

    shape = {"d_model": 64, "d_ff": 128, "d_kv": 16, "num_layers": 2, "num_heads": 4}
    config = T5Config(decoder_start_token_id=0, use_cache=False, **(shape if small else {}))
    return T5ForConditionalGeneration(config), _tokens(
        *((2, 16) if small else (16, 128)), config.vocab_size
    )


def _plain_gpt(small: bool) -> Made:
    if small:
        return PlainGpt(64, 2, 32), _tokens(2, 32, 256)
    return PlainGpt(768, 12, 512), _tokens(16, 512, 256)


CASES = (
    GpuModel("BERT-base 16x512", _bert),
    GpuModel("ResNet-50 64", _resnet),
    GpuModel("ViT-B/16 64", _vit),
    GpuModel("GPT-2 8x512", _gpt2),
    GpuModel("Llama, 12 layers, 4x1024", _llama),
    GpuModel("T5-small 16x128", _t5),
    GpuModel("GPT, plain modules, 12 layers, 16x512", _plain_gpt),
)


def made(case: GpuModel, device: str, small: bool) -> Made:
    """The model and its inputs on `device`; the same weights at every call."""
    torch.manual_seed(0)
    with torch.device(device):  # an architecture is tried before it is taken
        model, inputs = case.make(small)
    return model.to(device), {name: x.to(device) for name, x in inputs.items()}


def step_of(
    module: Callable[..., Any],
    model: nn.Module,
    inputs: dict[str, Any],
    training: bool,
    device: str,
    dtype: torch.dtype | None = torch.bfloat16,
    graphs: bool = False,
) -> Callable[[], torch.Tensor]:
    """One inference step, or forward and backward (no optimizer), under autocast to `dtype`.

    module: the model as it is called, compiled or not; model: the holder of the parameters.
    graphs: begins each step as CUDA graphs want it told; torch loads TorchInductor for that, which
    is no part of a step without them.
    """
    enabled = dtype is not None
    kind = dtype or torch.bfloat16
    mark = torch.compiler.cudagraph_mark_step_begin if graphs else lambda: None
    parameters = list(model.parameters())

    def loss() -> torch.Tensor:
        with torch.autocast(device, kind, enabled=enabled):
            return loss_of(module(**inputs))

    def infer() -> torch.Tensor:
        mark()
        with torch.no_grad():
            return loss()

    def train() -> torch.Tensor:
        mark()
        for parameter in parameters:
            parameter.grad = None
        result = loss()
        result.backward()
        return result.detach()

    return train if training else infer
