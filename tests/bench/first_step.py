"""Runs the first step of one case in this process and prints its times as JSON.

    first_step.py BACKEND CASE inference|training

BACKEND: tensord or inductor. CASE: a name from model_cases or kernel_cases. Times start when torch
and the model are there: imports are not part of a step. `compile` is what the step spends beyond
capture (Dynamo, AOTAutograd, the partition): for tensord export, waiting and loading; for
TorchInductor its compiler, or the load from its caches.
"""

from __future__ import annotations

import functools
import json
import sys
import time
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


def main() -> int:
    backend, name, kind = sys.argv[1:]
    torch.manual_seed(0)
    kernel = next((case for case in kernel_cases.CASES if case.name == name), None)
    if kernel is not None:
        arguments = kernel.arguments()
        compiled = torch.compile(kernel.function, backend=backend)
        step = functools.partial(compiled, *arguments)
    else:
        case = next(case for case in model_cases.CASES if case.name == name)
        model, inputs = case.make()
        model.train(kind == "training")
        module = torch.compile(model, backend=backend)
        step = model_cases.step_of(module, model, inputs, kind == "training")
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    start = time.perf_counter()
    step()
    result = {"first": first, "second": time.perf_counter() - start}
    print(json.dumps({**result, **_beyond_capture(backend)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
