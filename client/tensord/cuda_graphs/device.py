# SPDX-License-Identifier: Apache-2.0
"""What captures and replays: torch.cuda, or a stand-in for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import torch

from .. import torch_compat

Boxed = Callable[[list[Any]], list[Any]]


class Device(Protocol):
    """What captures and replays; CUDA, or a stand-in for tests."""

    def pool(self) -> Any:
        """Memory for captures, which several may share."""
        ...

    def capture(self, run: Boxed, inputs: list[Any], pool: Any) -> tuple[Any, list[Any]]:
        """A graph with a method replay() of what `run` does with `inputs`, which it empties, and
        its results, which lie in the pool. What dies meanwhile is memory for what is made later."""
        ...

    def taken(self, pool: Any) -> list[tuple[int, int]]:
        """Memory of the pool that something has: addresses, and bytes."""
        ...

    def stream(self) -> int | None:
        """The stream that work goes to now; None while somebody else captures it."""
        ...

    def device(self) -> torch.device:
        """Where it is."""
        ...


# By device and stream that replays go to. Libraries keep temporary memory by the stream that they
# are captured on, so graphs that may run at once must not share one.
_capture_streams: dict[tuple[int, int], Any] = {}


class CudaDevice:
    """torch.cuda, one device of it."""

    def __init__(self, index: int) -> None:
        self._index = index

    def pool(self) -> Any:
        return torch.cuda.graph_pool_handle()

    def capture(self, run: Boxed, inputs: list[Any], pool: Any) -> tuple[Any, list[Any]]:
        with torch.cuda.device(self._index):
            graph = torch.cuda.CUDAGraph()
            before = torch.cuda.current_stream()
            key = self._index, before.cuda_stream
            if key not in _capture_streams:
                _capture_streams[key] = torch.cuda.Stream()
            stream = _capture_streams[key]
            # Other threads of the job may do as they like meanwhile.
            capturing = torch.cuda.graph(
                graph, pool=pool, stream=stream, capture_error_mode="thread_local"
            )
            # torch would keep what its products take in the pool, for products of other graphs.
            with torch_compat.without_product_workspaces():
                try:
                    with capturing:
                        results = run(inputs)
                except BaseException:
                    torch.cuda.set_stream(before)  # torch leaves its own when a capture fails
                    torch_compat.end_broken_capture(self._index, pool)
                    raise
            return graph, results

    def taken(self, pool: Any) -> list[tuple[int, int]]:
        found = []
        for segment in torch.cuda.memory_snapshot():
            address = segment["address"]
            for block in segment["blocks"]:
                if segment["segment_pool_id"] == pool and block["state"] != "inactive":
                    found.append((address, block["size"]))
                address += block["size"]
        return found

    def stream(self) -> int | None:
        if torch.cuda._is_in_bad_fork():  # what follows would fail, and not say why
            raise RuntimeError(
                "CUDA cannot be used in a process forked after CUDA started: start it with the "
                "'spawn' method"
            )
        if torch.cuda.is_current_stream_capturing():
            return None
        return torch.cuda.current_stream(self._index).cuda_stream

    def device(self) -> torch.device:
        return torch.device("cuda", self._index)
