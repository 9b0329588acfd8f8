# SPDX-License-Identifier: Apache-2.0
"""What this process asked for and got; `tensord.stats()` shows it."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# Totals, all of this process. Seconds are wall time.
_COUNTERS = (
    "graphs",  # graphs handed to the backend's compilers
    "compiled",  # of them: this process's request caused the compile
    "joined",  # waited for another request's compile
    "hits",  # found in the daemon's store
    "recompiled",  # asked for once more because a stored blob was bad
    "kernels",  # launches in all plans
    "kernels_compiled",  # that the JIT had to make
    "kernels_failed",  # that did not compile: library calls in their place
    "call_backs",  # steps of all plans that run nodes in Python
    "slow_bridge",  # programs loaded by the slower bridge: the extension was not built (yet)
    "attention_fused",  # hand-written attentions that became a library call
    "masks_packed",  # masks of attention that were copied row by row, as fused kernels want them
    "masks_simplified",  # masks of attention that became none, or is_causal
    "heads_grouped",  # attentions whose repeated heads go in unrepeated
    "heads_shared",  # attentions whose keys and values broadcast to the queries' heads
    "flex_attentions",  # FlexAttention's operators that became plain ones
    "products_merged",  # linear layers that became part of one of the same input
    "channels_last",  # convolutions that run on channels-last memory in training, and did not
    "relus_recomputed",  # of batch norms in training: backward reads the norm's input instead
    "norms_recomputed",  # layer norms that norms read: backward reads the first one's input
    "copies_saved",  # of tensors that operators change in place
    "saved_views_copied",  # of larger tensors that nothing else keeps, on a GPU
    "saved_products_padded",  # with an odd number of columns, on a GPU
    "gradients_absent",  # of results beside a loss, that backward was first compiled without
    "cuda_graphs",  # captured
    "cuda_graph_replays",
    "cuda_graph_cuts",  # graphs cut into programs at what no CUDA graph can hold
    "cuda_graphs_sharing",  # of them: those that took over the memory of what they read last
    "cuda_graphs_held",  # captured anew because a result was still held at the next call
    "cuda_graphs_evicted",  # given up for newer shapes
    "frames_served",  # functions that ran without being captured: another process had
    "frames_captured",  # functions given to Dynamo
    "frames_recorded",  # of them: those that other processes can run
    "calls_in_eager",  # single calls that a compiled graph handed to eager
    "calls_before_programs",  # that ran in eager meanwhile, with options={"wait": "eager"}
)
_SECONDS = (
    "capture_seconds",  # in the backend but for export and wait: AOTAutograd and passes
    "export_seconds",
    "wait_seconds",  # for the daemon, at first calls
    "load_seconds",  # for the runtime
)


# Of kernels that failed: how many logs are kept, and how much of each.
_MOST_LOGS = 20
_LONGEST_LOG = 4000


class Stats:
    """Thread-safe counters."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        """Sets everything to zero."""
        with self._lock:
            self._counts: Counter[str] = Counter()
            self._seconds: defaultdict[str, float] = defaultdict(float)
            self._fallbacks: Counter[str] = Counter()
            self._graph_reasons: Counter[str] = Counter()
            self._kernel_failures: list[str] = []
            self._call_backs: Counter[str] = Counter()
            self._unrecorded: Counter[str] = Counter()
            self._unfit: Counter[str] = Counter()

    def add(self, name: str, count: int = 1) -> None:
        """Adds to a counter of _COUNTERS."""
        with self._lock:
            self._counts[name] += count

    def add_fallback(self, reason: str) -> None:
        """Counts one fallback to eager."""
        with self._lock:
            self._fallbacks[reason] += 1

    def add_graph_reason(self, reason: str) -> None:
        """Counts one program that could not be captured as a CUDA graph."""
        with self._lock:
            self._graph_reasons[reason] += 1

    def add_call_back(self, reason: str) -> None:
        """Counts one node that runs in Python, by its operator and why."""
        with self._lock:
            self._call_backs[reason] += 1

    def add_unrecorded(self, reason: str) -> None:
        """Counts one captured function that other processes cannot run."""
        with self._lock:
            self._unrecorded[reason] += 1

    def add_unfit(self, reason: str) -> None:
        """Counts one recorded frame that did not serve when its function was entered."""
        with self._lock:
            self._unfit[reason] += 1

    def add_kernel_failure(self, log: str) -> None:
        """Notes a kernel that did not compile, by the JIT's log."""
        with self._lock:
            self._counts["kernels_failed"] += 1
            if len(self._kernel_failures) < _MOST_LOGS:
                self._kernel_failures.append(log[:_LONGEST_LOG])

    def add_seconds(self, name: str, seconds: float) -> None:
        """Adds to a time of _SECONDS."""
        with self._lock:
            self._seconds[name] += seconds

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Adds the time of a block to a time of _SECONDS."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add_seconds(name, time.perf_counter() - start)

    def seconds(self, name: str) -> float:
        """One time of _SECONDS so far."""
        with self._lock:
            return self._seconds[name]

    def snapshot(self) -> dict[str, Any]:
        """All counters; `fallbacks` is their number, `fallback_reasons` maps reason to number."""
        with self._lock:
            result: dict[str, Any] = {name: self._counts[name] for name in _COUNTERS}
            result.update({name: round(self._seconds[name], 6) for name in _SECONDS})
            result["fallbacks"] = sum(self._fallbacks.values())
            result["fallback_reasons"] = dict(self._fallbacks)
            result["call_back_reasons"] = dict(self._call_backs)
            result["frames_unrecorded"] = dict(self._unrecorded)
            result["frames_unfit"] = dict(self._unfit)
            result["kernel_failures"] = list(self._kernel_failures)
            result["cuda_graph_reasons"] = dict(self._graph_reasons)
            return result


STATS = Stats()


def _reset_in_child() -> None:
    STATS._lock = threading.Lock()  # a thread of the parent may have held it


os.register_at_fork(after_in_child=_reset_in_child)
