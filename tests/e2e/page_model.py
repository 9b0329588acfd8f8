# SPDX-License-Identifier: Apache-2.0
"""A process of a job whose programs and frames the page shows: two steps of a small transformer.

page_model.py WIDTH [BLOCKS]
"""

from __future__ import annotations

import math
import sys

import tensord
import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Block(nn.Module):
    """Attention, then two products with a GELU between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.before = nn.LayerNorm(width)
        self.between = nn.LayerNorm(width)
        self.parts = nn.Linear(width, 3 * width)
        self.mixed = nn.Linear(width, width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.parts(self.before(x)).chunk(3, -1)
        scores = q @ k.transpose(-1, -2) / math.sqrt(self.width)
        x = x + self.mixed(torch.softmax(scores, -1) @ v)
        return x + self.down(F.gelu(self.up(self.between(x))))


class Model(nn.Module):
    """Blocks, and how far the result is from ones."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(width) for _ in range(blocks)))

    def forward(self, x: Tensor) -> Tensor:
        y = self.blocks(x)
        distance = (y - 1).square().sum(-1)
        return torch.log1p(distance).mean()


def main(width: int, blocks: int = 2) -> None:
    """Trains."""
    torch.manual_seed(0)
    model = Model(width, blocks)
    compiled = tensord.compile(model)
    for _ in range(2):
        compiled(torch.randn(4, 32, width)).backward()
    assert torch.isfinite(next(model.parameters()).grad).all()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
