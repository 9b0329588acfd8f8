# SPDX-License-Identifier: Apache-2.0
"""When measured calls began and ended, by the host's clock and, where CUDA is in use, by the
GPU's."""

from __future__ import annotations

import time

import torch


class Marks:
    """Between two marks lies a call. On a GPU they are events on the current stream of the current
    device. Nothing waits for it but the first mark and `times`."""

    def __init__(self) -> None:
        self.host: list[int] = []  # by time.monotonic_ns
        self._events: list[torch.cuda.Event] = []
        self._on_gpu = torch.cuda.is_available() and torch.cuda.is_initialized()
        if self._on_gpu:
            torch.cuda.synchronize()

    def add(self) -> None:
        """One more, on the current stream."""
        if self._on_gpu:
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            self._events.append(event)
        self.host.append(time.monotonic_ns())

    def times(self, *, on_gpu: bool) -> list[int]:
        """The nanoseconds of each call, of the GPU's clock or of the host's."""
        if not on_gpu or not self._on_gpu:
            return [end - begin for begin, end in zip(self.host, self.host[1:], strict=False)]
        torch.cuda.synchronize()
        return [
            round(1e6 * begin.elapsed_time(end))
            for begin, end in zip(self._events, self._events[1:], strict=False)
        ]
