# SPDX-License-Identifier: Apache-2.0
"""How test_models.py compares a model with eager; it needs no pytest, and works on any device.

Models and inputs are made on torch's default device.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import models
import tensord
import torch
from compare import check_relative, wide
from torch import Tensor, nn

# Error as a fraction of the largest value that is allowed whatever eager's own error is.
TOLERANCE = {"float32": 2e-5, "bfloat16": 2e-2}


def _device() -> str:
    return torch.get_default_device().type


def _precision(name: str) -> Any:
    return torch.autocast(_device(), dtype=torch.bfloat16) if name == "bfloat16" else nullcontext()


def _forward(run: Any, inputs: dict[str, Tensor], precision: str) -> tuple[Tensor, Tensor]:
    with _precision(precision):
        return models.results(run(**inputs))


def _train(
    model: nn.Module, run: Any, inputs: dict[str, Tensor], precision: str
) -> dict[str, Tensor]:
    """Loss, logits, every gradient and every buffer after one step forward and backward."""
    model.zero_grad()
    loss, logits = _forward(run, inputs, precision)
    loss.backward()
    found = {"loss": loss, "logits": logits}
    found |= {f"gradient of {n}": p.grad for n, p in model.named_parameters() if p.grad is not None}
    return found | {f"buffer {name}": buffer.clone() for name, buffer in model.named_buffers()}


def _compare(ours: Any, eager: Any, exact: Any, precision: str) -> None:
    assert ours.keys() == eager.keys() == exact.keys()
    for name, value in eager.items():
        if value.is_floating_point():
            check_relative(name, ours[name], value, exact[name], TOLERANCE[precision])
        else:
            assert torch.equal(ours[name], value), name


@contextmanager
def _all_compiled() -> Iterator[None]:
    tensord.reset_stats()
    yield
    stats = tensord.stats()
    assert stats["graphs"] > 0
    assert stats["compiled"] + stats["joined"] + stats["hits"] == stats["graphs"], stats
    assert stats["fallbacks"] == 0, stats
    assert stats["calls_in_eager"] == 0, stats


def check_training(name: str, precision: str, **options: Any) -> None:
    """Loss, results and every gradient of one step; `options` go to torch.compile."""
    model, inputs = models.build(name)
    eager_model, exact_model = copy.deepcopy(model), copy.deepcopy(model).double()
    eager = _train(eager_model, eager_model, inputs, precision)
    exact = _train(exact_model, exact_model, wide(inputs), "float32")
    with _all_compiled():
        compiled = torch.compile(model, backend="tensord", **options)
        _compare(_train(model, compiled, inputs, precision), eager, exact, precision)


def check_inference(name: str, precision: str, **options: Any) -> None:
    """Loss and results of one call; `options` go to torch.compile."""
    model, inputs = models.build(name)
    model.eval()
    with torch.no_grad(), _all_compiled():
        exact = _forward(copy.deepcopy(model).double(), wide(inputs), "float32")
        eager = _forward(model, inputs, precision)
        compiled = torch.compile(model, backend="tensord", **options)
        ours = _forward(compiled, inputs, precision)
        names = ("loss", "logits")
        _compare(*(dict(zip(names, r, strict=True)) for r in (ours, eager, exact)), precision)
