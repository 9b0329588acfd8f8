# SPDX-License-Identifier: Apache-2.0
"""The CPU benchmark: eager, TorchInductor and tensord in one process, in turn.

    .venv/bin/python tests/bench/cpu.py [--quick] [--sections kernels,models,...] [--only TEXT]
                                        [--models NAME,...] [--json FILE] [--write-docs]
    .venv/bin/python tests/bench/cpu.py --from FILE --write-docs

--models times architectures of tests/models.sh instead of the benchmark's own (zoo_cases.py).
Prints tables, writes everything as JSON, and with --write-docs makes the CPU's part of
docs/performance.md of it. A daemon of its own serves it; strict mode: what falls
back to eager is an error and is reported.
Exit status: 0, or 1 when a case failed.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import functools
import importlib.metadata
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import kernel_cases
import model_cases
import report
import service
import torch
from private_daemon import ROOT, PrivateDaemon
from results import tensors_of
from timing import compare

BACKENDS = ("inductor", "tensord")
COLD_MODEL, COLD_KERNEL = "BERT, 4 layers", kernel_cases.CASES[1].name


def _close(got: Any, wanted: Any, tolerance: float) -> None:
    for a, b in zip(tensors_of(got), tensors_of(wanted), strict=True):
        torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance)


@contextlib.contextmanager
def _failure_of(entry: dict[str, Any]) -> Iterator[None]:
    """A case that fails says so in its entry, and the others go on."""
    try:
        yield
    except Exception as error:
        entry["error"] = f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}"
        print(f"  {entry['name']}: {entry['error']}", file=sys.stderr, flush=True)


def measure_kernels(args: argparse.Namespace) -> list[dict[str, Any]]:
    entries = []
    for case in kernel_cases.CASES:
        if args.only not in case.name:
            continue
        entry: dict[str, Any] = {"name": case.name}
        entries.append(entry)
        with _failure_of(entry), torch.no_grad():
            entry.update(_kernel_times(case, args))
        _say(entry)
    return entries


def _kernel_times(case: kernel_cases.KernelCase, args: argparse.Namespace) -> dict[str, Any]:
    import tensord

    torch._dynamo.reset()
    tensord.reset_stats()
    arguments = case.arguments()
    wanted = case.function(*arguments)
    runs: dict[str, Callable[[], Any]] = {"eager": lambda: case.function(*arguments)}
    for backend in BACKENDS:
        compiled = torch.compile(case.function, backend=backend)
        _close(compiled(*arguments), wanted, 1e-3)
        runs[backend] = functools.partial(compiled, *arguments)
    kernels = tensord.stats()["kernels"]
    if kernels > case.kernels:
        raise RuntimeError(f"{kernels} kernels, where {case.kernels} would do")
    return {"kernels": kernels, **compare(runs, args.rounds, args.sample)}


def measure_models(args: argparse.Namespace) -> list[dict[str, Any]]:
    entries = []
    for case in args.models or model_cases.CASES:
        for kind in ("inference", "training"):
            name = f"{case.name}: {kind}"
            if args.only not in name:
                continue
            entry: dict[str, Any] = {"name": name}
            entries.append(entry)
            with _failure_of(entry):
                entry.update(_model_times(case, kind == "training", args))
            _say(entry)
    return entries


def _model_times(
    case: model_cases.ModelCase, training: bool, args: argparse.Namespace
) -> dict[str, Any]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    model, inputs = case.make()
    eager = model_cases.step_of(model, model, inputs, training)
    runs = {"eager": eager}
    for backend in BACKENDS:
        module = torch.compile(model, backend=backend)
        runs[backend] = model_cases.step_of(module, model, inputs, training)
        # Without dropout the losses can be compared. Eager runs each time: training steps have
        # moved running statistics.
        model.eval()
        _close(runs[backend](), eager(), 1e-3)
        model.train(training)
        runs[backend]()  # compiles what is measured
    model.train(training)
    return compare(runs, args.rounds, args.sample)


def measure_first_steps(args: argparse.Namespace, daemon: PrivateDaemon) -> list[dict[str, Any]]:
    """First steps in processes of their own: cold, then the next process."""
    entries = []
    for name, kind in (
        (COLD_KERNEL, "inference"),
        (COLD_MODEL, "inference"),
        (COLD_MODEL, "training"),
    ):
        entry: dict[str, Any] = {"name": f"{name}: {kind}", "cold": {}, "next": {}}
        entries.append(entry)
        with (
            _failure_of(entry),
            tempfile.TemporaryDirectory(prefix="tensord-bench-") as cache,
        ):
            for backend in BACKENDS:
                entry["cold"][backend] = _first_step(backend, name, kind, cache)
                again = [_first_step(backend, name, kind, cache) for _ in range(args.repeats)]
                entry["next"][backend] = min(again, key=lambda step: step["compile"])
        print(json.dumps(entry), flush=True)
    return entries


def _first_step(backend: str, name: str, kind: str, cache: str) -> dict[str, Any]:
    script = pathlib.Path(__file__).with_name("first_step.py")
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache}
    done = subprocess.run(
        [sys.executable, str(script), backend, name, kind],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{backend}: {done.stderr.strip().splitlines()[-1]}")
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure_host(args: argparse.Namespace) -> dict[str, Any]:
    """The time of a call whose work is nothing: eight numbers."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    # What capture costs by itself: a program that returns a tensor which it already has.
    made = [torch.zeros(8)]
    floor = aot_autograd(fw_compiler=lambda module, inputs: make_boxed_func(lambda *a: made))
    x = torch.randn(8)
    torch._dynamo.reset()
    runs: dict[str, Callable[[], Any]] = {"eager": lambda: kernel_cases.tiny(x)}
    for name, backend in (("capture", floor), *((b, b) for b in BACKENDS)):
        compiled = torch.compile(kernel_cases.tiny, backend=backend)
        compiled(x)
        runs[name] = functools.partial(compiled, x)
    entry: dict[str, Any] = {"name": "three operators on eight numbers"}
    with _failure_of(entry), torch.no_grad():
        entry.update(compare(runs, args.rounds, min(args.sample, 0.1)))
    return entry


def _machine() -> dict[str, Any]:
    info = pathlib.Path("/proc/cpuinfo").read_text()
    model = next((x.split(":")[1].strip() for x in info.splitlines() if "model name" in x), "")
    from tensord.wire import target

    return {
        "cpu": model or platform.machine(),
        "cores": os.cpu_count(),
        "isa": target.isa_of(target._cpu_flags()),
        "threads": torch.get_num_threads(),
        "load_before": os.getloadavg()[0],
        "torch": torch.__version__,
        "transformers": importlib.metadata.version("transformers"),
        "python": platform.python_version(),
        "tensord": importlib.metadata.version("tensord"),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
    }


def _say(entry: dict[str, Any]) -> None:
    if "error" not in entry:
        print(report.line(entry), flush=True)


SECTIONS = ("kernels", "models", "host", "lookup", "first_steps", "idle")


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All chosen sections, by name."""
    # Else it is built in the background, beside what is measured. Where it cannot be, the slower
    # bridge is what there is.
    build = [sys.executable, "-m", "tensord._native.build"]
    subprocess.run(build, capture_output=True, check=False)
    data: dict[str, Any] = {"machine": _machine(), "rounds": args.rounds}
    with PrivateDaemon() as daemon:
        fresh = service.idle(daemon, args.idle) if "idle" in args.sections else None
        sections: dict[str, Callable[[], Any]] = {
            "kernels": lambda: measure_kernels(args),
            "models": lambda: measure_models(args),
            "host": lambda: measure_host(args),
            "lookup": lambda: service.lookup(args.lookups),
            "idle": lambda: {"fresh": fresh, "after": service.idle(daemon, args.idle)},
        }
        for name, run in sections.items():
            if name in args.sections:
                data[name] = run()
    if "first_steps" in args.sections:
        # A daemon with an empty store, whose first compile pays for the worker and the prelude too.
        with PrivateDaemon() as daemon:
            data["first_steps"] = measure_first_steps(args, daemon)
    return data


def _failed(data: Any) -> bool:
    if isinstance(data, dict):
        return "error" in data or any(map(_failed, data.values()))
    return isinstance(data, list) and any(map(_failed, data))


def _architectures(text: str) -> list[model_cases.ModelCase]:
    import zoo_cases

    return [
        model_cases.ModelCase(name, functools.partial(zoo_cases.make, name, zoo_cases.ON_CPU))
        for name in zoo_cases.names(text)
    ]


def _sections(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(SECTIONS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}; known: {SECTIONS}")
    return names


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sections", type=_sections, default=list(SECTIONS))
    parser.add_argument("--models", type=_architectures, metavar="NAME,...", default=[])
    parser.add_argument("--only", default="", help="cases whose name contains this text")
    parser.add_argument(
        "--quick", action="store_true", help="few rounds: a look, not a measurement"
    )
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "bench-cpu.json")
    parser.add_argument("--from", dest="source", type=pathlib.Path, help="measure nothing")
    parser.add_argument("--write-docs", action="store_true", help="writes docs/performance.md")
    args = parser.parse_args()
    args.sample, args.lookups, args.idle, args.repeats = 0.25, 2000, 10.0, 3
    if args.quick:
        args.rounds, args.sample, args.lookups, args.idle, args.repeats = (
            5,
            0.1,
            300,
            2.0,
            1,
        )
    if args.models:
        args.sections = ["models"]
    warnings.filterwarnings("ignore")

    if args.source:
        data = json.loads(args.source.read_text())
    else:
        data = measure(args)
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(data, indent=1) + "\n")
    print("\n" + report.text(data))
    if args.write_docs:
        report.write_part(ROOT / "docs" / "performance.md", "cpu", report.markdown(data))
    return 1 if _failed(data) else 0


if __name__ == "__main__":
    sys.exit(main())
