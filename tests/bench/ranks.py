# SPDX-License-Identifier: Apache-2.0
"""What a first step costs the ranks of a job that start at once, with nothing stored.

    ranks.py [--ranks N] [--only REGEX] [--rounds N] [--json FILE]

Each model of gpu_models, training, with 2 sequences of 64 tokens, or 2 images, on the CPU, a thread
a rank. "shared": tensord.compile, where one rank captures; "each": torch.compile without recorded
frames, where every rank does. A round has both, each with a daemon of its own and an empty store.
Seconds of CPU are those of the first step of all ranks, less eager's own (the second of two); those
of the daemon, which compiles once either way, are not in them. Seconds of wall clock are the
slowest rank's.
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
from typing import Any

HOW = ("shared", "each")
Json = dict[str, Any]


def _child(how: str, name: str, folder: str, ranks: int) -> Json:
    """One rank's first step, once all ranks are ready for theirs."""
    import gpu_models
    import tensord
    import torch

    torch.set_num_threads(1)
    case = next(case for case in gpu_models.CASES if case.name == name)
    model, inputs = gpu_models.made(case, "cpu", small=False)
    inputs = {k: (x[:2, :64] if x.dim() == 2 else x[:2]).clone() for k, x in inputs.items()}
    model.train()

    def timed(module: Any) -> tuple[float, float]:
        step = gpu_models.step_of(module, model, inputs, True, "cpu", None)
        wall, cpu = time.perf_counter(), time.process_time()
        step()
        return time.perf_counter() - wall, time.process_time() - cpu

    timed(model)
    eager_wall, eager_cpu = timed(model)
    if how == "shared":
        compiled = tensord.compile(model, dynamic=False)
    else:
        compiled = torch.compile(model, backend="tensord", dynamic=False)
    _meet(pathlib.Path(folder), ranks)
    wall, cpu = timed(compiled)
    stats = tensord.stats()
    counts = {k: stats[k] for k in ("compiled", "frames_captured", "frames_served", "graphs")}
    return {"wall": wall - eager_wall, "cpu": cpu - eager_cpu, **counts}


def _meet(folder: pathlib.Path, ranks: int) -> None:
    """Returns in all ranks at once."""
    (folder / f"ready.{os.getpid()}").touch()
    while len(list(folder.glob("ready.*"))) < ranks:
        time.sleep(0.01)


def _measure(how: str, name: str, ranks: int) -> Json:
    from private_daemon import PrivateDaemon

    environment = {
        "TENSORD_FRAMES": "1" if how == "shared" else "0",
        "HF_HUB_OFFLINE": "1",
    }
    with PrivateDaemon(), tempfile.TemporaryDirectory() as folder:
        arguments = [sys.executable, __file__, "--child", how, name, folder, str(ranks)]
        processes = [
            subprocess.Popen(
                arguments, env={**os.environ, **environment, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE, text=True,
            )
            for _ in range(ranks)
        ]  # fmt: skip
        said = [json.loads(process.communicate()[0].splitlines()[-1]) for process in processes]
    return {
        "cpu": sum(one["cpu"] for one in said),
        "wall": max(one["wall"] for one in said),
        **{k: sum(one[k] for one in said) for k in said[0] if k not in ("cpu", "wall")},
    }


def _line(name: str, results: dict[str, list[Json]]) -> str:
    def median(how: str, what: str) -> float:
        return statistics.median(one[what] for one in results[how])

    cells = [f"{name:<24}"]
    for how in HOW:
        cpu = sorted(one["cpu"] for one in results[how])
        last = results[how][-1]
        cells.append(
            f"{how}: CPU {median(how, 'cpu'):.2f} s ({cpu[0]:.2f} to {cpu[-1]:.2f}), wall "
            f"{median(how, 'wall'):.2f} s, graphs {last['graphs']}, compiled {last['compiled']};"
        )
    cells.append(f"share {median('shared', 'cpu') / median('each', 'cpu'):.3f}")
    return "  ".join(cells)


def main() -> int:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    import gpu_models

    found: list[Json] = []
    for case in gpu_models.CASES:
        if not re.search(args.only, case.name):
            continue
        results: dict[str, list[Json]] = {how: [] for how in HOW}
        for _ in range(args.rounds):
            for how in HOW:
                results[how].append(_measure(how, case.name, args.ranks))
        print(_line(case.name, results), flush=True)
        found.append({"name": case.name, **results})
        if args.json:
            args.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        how, name, folder, ranks = sys.argv[2:]
        print(json.dumps(_child(how, name, folder, int(ranks))))
        sys.exit(0)
    sys.exit(main())
