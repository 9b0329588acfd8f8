# SPDX-License-Identifier: Apache-2.0
"""How fast memory is: the rate of a large copy, which no kernel that reads and writes memory beats
by much."""

from __future__ import annotations

import time

import torch

_BYTES = {"cpu": 64 << 20, "cuda": 256 << 20}  # of what is copied
# Less on a GPU with little room: of its free memory this part, and nothing that its cache holds.
_PART_OF_FREE, _LEAST_ON_GPU = 8, 64 << 20
_WARM_UP, _TIMED = 2, 5
_rates: dict[torch.device, int] = {}  # that were measured


def copy_rate(device: torch.device) -> int:
    """Bytes a second that a copy reads and writes, together; measured once a process. 0: the device
    has no memory for it now."""
    if rate := _rates.get(device):
        return rate
    count = _bytes_on(device)
    if count == 0:
        return 0
    reserved = _reserved(device)
    seconds = _seconds_of(device, count)
    if _reserved(device) > reserved:
        torch.cuda.empty_cache()  # what torch has taken for it is not its to keep
    if seconds == 0:
        return 0
    _rates[device] = int(2 * count / seconds)
    return _rates[device]


def _bytes_on(device: torch.device) -> int:
    """How much is to be copied; 0: there is no room."""
    most = _BYTES[device.type]
    if device.type != "cuda":
        return most
    free, _ = torch.cuda.mem_get_info(device)
    count = min(most, free // _PART_OF_FREE)
    return count if count >= _LEAST_ON_GPU else 0


def _reserved(device: torch.device) -> int:
    return torch.cuda.memory_reserved(device) if device.type == "cuda" else 0


def _seconds_of(device: torch.device, count: int) -> float:
    """Of the fastest copy; 0: there is no memory for it."""
    try:
        source = torch.ones(count, dtype=torch.uint8, device=device)
        target = torch.empty_like(source)
    except RuntimeError:  # also torch.OutOfMemoryError
        return 0.0
    return _on_gpu(source, target) if device.type == "cuda" else _on_host(source, target)


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
