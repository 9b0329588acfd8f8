# SPDX-License-Identifier: Apache-2.0
"""How long the first step of a process takes that others went before: what they captured and
compiled is stored.

    next_process.py [--device cpu|cuda] [--rounds N] [--only REGEX] [--skip-inductor] [--json FILE]
                    [--cold-jobs N] [--bridge native|python]

Each model of gpu_models, whole; on the CPU with 2 sequences of 64 tokens, or 2 images. A first
process fills the stores, then N processes are timed: their first step less eager's own (the second
of two), which was run before. Median and range of N. "served": tensord.compile; "captured":
torch.compile without recorded frames; "inductor": TorchInductor with its caches of graphs and of
AOTAutograd. --cold-jobs: so many first processes at once, whose times then say little. --bridge
python: as on a host without the native extension.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

BACKENDS = ("served", "captured", "inductor")
KINDS = ("inference", "training")
Json = dict[str, Any]


def _child(backend: str, name: str, kind: str, device: str) -> Json:
    """One process's first step."""
    import gpu_models
    import torch

    start = time.perf_counter()
    import tensord

    import_s = time.perf_counter() - start
    case = next(case for case in gpu_models.CASES if case.name == name)
    model, inputs = gpu_models.made(case, device, small=False)
    if device == "cpu":
        inputs = {k: (x[:2, :64] if x.dim() == 2 else x[:2]).clone() for k, x in inputs.items()}
    model.train(kind == "training")
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None

    def timed(step: Any) -> float:
        begin = time.perf_counter()
        step()
        wait()
        return time.perf_counter() - begin

    def step_of(module: Any) -> Any:
        dtype = torch.bfloat16 if device == "cuda" else None
        return gpu_models.step_of(module, model, inputs, kind == "training", device, dtype)

    eager = step_of(model)
    timed(eager)
    eager_s = timed(eager)
    had_dynamo = "torch._dynamo" in sys.modules
    if backend == "served":
        module = tensord.compile(model, dynamic=False)
    else:
        module = torch.compile(
            model, backend="tensord" if backend == "captured" else "inductor", dynamic=False
        )
    compiled = step_of(module)
    result = {"eager": eager_s, "first": timed(compiled), "second": timed(compiled)}
    stats = tensord.stats()
    frames = {key: stats[f"frames_{key}"] for key in ("served", "captured", "unrecorded")}
    imported = "torch._dynamo" in sys.modules and not had_dynamo
    return {**result, "import": import_s, "imported_dynamo": imported, **frames}


def _run(arguments: list[str], cache: str, frames: str) -> Json:
    environment = {
        **os.environ,
        "TENSORD_FRAMES": frames,
        "TORCHINDUCTOR_CACHE_DIR": cache,
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "HF_HUB_OFFLINE": "1",
    }
    done = subprocess.run(
        [sys.executable, __file__, "--child", *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no message"])[-1]}
    result: Json = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@dataclass(frozen=True)
class _Task:
    """What is measured, and the folder of TorchInductor's caches."""

    backend: str
    name: str
    kind: str
    device: str
    cache: str

    def run(self) -> Json:
        """One process."""
        frames = "1" if self.backend == "served" else "0"
        return _run([self.backend, self.name, self.kind, self.device], self.cache, frames)


def _measure(task: _Task, cold: Json, rounds: int) -> Json:
    runs = [task.run() for _ in range(rounds)]
    errors = [run["error"] for run in (cold, *runs) if "error" in run]
    if errors:
        return {"error": errors[0]}
    beyond = sorted(run["first"] - run["eager"] for run in runs)
    return {
        "cold": cold["first"] - cold["eager"],
        "next": statistics.median(beyond),
        "range": [beyond[0], beyond[-1]],
        "runs": runs,
    }


def _line(name: str, kind: str, results: dict[str, Json]) -> str:
    cells = [f"{name + ', ' + kind:<52}"]
    for backend, one in results.items():
        if "error" in one:
            cells.append(f"{backend} failed: {one['error'][:80]}")
            continue
        low, high = one["range"]
        cells.append(
            f"{backend} {one['cold']:.2f} -> {one['next']:.3f} s ({low:.3f} to {high:.3f})"
        )
    served = results.get("served", {}).get("runs")
    if served:
        last = served[-1]
        cells.append(f"frames {last['served']} served, {last['captured']} captured")
        cells.append("imports Dynamo" if last["imported_dynamo"] else "")
    return "  ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--skip-inductor", action="store_true")
    parser.add_argument("--backends", default=",".join(BACKENDS))
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--cold-jobs", type=int, default=1)
    parser.add_argument("--bridge", default="native", choices=("native", "python"))
    args = parser.parse_args()
    os.environ["TENSORD_NATIVE"] = "1" if args.bridge == "native" else "0"
    import gpu_models
    from private_daemon import PrivateDaemon

    backends = [b for b in args.backends.split(",") if b != "inductor" or not args.skip_inductor]
    found: list[Json] = []
    with PrivateDaemon() as daemon:
        cases = [
            [
                _Task(backend, case.name, kind, args.device, tempfile.mkdtemp(dir=daemon.root))
                for backend in backends
            ]
            for case in gpu_models.CASES for kind in KINDS
            if re.search(args.only, f"{case.name}, {kind}")
        ]  # fmt: skip
        cold: dict[_Task, Json] = {}
        if args.cold_jobs > 1:
            everything = [task for tasks in cases for task in tasks]
            with ThreadPoolExecutor(args.cold_jobs) as pool:
                cold = dict(zip(everything, pool.map(_Task.run, everything), strict=True))
        for tasks in cases:
            results = {t.backend: _measure(t, cold.get(t) or t.run(), args.rounds) for t in tasks}
            name, kind = tasks[0].name, tasks[0].kind
            print(_line(name, kind, results), flush=True)
            found.append({"name": name, "kind": kind, **results})
            if args.json:
                args.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(_child(*sys.argv[2:])))
        sys.exit(0)
    sys.exit(main())
