# SPDX-License-Identifier: Apache-2.0
"""What is planned for models on a GPU, on a host without one: memory, launches, calls.

    planned.py --models transformers/swin,timm/mixer_b16_224,... [--batch N] [--layers N]
               [--target sm_NN] [--keep FOLDER] [--json FILE]

Each architecture of tests/models.sh at the size of the GPU benchmark (zoo_cases.py), or smaller by
what is said (decoders run in eager once before, which takes minutes), in bfloat16 autocast, is
captured for inference and for a training step on a device that computes nothing
(tests/tools/fake_gpu), and compiled for the target. Memory in MiB: what backward is given beside
parameters, and how much that is with TorchInductor's decompositions and torch's own partition of
them; the most that a call needs at a time, parameters apart, as planned (a library's own scratch as
far as it is known). --keep: where graphs stay, for `tensorctl compile --dump-after memory`.

Exit status: 0, or 1 when a model failed.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from typing import Any

import torch
import zoo_cases
from private_daemon import ROOT, PrivateDaemon
from rich.console import Console
from rich.table import Table
from torch import fx

MIB = 1 << 20
KINDS = ("inference", "training")
# Scratch and the sizes of blocks depend on all of it.
H100 = {
    "sm": 90,
    "multiprocessors": 132,
    "shared_bytes_per_block": 227 << 10,
    "l2_bytes": 50 << 20,
    "registers_per_multiprocessor": 64 << 10,
}
Json = dict[str, Any]


# ---- In a process with the device


def _capture(name: str, scale: zoo_cases.Scale, training: bool, folder: pathlib.Path) -> Json:
    """Writes the graphs of one model; what backward takes, in bytes, by either partition."""
    import fake_gpu
    import torch._dynamo
    from tensord.capture import autograd
    from tensord.capture.compile_graph import _compile_options, _static_inputs
    from tensord.v1 import artifact_pb2, requests_pb2
    from tensord.wire import export
    from torch._subclasses.fake_tensor import FakeTensorMode

    model, inputs = zoo_cases.make(name, scale)
    model.train(training)
    fake_gpu.install()
    mode = FakeTensorMode(allow_non_fake_inputs=True)
    inputs = fake_gpu.move(mode, model, inputs)
    saved: Json = {}
    label_of: dict[str, int] = {}

    def write(
        module: fx.GraphModule,
        *,
        fixed: set[int],
        donated: frozenset[int],
        chosen: Any,
        label: str,
    ) -> Any:
        number = label_of[label] = label_of.get(label, -1) + 1
        static = _static_inputs(module, fixed, label)
        job = requests_pb2.CompileRequest(  # as far as said, a CompileJob
            graph=export.export(module, static, donated).graph,
            options=_compile_options(chosen, label),
            target=artifact_pb2.Target(cuda=artifact_pb2.CudaTarget(**H100)),
        )
        (folder / f"{label}.{number}.pb").write_bytes(job.SerializeToString())
        if label == "backward":
            saved["tensord"] = saved.get("tensord", 0) + _saved_bytes(module)
        return _interpreted(module)

    autograd.compile_graph = write

    with PrivateDaemon():
        # TorchInductor's first: tensord tells the partitioner what else fuses.
        for backend in (_inductor(saved), "tensord") if training else ("tensord",):
            torch._dynamo.reset()
            with mode, torch.set_grad_enabled(training), torch.autocast("cuda", torch.bfloat16):
                loss = torch.compile(model, backend=backend, dynamic=False)(**inputs)
            if training:
                with mode:
                    loss.backward()
    return saved


def _inductor(saved: Json) -> Any:
    """A backend that is cut as TorchInductor is, and runs what it is given."""
    from torch._dynamo.backends.common import aot_autograd
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    def partition(joint: fx.GraphModule, inputs: Any, **rest: Any) -> Any:
        return min_cut_rematerialization_partition(joint, inputs, compiler="inductor", **rest)

    def backward(module: fx.GraphModule, inputs: Any) -> Any:
        saved["inductor"] = saved.get("inductor", 0) + _saved_bytes(module)
        return _interpreted(module)

    return aot_autograd(
        fw_compiler=lambda module, inputs: _interpreted(module),
        bw_compiler=backward,
        partition_fn=partition,
        decompositions=select_decomp_table(),
    )


def _saved_bytes(backward: fx.GraphModule) -> int:
    total = 0
    for node in backward.graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and not node.name.startswith("primals"):
            total += value.numel() * value.itemsize
    return total


def _interpreted(module: fx.GraphModule) -> Any:
    from functorch.compile import make_boxed_func

    return make_boxed_func(lambda *args: list(fx.Interpreter(module).run(*args)))


# ---- The whole


def _plan(graph: pathlib.Path, target: str) -> Json:
    """What the compiler makes of one graph."""

    def dump(stage: str) -> str:
        command = [str(ROOT / "build/bin/tensorctl"), "compile", "--dump-after", stage, str(graph)]
        command += ["--target", target] if target else []
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    memory, schedule = dump("memory"), dump("schedule")
    peak = re.search(r"^peak: (\d+) bytes", memory, re.M)
    return {
        "peak": int(peak[1]) if peak else 0,
        "launches": len(re.findall(r"^step \d+: launch", schedule, re.M)),
        "calls": len(re.findall(r"^step \d+: call", schedule, re.M)),
    }


def _measure(
    name: str, scale: zoo_cases.Scale, kind: str, target: str, folder: pathlib.Path
) -> Json:
    import fake_gpu

    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.pb"):
        old.unlink()
    command = [sys.executable, __file__, "--models", name, "--child", kind, "--keep", str(folder)]
    command += ["--batch", str(scale.batch), "--layers", str(scale.layers)]
    environment = {**os.environ, **fake_gpu.environment()}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = [
            line
            for line in done.stderr.splitlines()
            if re.match(r"\w[\w.]*(Error|Exception)", line)
        ]
        return {"error": (lines or [f"exit status {done.returncode}"])[0]}
    graphs = sorted(folder.glob("*.pb"))
    if not graphs:
        return {"error": "no graph was captured"}
    try:
        plans = [_plan(graph, target) for graph in graphs]
    except subprocess.CalledProcessError as error:
        return {"error": error.stderr.strip() or str(error)}
    return {
        "saved": json.loads(done.stdout.splitlines()[-1]),
        "peak": max(plan["peak"] for plan in plans),
        "launches": sum(plan["launches"] for plan in plans),
        "calls": sum(plan["calls"] for plan in plans),
    }


def _row(name: str, kind: str, entry: Json) -> list[str]:
    if "error" in entry:
        return [name, kind, entry["error"]]
    saved = [entry["saved"].get(backend) for backend in ("tensord", "inductor")]
    memory = ["" if x is None else f"{x / MIB:.1f}" for x in (*saved, entry["peak"])]
    return [name, kind, *memory, str(entry["launches"]), str(entry["calls"])]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=zoo_cases.names, required=True, metavar="NAME,...")
    parser.add_argument("--batch", type=int, default=zoo_cases.ON_GPU.batch, metavar="N")
    parser.add_argument("--layers", type=int, default=zoo_cases.ON_GPU.layers, metavar="N")
    parser.add_argument("--target", default="", help="another than an H100, such as sm_80")
    parser.add_argument("--keep", type=pathlib.Path, metavar="FOLDER")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="everything, in bytes")
    parser.add_argument("--child", choices=KINDS, help=argparse.SUPPRESS)
    args = parser.parse_args()
    scale = replace(zoo_cases.ON_GPU, batch=args.batch, layers=args.layers)
    if args.child:
        print(json.dumps(_capture(args.models[0], scale, args.child == "training", args.keep)))
        return 0
    columns = ["model", "", "saved", "saved, TorchInductor", "peak, planned", "launches", "calls"]
    table, entries = Table(*columns), []
    with tempfile.TemporaryDirectory(prefix="tensord-planned-") as temporary:
        for name in args.models:
            for kind in KINDS:
                folder = (args.keep or pathlib.Path(temporary)) / name.replace("/", "-") / kind
                entry = _measure(name, scale, kind, args.target, folder)
                entries.append({"model": name, "kind": kind, **entry})
                table.add_row(*_row(name, kind, entry))
    Console().print(table)
    if args.json:
        args.json.write_text(json.dumps(entries, indent=1) + "\n")
    return 1 if any("error" in entry for entry in entries) else 0


if __name__ == "__main__":
    sys.exit(main())
