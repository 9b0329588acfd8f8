# SPDX-License-Identifier: Apache-2.0
"""Losses and their gradients."""

from __future__ import annotations

import torch
from recorder import aten, case, later, rand, special, uniform


@later
def some_zero(probabilities: torch.Tensor) -> torch.Tensor:
    probabilities[0, 0] = 0
    return probabilities


@later
def labels() -> torch.Tensor:
    """Classes of pixels, one of them class 1 for sure."""
    classes = torch.randint(0, 3, (2, 4, 5))
    classes[0, 0, 0] = 1
    return classes


def cases() -> None:
    x, y = rand(4, 5), rand(4, 5)
    for reduction in (0, 1, 2):
        g = rand(4, 5) if reduction == 0 else torch.tensor(1.7)
        case(aten.mse_loss, x, y, reduction)
        case(aten.mse_loss_backward, g, x, y, reduction)
        case(aten.smooth_l1_loss, x, y, reduction, 0.7)
        case(aten.smooth_l1_loss_backward, g, x, y, reduction, 0.7)
        case(aten.huber_loss, x, y, reduction, 0.7)
        case(aten.huber_loss_backward, g, x, y, reduction, 0.7)
        case(aten.l1_loss, x, y, reduction)
        case(aten.kl_div, x, uniform(4, 5).round(decimals=0) * y.abs(), reduction)
        p, t = some_zero(uniform(4, 5)), uniform(4, 5)
        case(aten.binary_cross_entropy, p, t, rand(5), reduction, tolerance=1e-4)
        backward = aten.binary_cross_entropy_backward
        case(backward, g, uniform(4, 5), t, None, reduction, tolerance=1e-4)
        logits = aten.binary_cross_entropy_with_logits
        case(logits, x * 20, t, rand(4, 5), rand(5), reduction, tolerance=1e-4)
        case(logits, x, t, None, None, reduction)
        target = torch.tensor([1, 4, -100, 0])
        scores = later(torch.log_softmax)(x, 1)
        for w in (None, uniform(5)):
            case(aten.nll_loss_forward, scores, target, w, reduction, -100)
            total = later(aten.nll_loss_forward)(scores, target, w, reduction, -100)[1]
            g1 = rand(4) if reduction == 0 else torch.tensor(1.7)
            case(aten.nll_loss_backward, g1, scores, target, w, reduction, -100, total)
        case(aten.nll_loss_forward, scores[0], torch.tensor(2), None, reduction, -100)
        pixels, of_pixels = rand(2, 3, 4, 5), labels()
        case(aten.nll_loss2d_forward, pixels, of_pixels, uniform(3), reduction, 1)
        total = later(aten.nll_loss2d_forward)(pixels, of_pixels, None, reduction, 1)[1]
        g2 = rand(2, 4, 5) if reduction == 0 else torch.tensor(1.7)
        case(aten.nll_loss2d_backward, g2, pixels, of_pixels, None, reduction, 1, total)
    case(aten.mse_loss, x.bfloat16(), y.bfloat16(), 1)
    for name in ("smooth_l1_loss", "huber_loss"):
        case(getattr(aten, name), special(), y, 0, 0.7)
        case(getattr(aten, f"{name}_backward"), x, special(), y, 0, 0.7)
