# SPDX-License-Identifier: Apache-2.0
"""How much memory something takes on the device."""

from __future__ import annotations

from collections.abc import Callable

import torch


def peak_bytes(run: Callable[[], None]) -> int:
    """Bytes that it takes beside what was there; 0 on a CPU."""
    if torch.get_default_device().type != "cuda":
        run()
        return 0
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    run()
    torch.cuda.synchronize()
    return torch.cuda.max_memory_allocated() - before
