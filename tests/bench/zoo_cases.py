# SPDX-License-Identifier: Apache-2.0
"""Any architecture of tests/models.sh as a case of the benchmarks, at a useful size (--models)."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Any

import torch
from private_daemon import ROOT
from torch import nn

sys.path.insert(0, str(ROOT / "tests"))
# Where tests/models.sh puts timm.
sys.path.append(str(pathlib.Path(sys.prefix) / "zoo"))

from zoo import catalogue
from zoo.small_config import SMALL, Scale

ON_CPU = Scale(
    layers=4,
    heads=4,
    width=256,
    feed_forward=704,
    vocabulary=4096,
    positions=256,
    image=112,
    patch=16,
    batch=8,
    length=128,
    most_parameters=100_000_000,
)
ON_GPU = Scale(
    layers=12,
    heads=16,
    width=1024,
    feed_forward=2816,
    vocabulary=32000,
    positions=1024,
    image=224,
    patch=16,
    batch=16,
    length=512,
    most_parameters=1_000_000_000,
)


__all__ = ["ON_CPU", "ON_GPU", "SMALL", "make", "names"]


class WithLoss(nn.Module):
    """The model and its loss; where it has none of its own, a sum over its results."""

    def __init__(self, built: catalogue.Built) -> None:
        super().__init__()
        self.model = built.model
        self.only = next(iter(built.inputs)) == ""

    def forward(self, **inputs: torch.Tensor) -> torch.Tensor:
        return catalogue.loss_of(self.model(inputs["x"]) if self.only else self.model(**inputs))


def make(name: str, scale: Scale) -> tuple[nn.Module, dict[str, Any]]:
    """A module that gives a loss, with random weights, and its inputs, on the default device.

    name: as tests/models.sh has it, such as transformers/llama. Raises catalogue.UnsupportedError
    where eager cannot run it.
    """
    built = catalogue.build(name, scale)
    inputs = {key or "x": value for key, value in built.inputs.items()}
    return WithLoss(built), inputs


def names(text: str) -> list[str]:
    """The names of a list with commas: any of transformers' architectures or timm's models."""
    chosen = text.split(",")
    if unknown := [name for name in chosen if not _exists(name)]:
        raise argparse.ArgumentTypeError(
            f"no such architecture: {', '.join(unknown)}; tests/models.sh --list has names"
        )
    return chosen


def _exists(name: str) -> bool:
    library, _, architecture = name.partition("/")
    if library == "timm":
        import timm

        return timm.is_model(architecture)
    return name in catalogue.names()
