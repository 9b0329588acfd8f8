#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small GPT at byte level on the Python language reference.

    python examples/train_gpt.py --backend tensord

The model is plain nn.Module code, and the text is `pydoc_data.topics`, which every CPython carries,
so nothing is downloaded. It trains on a GPU where there is one, in bfloat16 autocast. `--events`
prints one JSON object a line for programs (see `report`).
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

VOCABULARY = 256  # bytes
WARMUP_STEPS = 30


@dataclass(frozen=True)
class Shape:
    """The model's size."""

    layers: int = 4
    width: int = 256
    heads: int = 4
    context: int = 128
    dropout: float = 0.1


class Attention(nn.Module):
    """Causal self-attention over (batch, time, width)."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.heads = shape.heads
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        mask = torch.ones(shape.context, shape.context, dtype=torch.bool).tril()
        self.mask: torch.Tensor
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, time_, width = x.shape
        q, k, v = (
            part.view(batch, time_, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        scores = scores.masked_fill(~self.mask[:time_, :time_], -math.inf)
        weights = self.dropout(scores.softmax(dim=-1))
        return self.out((weights @ v).transpose(1, 2).reshape(batch, time_, width))


class Block(nn.Module):
    """One pre-norm transformer layer."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape)
        self.norm2 = nn.LayerNorm(shape.width)
        self.mlp = nn.Sequential(
            nn.Linear(shape.width, 4 * shape.width),
            nn.GELU(),
            nn.Linear(4 * shape.width, shape.width),
        )
        self.dropout = nn.Dropout(shape.dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.dropout(self.attention(self.norm1(x)))
        return x + self.dropout(self.mlp(self.norm2(x)))


class GPT(nn.Module):
    """Predicts each next byte; forward returns the mean cross entropy in nats."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, shape.width)
        self.position = nn.Embedding(shape.context, shape.width)
        self.dropout = nn.Dropout(shape.dropout)
        self.blocks = nn.Sequential(*(Block(shape) for _ in range(shape.layers)))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, VOCABULARY, bias=False)
        self.apply(self._initialise)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)
        if isinstance(module, nn.Linear) and module.bias is not None:
            nn.init.zeros_(module.bias)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = self.dropout(self.token(tokens) + self.position(positions))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def load_text() -> torch.Tensor:
    """The language reference as a one-dimensional tensor of bytes (uint8)."""
    from pydoc_data.topics import topics

    text = "\n\n".join(topics[name] for name in sorted(topics)).encode()
    return torch.frombuffer(bytearray(text), dtype=torch.uint8)


def batches(
    text: torch.Tensor, batch: int, context: int, seed: int
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Endless (tokens, targets), int64 of (batch, context), at random places of the text.

    It has a generator of its own, so the order of the data never depends on the model's dropout.
    """
    generator = torch.Generator().manual_seed(seed)
    while True:
        starts = torch.randint(len(text) - context - 1, (batch,), generator=generator).tolist()
        rows = torch.stack([text[s : s + context + 1] for s in starts]).long()
        yield rows[:, :-1].contiguous(), rows[:, 1:].contiguous()


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains a small GPT on the Python reference.")
    parser.add_argument("--backend", default="tensord", help="tensord, inductor or eager")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--context", type=int, default=128, help="bytes that it looks back on")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    parser.add_argument("--learning-rate", type=float, default=5e-4)
    parser.add_argument("--seed", type=int, default=0, help="of the parameters and the data")
    parser.add_argument("--dropout-seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="of torch (0: its own choice)")
    parser.add_argument("--events", action="store_true", help="JSON lines instead of text")
    return parser.parse_args(arguments)


def report(events: bool, event: str, **values: Any) -> None:
    """One event: `start` (parameters), `step` (step, loss, seconds), `end` (summary of `train`)."""
    if events:
        print(json.dumps({"event": event, **values}), flush=True)
    elif event == "start":
        print(f"{values['parameters'] / 1e6:.1f} M parameters, {values['backend']}")
    elif event == "step" and (values["step"] % 10 == 0 or values["step"] == 1):
        print(f"step {values['step']:5d}   loss {values['loss']:.3f}   {values['seconds']:.3f} s")
    elif event == "end":
        print(
            f"first step {values['first_step_s']:.2f} s, then {values['steps_per_s']:.2f} steps/s; "
            f"loss {values['loss']:.3f}"
        )


def train(options: argparse.Namespace) -> dict[str, Any]:
    """Trains and returns the summary: first_step_s, steps_per_s (median), loss (last tenth)."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = options.device
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    shape = Shape(options.layers, options.width, options.heads, options.context)
    torch.manual_seed(options.seed)
    model = GPT(shape).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=options.learning_rate, betas=(0.9, 0.95), weight_decay=0.1
    )
    # The first steps' gradients are the largest, and Adam knows the least about them.
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=WARMUP_STEPS)
    data = batches(load_text(), options.batch, shape.context, options.seed)
    parameters = sum(p.numel() for p in model.parameters())
    report(options.events, "start", parameters=parameters, backend=options.backend)

    # The one line that a user changes.
    compiled = (
        model if options.backend == "eager" else torch.compile(model, backend=options.backend)
    )

    torch.manual_seed(options.dropout_seed)
    losses: list[float] = []
    seconds: list[float] = []
    for step in range(1, options.steps + 1):
        tokens, targets = (part.to(device) for part in next(data))
        start = time.perf_counter()
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            loss = compiled(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        warmup.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())
        seconds.append(time.perf_counter() - start)
        report(options.events, "step", step=step, loss=losses[-1], seconds=seconds[-1])

    tail = max(1, len(losses) // 10)
    steady = seconds[1:] or seconds
    return {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "first_step_s": seconds[0],
        "steps_per_s": 1.0 / statistics.median(steady),
        "loss": statistics.fmean(losses[-tail:]),
        "losses": losses,
    }


def main() -> int:
    options = parse()
    summary = train(options)
    if "tensord" in sys.modules or options.backend == "tensord":
        import tensord

        summary["tensord"] = tensord.stats()
    report(options.events, "end", pid=os.getpid(), **summary)
    return 0


if __name__ == "__main__":
    sys.exit(main())
