# SPDX-License-Identifier: Apache-2.0
"""Losses over 200 steps of training with dropout: within the spread of two eager runs."""

from __future__ import annotations

import functools
from collections.abc import Callable

import torch
import train_gpt
from torch import nn

STEPS, SMOOTH = 200, 20
# Nats that are always allowed: two seeds of dropout may be closer by chance than they usually are.
ALLOWED = 0.05


def _losses(backend: str, mode: str | None, dropout_seed: int) -> torch.Tensor:
    device = torch.get_default_device()
    small = device.type == "cpu"
    with torch.device("cpu"):
        torch.manual_seed(0)
        shape = train_gpt.Shape(layers=2, width=64) if small else train_gpt.Shape()
        model = train_gpt.GPT(shape)
        text = train_gpt.load_text()
    model = model.to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    run = model if backend == "eager" else torch.compile(model, backend=backend, mode=mode)
    data = train_gpt.batches(text, 8, shape.context, 0)
    torch.manual_seed(dropout_seed)
    losses = []
    for _ in range(STEPS):
        with torch.device("cpu"):
            tokens, targets = next(data)
        with torch.autocast(device.type, torch.bfloat16, enabled=not small):
            loss = run(tokens.to(device), targets.to(device))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.detach().clone())
    return torch.stack(losses).float().cpu()


def _smooth(losses: torch.Tensor) -> torch.Tensor:
    return losses.unfold(0, SMOOTH, 1).mean(1)


@functools.cache
def _eager(seed: int) -> torch.Tensor:
    return _smooth(_losses("eager", None, seed))


def _follows_eager(mode: str | None) -> None:
    first, second = _eager(0), _eager(1)
    ours = _smooth(_losses("tensord", mode, 2))
    spread = (first - second).abs().max().item()
    gap = min((ours - curve).abs().max().item() for curve in (first, second))
    assert ours[-1] < ours[0] - 0.5, f"no training: {ours[0]:.3f} to {ours[-1]:.3f}"
    allowed = max(1.5 * spread, ALLOWED)
    assert gap <= allowed, f"{gap:.3f} nats from eager; eager's own spread is {spread:.3f}"


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Both modes."""
    return [
        ("default", functools.partial(_follows_eager, None)),
        ("reduce-overhead", functools.partial(_follows_eager, "reduce-overhead")),
    ]
