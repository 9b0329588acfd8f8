"""Runs the first step of one case in this process and prints its times as JSON.

    first_step.py BACKEND CASE inference|training

BACKEND: tensord, inductor, or `capture`: everything that torch does before a backend compiles
(Dynamo, AOTAutograd, the partition), and then eager. CASE: a name from model_cases or kernel_cases.
Times start when torch and the model are there: imports are not part of a step.
"""

from __future__ import annotations

import functools
import json
import sys
import time

import kernel_cases
import model_cases
import torch


def main() -> int:
    backend, name, kind = sys.argv[1:]
    torch.manual_seed(0)
    kernel = next((case for case in kernel_cases.CASES if case.name == name), None)
    backend_name = "aot_eager_decomp_partition" if backend == "capture" else backend
    if kernel is not None:
        arguments = kernel.arguments()
        compiled = torch.compile(kernel.function, backend=backend_name)
        step = functools.partial(compiled, *arguments)
    else:
        case = next(case for case in model_cases.CASES if case.name == name)
        model, inputs = case.make()
        model.train(kind == "training")
        module = torch.compile(model, backend=backend_name)
        step = model_cases.step_of(module, model, inputs, kind == "training")
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    start = time.perf_counter()
    step()
    result = {"first": first, "second": time.perf_counter() - start}
    if backend == "tensord":
        import tensord

        result["stats"] = tensord.stats()
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
