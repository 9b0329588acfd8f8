# SPDX-License-Identifier: Apache-2.0
"""What the GPU benchmark asks of a device: times, busy time, memory. The CPU is for dry runs."""

from __future__ import annotations

import gc
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch

Run = Callable[[], Any]
_COPY_BYTES = 1 << 30
_TOP_KERNELS = 12


class CpuDevice:
    """The same figures on the host, so that the benchmark can be tried without a GPU."""

    name = "cpu"
    small = True

    def sync(self) -> None:
        """Waits for all work."""

    def kernel_seconds(self, run: Run, count: int) -> float:
        """The device's time of one call, the host's own apart where it can be hidden."""
        return self.step_seconds(run, count)

    def step_seconds(self, run: Run, count: int) -> float:
        """Time from the first call to the end of the last one's work, by call."""
        start = time.perf_counter()
        for _ in range(count):
            run()
        return (time.perf_counter() - start) / count

    def host_seconds(self, run: Run, count: int) -> float:
        """The host's time of one call, while the device follows."""
        return self.step_seconds(run, count)

    def profile(self, run: Run, count: int = 3) -> dict[str, Any]:
        """Busy seconds, launches and the largest kernels of one call; empty where unknown."""
        return {}

    def memory(self) -> int:
        """Bytes that are taken now: of tensors, and of CUDA graphs' pools whole, whatever of them
        tensors have at this moment."""
        return 0

    def peak_memory(self, run: Run) -> int:
        """The most that is taken while `run` runs."""
        run()
        return 0

    def copy_of(self, moved: int) -> Run:
        """A copy that reads and writes so many bytes together."""
        source = torch.empty(moved // 2, dtype=torch.uint8, device=self.name)
        target = torch.empty_like(source)
        return lambda: target.copy_(source)

    def copy_rate(self) -> float:
        """Bytes a second, read and written, of a large copy."""
        moved = 2 << 26
        run = self.copy_of(moved)
        return moved / min(self.step_seconds(run, 3) for _ in range(5))

    def describe(self) -> dict[str, Any]:
        """What the report says about it."""
        return {"device": "CPU (a dry run)"}


def _covered(spans: list[tuple[float, float]]) -> float:
    """The length of what the spans cover: kernels may overlap those before them."""
    total, end = 0.0, float("-inf")
    for start, stop in sorted(spans):
        total += max(0.0, stop - max(start, end))
        end = max(end, stop)
    return total


class CudaDevice(CpuDevice):
    """The current CUDA device."""

    name = "cuda"
    small = False

    def __init__(self) -> None:
        self._one = torch.ones(16, 16, device=self.name)
        # Cycles of torch's spinning kernel a second.
        cycles = 10_000_000
        self._spin(cycles)
        self._cycles = cycles / min(self._timed(lambda: self._spin(cycles)) for _ in range(3))

    @staticmethod
    def _spin(cycles: int) -> None:
        torch.cuda._sleep(cycles)

    @staticmethod
    def _timed(work: Run) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3

    def sync(self) -> None:
        torch.cuda.synchronize()

    def kernel_seconds(self, run: Run, count: int) -> float:
        """The device first spins for as long as the host needs to queue the calls."""
        count = min(count, 25)
        host = self.host_seconds(run, 1)
        spin = min(1.5 * host * count + 100e-6, 0.1)
        self.sync()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._spin(int(spin * self._cycles))
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1e3 / count

    def step_seconds(self, run: Run, count: int) -> float:
        self.sync()

        def calls() -> None:
            for _ in range(count):
                run()

        return self._timed(calls) / count

    def host_seconds(self, run: Run, count: int) -> float:
        self.sync()
        seconds = super().step_seconds(run, count)
        return seconds

    def profile(self, run: Run, count: int = 3) -> dict[str, Any]:
        from torch.profiler import ProfilerActivity, profile

        run()
        self.sync()
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            for _ in range(count):
                run()
            self.sync()
        times: Counter[str] = Counter()
        launches: Counter[str] = Counter()
        spans: list[tuple[float, float]] = []
        for event in profiler.events():
            on_device = event.device_type == torch.autograd.DeviceType.CUDA
            if on_device and not getattr(event, "is_user_annotation", False):
                times[event.name] += event.time_range.elapsed_us()
                launches[event.name] += 1
                spans.append((event.time_range.start, event.time_range.end))
        top = [
            [name[:120], microseconds / 1e6 / count, launches[name] / count]
            for name, microseconds in times.most_common(_TOP_KERNELS)
        ]
        return {
            "busy": _covered(spans) / 1e6 / count,
            "launches": sum(launches.values()) / count,
            "top": top,
        }

    def memory(self) -> int:
        # What torch keeps for its products until a capture of graphs takes it away: whoever came
        # next would seem to take it.
        torch.mm(self._one, self._one)
        self.sync()
        gc.collect()
        torch.cuda.empty_cache()
        return self._with_pools(torch.cuda.memory_allocated())

    def peak_memory(self, run: Run) -> int:
        self.memory()
        torch.cuda.reset_peak_memory_stats()
        run()
        self.sync()
        return self._with_pools(torch.cuda.max_memory_allocated())

    @staticmethod
    def _with_pools(tensors: int) -> int:
        """With what the pools of graphs have beside the tensors in them, whose bytes stay the same
        over replays."""
        segments = torch.cuda.memory_snapshot()
        private = [s for s in segments if tuple(s["segment_pool_id"]) != (0, 0)]
        return tensors + sum(s["total_size"] - s["allocated_size"] for s in private)

    def copy_rate(self) -> float:
        moved = 2 * _COPY_BYTES
        run = self.copy_of(moved)
        return moved / min(self.kernel_seconds(run, 10) for _ in range(5))

    def describe(self) -> dict[str, Any]:
        properties = torch.cuda.get_device_properties(0)
        return {
            "device": properties.name,
            "architecture": f"sm_{properties.major}{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_gib": round(properties.total_memory / 2**30),
            "cuda": torch.version.cuda,
        }


def make(name: str) -> CpuDevice:
    """The device called `name`: cuda or cpu."""
    return CudaDevice() if name == "cuda" else CpuDevice()


class Budget:
    """The seconds that a run may take; None is as many as it needs."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def left(self) -> float:
        """Seconds left, at least zero."""
        return float("inf") if self._end is None else max(0.0, self._end - time.monotonic())

    def over(self) -> bool:
        """True when nothing more should be begun."""
        return self.left() <= 0
