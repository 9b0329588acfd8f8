# SPDX-License-Identifier: Apache-2.0
"""Runs the first step of one case in this process and prints its times as JSON.

    first_step.py BACKEND CASE inference|training [DEVICE SUITE]

BACKEND: tensord or inductor. CASE: a name from model_cases or kernel_cases, or from gpu_models
where SUITE is gpu. Times start when torch and the model are there: imports are not part of a step.
`compile` is what the step spends beyond capture (Dynamo, AOTAutograd, the partition): for tensord
export, waiting and loading; for TorchInductor its compiler, or the load from its caches.
"""

from __future__ import annotations

import functools
import json
import sys
import time
from collections.abc import Callable
from typing import Any

import kernel_cases
import model_cases
import torch

# TorchInductor's own timers: the compiler, and what it does instead when its caches are filled.
_INDUCTOR_TIMERS = ("compile_fx_inner", "AOTAutogradCache.inductor_load")


def _beyond_capture(backend: str) -> dict[str, Any]:
    if backend == "tensord":
        import tensord

        stats = tensord.stats()
        seconds = sum(stats[f"{what}_seconds"] for what in ("export", "wait", "load"))
        return {"compile": seconds, "compiled": stats["compiled"]}
    from torch._dynamo.utils import compilation_time_metrics as timers

    return {"compile": sum(sum(timers.get(name, [])) for name in _INDUCTOR_TIMERS)}


def _step(backend: str, name: str, kind: str, device: str, suite: str) -> Callable[[], Any]:
    """The case's step, compiled by `backend`; everything that it needs is on the device."""
    training = kind == "training"
    if suite == "gpu":
        import gpu_models

        gpu = next(case for case in gpu_models.CASES if case.name == name)
        model, inputs = gpu_models.made(gpu, device, small=device == "cpu")
        model.train(training)
        module = torch.compile(model, backend=backend, dynamic=False)
        return gpu_models.step_of(module, model, inputs, training, device)
    kernel = next((case for case in kernel_cases.CASES if case.name == name), None)
    if kernel is not None:
        compiled = torch.compile(kernel.function, backend=backend)
        return functools.partial(compiled, *kernel.arguments())
    case = next(case for case in model_cases.CASES if case.name == name)
    model, inputs = case.make()
    model.train(training)
    module = torch.compile(model, backend=backend)
    return model_cases.step_of(module, model, inputs, training)


def main() -> int:
    backend, name, kind, device, suite = (*sys.argv[1:], *("cpu", "cpu")[len(sys.argv) - 4 :])
    torch.manual_seed(0)
    step = _step(backend, name, kind, device, suite)
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    if device == "cuda":
        torch.set_float32_matmul_precision("high")
        warm = torch.ones(64, 64, device=device)
        (warm @ warm).sum().item()  # the device's context and its libraries
    start = time.perf_counter()
    step()
    wait()
    first = time.perf_counter() - start
    start = time.perf_counter()
    step()
    wait()
    result = {"first": first, "second": time.perf_counter() - start}
    print(json.dumps({**result, **_beyond_capture(backend)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
