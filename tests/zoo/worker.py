# SPDX-License-Identifier: Apache-2.0
"""A process that checks architectures for main.py, which tells it where the daemon listens."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parents[1]
sys.path[1:1] = [str(TESTS), str(TESTS / "tools")]

from worker_pool import serve  # noqa: E402

from zoo.check import check  # noqa: E402

if __name__ == "__main__":
    logging.disable(logging.WARNING)
    serve(lambda task, note: check(task["name"], task["device"], note))
