# SPDX-License-Identifier: Apache-2.0
"""A process that checks architectures for main.py, which tells it where the daemon listens."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS), str(TESTS / "tools")]

from worker_pool import Json, serve  # noqa: E402

from zoo.check import check  # noqa: E402


def _check(task: Json, note: Callable[[Json], None]) -> Json:
    os.environ["TENSORD_FRAMES"] = task["frames"]
    result = check(task["name"], task["device"], note)
    if task["device"] == "cuda":
        torch.cuda.synchronize()  # raises after an assertion on the device, which ends its process
    return result


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    torch.backends.cudnn.allow_tf32 = False  # the default, of which eager has three digits
    serve(_check)
