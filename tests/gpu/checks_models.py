"""Small models against eager and float64: loss, results, gradients; float32 and bfloat16."""

from __future__ import annotations

import functools
from collections.abc import Callable

import model_check
import models


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Training and inference of each."""
    kinds = {"training": model_check.check_training, "inference": model_check.check_inference}
    return [
        (f"{name}-{kind}-{precision}", functools.partial(check, name, precision))
        for precision in model_check.TOLERANCE
        for kind, check in kinds.items()
        for name in models.MODELS
    ]
