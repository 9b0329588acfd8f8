# SPDX-License-Identifier: Apache-2.0
"""When measured calls began and ended, by the host's clock and by that of every GPU in use."""

from __future__ import annotations

import bisect
import time

import torch


class Marks:
    """Between two marks lies a call, or what is none. On a GPU a mark is an event behind what was
    queued on its current streams, of this mark and of earlier ones. Nothing waits for it but the
    first mark and `settle`, and the mark of a call within which a GPU was used for the first
    time."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, int]] = []  # their marks
        self._host: list[int] = []  # by time.monotonic_ns
        self._events: list[dict[int, torch.cuda.Event]] = []  # by device
        self._streams: dict[int, list[torch.cuda.Stream]] = {}
        self._behind: dict[int, torch.cuda.Stream] = {}  # all of a device's, where these are many
        self._begins: list[int] = []  # of calls, by the host's clock
        for device in _devices_in_use():
            self._streams[device] = []
            torch.cuda.synchronize(device)

    def begin(self) -> None:
        """A call begins. What was before, since the last `end`, is no call."""
        events = {}
        for device in _devices_in_use():
            if device not in self._streams:  # the host's clock is to show what it has done so far
                torch.cuda.synchronize(device)
            events[device] = self._event(device)
        self._events.append(events)
        self._host.append(time.monotonic_ns())

    def end(self) -> None:
        """The call ends, and the next one begins."""
        self.begin()
        last = len(self._host) - 1
        self.calls.append((last - 1, last))
        self._begins.append(self._host[last - 1])

    def _event(self, device: int) -> torch.cuda.Event:
        streams = self._streams.setdefault(device, [])
        current = torch.cuda.current_stream(device)
        if current not in streams:
            streams.append(current)
        stream = streams[0]
        if len(streams) > 1:
            stream = self._behind.get(device) or torch.cuda.Stream(device)
            self._behind[device] = stream
            for each in streams:
                stream.wait_stream(each)
        event = torch.cuda.Event(enable_timing=True)
        event.record(stream)
        return event

    def call_at(self, host: int) -> int | None:
        """The number of the call that was under way at this time of the host's clock."""
        call = bisect.bisect_right(self._begins, host) - 1
        return call if call >= 0 and host < self._host[self.calls[call][1]] else None

    def settle(self) -> None:
        """Waits for all of the GPUs."""
        for device in _devices_in_use():
            torch.cuda.synchronize(device)

    def times(self, device: int) -> list[int]:
        """The nanoseconds of each call, by the clock of a GPU, which has settled, or by the host's
        (-1), and where the GPU was not in use yet when the call began."""
        return [self._time(device, *call) for call in self.calls]

    def _time(self, device: int, begin: int, end: int) -> int:
        first, last = (self._events[mark].get(device) for mark in (begin, end))
        if first is None or last is None:
            return self._host[end] - self._host[begin]
        return max(0, round(1e6 * first.elapsed_time(last)))


def _devices_in_use() -> list[int]:
    """The GPUs on which this process has a context: others have nothing to do, and are not to be
    given one."""
    if not torch.cuda.is_initialized():
        return []
    # Where torch does not say so: what computes has memory.
    in_use = getattr(torch._C, "_cuda_hasPrimaryContext", torch.cuda.memory_reserved)
    return [device for device in range(torch.cuda.device_count()) if in_use(device)]
