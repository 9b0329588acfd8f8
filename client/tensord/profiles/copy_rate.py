# SPDX-License-Identifier: Apache-2.0
"""How fast memory is: the rate of a large copy, which no kernel that reads and writes memory beats
by much."""

from __future__ import annotations

import functools
import time

import torch

_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}  # of what is copied
_WARM_UP, _TIMED = 2, 5


@functools.cache
def copy_rate(device: torch.device) -> int:
    """Bytes a second that a copy reads and writes, together; measured once a process. 0: the device
    has no memory for it."""
    try:
        source = torch.ones(_BYTES[device.type], dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
    except RuntimeError:  # also torch.OutOfMemoryError
        return 0
    seconds = _on_gpu(source, target) if device.type == "cuda" else _on_host(source, target)
    return int(2 * source.numel() / seconds)


def _on_host(source: torch.Tensor, target: torch.Tensor) -> float:
    """Seconds of the fastest copy."""
    times = []
    for _ in range(_WARM_UP + _TIMED):
        begun = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - begun)
    return min(times[_WARM_UP:])


def _on_gpu(source: torch.Tensor, target: torch.Tensor) -> float:
    times = []
    with torch.cuda.device(source.device):
        for _ in range(_WARM_UP + _TIMED):
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            target.copy_(source)
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) / 1e3)
    return min(times[_WARM_UP:])
