"""Small models against eager and float64: loss, results, gradients; float32 and bfloat16."""

from __future__ import annotations

import functools
from collections.abc import Callable

import model_check
import models
import torch
import torch.nn.functional as F
from torch import Tensor

_BFLOAT16 = 2.0**-8  # the error of one rounding


def _logits(
    x: Tensor, weight: Tensor, bias: Tensor | None, target: Tensor
) -> tuple[Tensor, Tensor]:
    with torch.autocast("cuda", torch.bfloat16):
        logits = F.linear(x, weight, bias)
    return logits, F.cross_entropy(logits.float(), target)


def _odd_vocabulary(rows: int, classes: int, biased: bool) -> None:
    """Logits of a size that the library is slow with, as they are given out, and their loss."""
    torch.manual_seed(0)
    x, weight = torch.randn(rows, 256), torch.randn(classes, 256) / 16
    bias = torch.randn(classes) if biased else None
    target = torch.randint(0, classes, (rows,))
    with torch.no_grad():
        logits, loss = torch.compile(_logits, backend="tensord")(x, weight, bias, target)
    exact = x.bfloat16().double() @ weight.bfloat16().double().t()
    if bias is not None:
        exact += bias.bfloat16().double()
    assert logits.is_contiguous()
    torch.testing.assert_close(logits.double(), exact, rtol=_BFLOAT16, atol=_BFLOAT16)
    torch.testing.assert_close(loss, F.cross_entropy(logits.float(), target), rtol=1e-5, atol=1e-5)


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Training and inference of each; the ends of models on a GPU."""
    kinds = {"training": model_check.check_training, "inference": model_check.check_inference}
    found = [
        (f"{name}-{kind}-{precision}", functools.partial(check, name, precision))
        for precision in model_check.TOLERANCE
        for kind, check in kinds.items()
        for name in models.MODELS
    ]
    if torch.get_default_device().type == "cuda":
        for rows, classes, biased in ((2051, 50257, False), (4096, 30522, True)):
            name = f"logits-{rows}x{classes}"
            found.append((name, functools.partial(_odd_vocabulary, rows, classes, biased)))
    return found
