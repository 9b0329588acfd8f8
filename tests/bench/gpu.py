# SPDX-License-Identifier: Apache-2.0
"""The GPU benchmark: eager, TorchInductor and tensord in one process, in turn.

    python tests/bench/gpu.py [--cases kernels,models,start,host] [--only REGEX] [--quick]
                              [--models NAME,...] [--budget SECONDS] [--skip-inductor]
                              [--json FILE] [--write-docs] [--turns FILE] [--patience SECONDS]
    python tests/bench/gpu.py --from FILE [FILE...] --write-docs

--models times architectures of tests/models.sh instead of the benchmark's own (zoo_cases.py).
Processes that are given the same file by --turns compile side by side and measure in turn.
Prints tables, writes everything as JSON after each case, and with --write-docs makes the GPU part
of docs/performance.md of it; several files given by --from are taken together, later ones first.
A daemon of its own serves it; what falls back to eager is an error and is reported. --device cpu
tries everything on tiny shapes without a GPU. Exit status: 0, or 1 when a case failed.
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
import re
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gpu_device
import gpu_kernels
import gpu_models
import gpu_report
import kernel_cases
import report
import results
import torch
from gpu_device import Budget, CpuDevice
from private_daemon import ROOT, PrivateDaemon
from timing import compare
from turns import OutOfPatience, Turns

# Name -> what torch.compile is told.
BACKENDS: dict[str, dict[str, str]] = {
    "inductor": {"backend": "inductor"},
    "inductor graphs": {"backend": "inductor", "mode": "reduce-overhead"},
    "tensord": {"backend": "tensord"},
    "tensord graphs": {"backend": "tensord", "mode": "reduce-overhead"},
}
# The profiler stays in the way of launches once it has run in a process: what it is used in comes
# last.
GROUPS = ("host", "models", "kernels", "start")
STARTS = (
    ("BERT-base 16x512", "inference"),
    ("BERT-base 16x512", "training"),
    ("ResNet-50 64", "inference"),
    ("ViT-B/16 64", "inference"),
    ("GPT-2 8x512", "training"),
    ("Llama, 12 layers, 4x1024", "training"),
)


class Bench:
    """One run: its settings, its device, and the data so far."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.device: CpuDevice = gpu_device.make(args.device)
        self.budget = Budget(args.budget)
        self.turns = Turns(args.turns, args.patience)
        self.only = re.compile(args.only)
        self.backends = {
            name: told
            for name, told in BACKENDS.items()
            if not (args.skip_inductor and told["backend"] == "inductor")
            and not (args.skip_graphs and "mode" in told)
        }
        self.data: dict[str, Any] = {"machine": self._machine(), "rounds": args.rounds}

    def _machine(self) -> dict[str, Any]:
        versions = {}
        for package in ("transformers", "torchvision", "tensord"):
            with contextlib.suppress(importlib.metadata.PackageNotFoundError):
                versions[package] = importlib.metadata.version(package)
        return {
            **self.device.describe(),
            "host_cores": os.cpu_count(),
            "torch": torch.__version__,
            **versions,
            "python": platform.python_version(),
            "copy_bytes_per_second": self.device.copy_rate(),
            "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        }

    def save(self) -> None:
        """Writes what there is."""
        self.args.json.parent.mkdir(parents=True, exist_ok=True)
        self.args.json.write_text(json.dumps(self.data, indent=1) + "\n")

    @contextlib.contextmanager
    def case(self, group: str, name: str) -> Iterator[dict[str, Any] | None]:
        """An entry of a group; None when there is no time for it or it is not asked for.

        What fails says so in its entry, and the others go on.
        """
        if not self.only.search(name):
            yield None
            return
        entry: dict[str, Any] = {"name": name}
        self.data.setdefault(group, []).append(entry)
        if self.budget.over():
            entry["skipped"] = gpu_report.NO_TIME
            yield None
            return
        start = time.monotonic()
        torch._dynamo.reset()
        # What the cases before left would be in this one's figures.
        entry["left_behind"] = self.device.memory()
        try:
            yield entry
        except (Exception, OutOfPatience) as error:
            entry["error"] = gpu_report.first_line(error)
            entry["trace"] = traceback.format_exc()[-4000:]
        entry["seconds"] = round(time.monotonic() - start, 1)
        print(gpu_report.line(entry), flush=True)
        self.save()
        torch._dynamo.reset()
        self.device.memory()  # gives back what it can

    @contextlib.contextmanager
    def attempt(self, entry: dict[str, Any], backend: str) -> Iterator[None]:
        """One backend of a case: the others are measured although this one fails."""
        try:
            yield
        except Exception as error:
            entry.setdefault("errors", {})[backend] = gpu_report.first_line(error)
            entry.setdefault("traces", {})[backend] = traceback.format_exc()[-4000:]

    def without_graphs(self) -> dict[str, dict[str, str]]:
        """The backends in their default mode."""
        return {name: told for name, told in self.backends.items() if "mode" not in told}

    def times(
        self, runs: dict[str, Callable[[], Any]], measure: Any, sample: float, warm: bool = False
    ) -> dict[str, Any]:
        """timing.compare with this run's rounds and budget."""
        return compare(runs, self.args.rounds, sample, measure, self.budget.over, warm)


def _compiled_stats() -> dict[str, Any]:
    import tensord

    stats = tensord.stats()
    kept = ("graphs", "kernels", "calls_in_eager", "fallbacks", "fallback_reasons")
    return {name: stats[name] for name in kept}


def _compile(function: Any, told: dict[str, str]) -> Any:
    import tensord

    tensord.reset_stats()
    return torch.compile(function, dynamic=False, **told)


def measure_kernels(bench: Bench) -> None:
    """Device time of single kernels."""
    for case in gpu_kernels.CASES:
        with bench.case("kernels", case.name) as entry:
            if entry is not None:
                _kernel_times(bench, case, entry)
    with bench.case("kernels", gpu_kernels.AdamW.name) as entry:
        if entry is not None:
            _optimizer_times(bench, entry)


# Each case in a function of its own, so that none holds the tensors of the one before.
def _kernel_times(bench: Bench, case: gpu_kernels.GpuKernel, entry: dict[str, Any]) -> None:
    device = bench.device
    torch.manual_seed(0)
    arguments = case.arguments(device.name, device.small)
    runs = {"eager": gpu_kernels.runner(case, case.function, arguments)}
    with torch.no_grad():
        moved = case.moved(arguments, tuple(results.tensors_of(case.function(*arguments))))
    for name, told in bench.without_graphs().items():
        with bench.attempt(entry, name):
            compiled = _compile(case.function, told)
            run = gpu_kernels.runner(case, compiled, arguments)
            result = run()
            if "dropout" not in case.name:
                # Gradients belong to the weights of their own runner.
                one = compiled(*arguments) if case.grad else result
                results.check(one, case.function(*arguments), 2e-2)
            if name == "tensord":
                entry["stats"] = _compiled_stats()
            runs[name] = run
    _measure_kernel(bench, entry, runs, moved)


def _optimizer_times(bench: Bench, entry: dict[str, Any]) -> None:
    adam = gpu_kernels.AdamW(bench.device.name, bench.device.small)
    runs = {"eager": adam.run(None)}
    for name, told in bench.without_graphs().items():
        with bench.attempt(entry, name):
            runs[name] = adam.run(functools.partial(_compile, told=told))
            runs[name]()
    _measure_kernel(bench, entry, runs, adam.moved())


def _measure_kernel(bench: Bench, entry: dict[str, Any], runs: dict[str, Any], moved: int) -> None:
    entry["bytes"] = moved
    timed = {**runs, "copy": bench.device.copy_of(moved)}
    entry.update(bench.times(timed, bench.device.kernel_seconds, bench.args.kernel_sample))
    entry["profile"] = {name: bench.device.profile(run) for name, run in runs.items()}


def measure_models(bench: Bench) -> None:
    """Steps of whole models, then what is inside them."""
    timed = []
    for case in bench.args.models or gpu_models.CASES:
        for kind in ("inference", "training"):
            with bench.case("models", f"{case.name}: {kind}") as entry:
                if entry is not None:
                    timed.append((case, kind == "training", entry))
                    _model_times(bench, case, kind == "training", entry)
    for case, training, entry in timed:
        if "error" not in entry and not bench.budget.over():
            torch._dynamo.reset()
            try:
                _model_profiles(bench, case, training, entry)
            except OutOfPatience as error:
                entry.setdefault("errors", {})["profile"] = gpu_report.first_line(error)
            bench.save()


def _model(
    bench: Bench, case: gpu_models.GpuModel, training: bool
) -> tuple[torch.nn.Module, Callable[..., Callable[[], torch.Tensor]]]:
    """The model, and what makes a step of it, compiled or not."""
    device = bench.device
    model, inputs = gpu_models.made(case, device.name, device.small)
    model.train(training)

    def step(module: Any, graphs: bool = False) -> Callable[[], torch.Tensor]:
        return gpu_models.step_of(module, model, inputs, training, device.name, graphs=graphs)

    return model, step


def _model_times(
    bench: Bench, case: gpu_models.GpuModel, training: bool, entry: dict[str, Any]
) -> None:
    device = bench.device
    with bench.turns.preparing():
        runs = _prepared_model(bench, case, training, entry)
    with bench.turns.measuring():
        entry.update(bench.times(runs, device.step_seconds, bench.args.model_sample, warm=True))
        entry["queued"] = {
            name: statistics.median(device.kernel_seconds(run, 1) for _ in range(5))
            for name, run in runs.items()
            if name != "eager"
        }


def _prepared_model(
    bench: Bench, case: gpu_models.GpuModel, training: bool, entry: dict[str, Any]
) -> dict[str, Callable[[], torch.Tensor]]:
    """A step of eager and of each backend, compiled and compared with that; their peak memory and
    the seconds until the first is done, which others may share, go to the entry."""
    device = bench.device
    model, step = _model(bench, case, training)
    runs = {"eager": step(model)}

    def base() -> int:
        """Before a backend begins: without gradients, which a graph would keep in its memory."""
        model.zero_grad(set_to_none=True)
        return device.memory()

    wanted = runs["eager"]().item()
    before = base()
    entry["loss"], entry["memory"] = {"eager": wanted}, {}
    entry["memory"]["eager"] = device.peak_memory(runs["eager"]) - before
    entry["ready"], entry["side_by_side"] = {}, bench.turns.shared
    for name, told in bench.backends.items():
        if bench.budget.over():
            entry.setdefault("errors", {})[name] = gpu_report.NO_TIME
            continue
        with bench.attempt(entry, name):
            before = base()
            start = time.perf_counter()
            run = step(_compile(model, told), graphs="mode" in told)
            loss = run().item()
            entry["ready"][name] = time.perf_counter() - start
            for _ in range(3):  # warm-up and capture of graphs
                run()
            device.sync()
            entry["loss"][name] = loss
            # Dropout draws other numbers; without it the same loss is due.
            allowed = 0.05 if training else 0.01
            if not abs(loss - wanted) <= allowed * abs(wanted):
                raise AssertionError(f"loss {loss:.5g}, eager has {wanted:.5g}")
            entry["memory"][name] = device.peak_memory(run) - before
            if name == "tensord":
                entry["stats"] = _compiled_stats()
            runs[name] = run
        bench.save()  # somebody may end it before its turn comes
    return runs


def _model_profiles(
    bench: Bench, case: gpu_models.GpuModel, training: bool, entry: dict[str, Any]
) -> None:
    with bench.turns.preparing():
        model, step = _model(bench, case, training)
    entry["profile"] = {}
    for name, told in bench.without_graphs().items():
        if name in entry:
            with bench.attempt(entry, f"{name}, profile"):
                with bench.turns.preparing():
                    run = step(_compile(model, told))
                    run()
                with bench.turns.measuring():
                    entry["profile"][name] = bench.device.profile(run, 2)


def measure_host(bench: Bench) -> None:
    """Host time of a call whose work is nothing: eight numbers."""
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    device = bench.device
    with bench.case("host", "three operators on eight numbers") as entry:
        if entry is None:
            return
        # What capture costs by itself: a program that returns a tensor which it already has.
        made = [torch.zeros(8, device=device.name)]
        floor = aot_autograd(fw_compiler=lambda module, inputs: make_boxed_func(lambda *a: made))
        x = torch.randn(8, device=device.name)
        runs: dict[str, Callable[[], Any]] = {"eager": lambda: kernel_cases.tiny(x)}
        for name, told in {"capture": {"backend": floor}, **bench.backends}.items():
            with bench.attempt(entry, name):
                # A function of its own: torch looks through what it compiled of a function.
                function = types.FunctionType(
                    kernel_cases.tiny.__code__.replace(co_name=f"tiny_{len(runs)}"),
                    kernel_cases.tiny.__globals__,
                )
                compiled = torch.compile(function, **told)
                for _ in range(3):
                    compiled(x)
                runs[name] = functools.partial(compiled, x)
        with torch.no_grad():
            entry.update(bench.times(runs, device.host_seconds, 0.01))


def measure_starts(bench: Bench) -> None:
    """First steps in processes of their own: cold, then the next process."""
    backends = ["tensord"] if bench.args.skip_inductor else ["inductor", "tensord"]
    # A daemon with an empty store, whose first compile pays for the worker and the prelude too.
    with PrivateDaemon() as daemon:
        for name, kind in STARTS:
            with bench.case("start", f"{name}: {kind}") as entry:
                if entry is None:
                    continue
                with tempfile.TemporaryDirectory(dir=daemon.root) as cache:
                    for backend in backends:
                        for when in ("cold", "next"):
                            with bench.attempt(entry, f"{backend}, {when}"):
                                step = _first_step(bench, backend, name, kind, cache)
                                entry.setdefault(when, {})[backend] = step


def _first_step(bench: Bench, backend: str, name: str, kind: str, cache: str) -> dict[str, Any]:
    script = pathlib.Path(__file__).with_name("first_step.py")
    done = subprocess.run(
        [sys.executable, str(script), backend, name, kind, bench.device.name, "gpu"],
        env={**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "TRITON_CACHE_DIR": f"{cache}/triton"},
        capture_output=True,
        text=True,
        check=False,
        timeout=min(bench.budget.left() + 5, 600),
    )
    if done.returncode != 0:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])


MEASURES: dict[str, Callable[[Bench], None]] = {
    "host": measure_host,
    "kernels": measure_kernels,
    "models": measure_models,
    "start": measure_starts,
}


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """All chosen groups, by name."""
    torch.set_float32_matmul_precision("high")
    # Four compiled variants of one model, with and without gradients.
    torch._dynamo.config.recompile_limit = 64
    build = [sys.executable, "-m", "tensord._native.build"]
    built = subprocess.run(build, capture_output=True, check=False)
    bench = Bench(args)
    bench.data["machine"]["native_bridge"] = built.returncode == 0
    rate = bench.data["machine"]["copy_bytes_per_second"]
    print(f"a copy moves {rate / 1e12:.2f} TB/s", flush=True)
    groups = [name for name in args.cases if name != "start"]
    try:
        if groups:
            with PrivateDaemon() as daemon:
                if args.fallbacks:
                    os.environ["TENSORD_STRICT"] = "0"
                for name in groups:
                    MEASURES[name](bench)
                bench.data["daemon_log"] = (daemon.root / "tensord.log").read_text()[-4000:]
        if "start" in args.cases:
            measure_starts(bench)
    except Exception as error:  # what there is is worth keeping
        bench.data["error"] = gpu_report.first_line(error)
        traceback.print_exc()
    bench.save()
    return bench.data


def _architectures(text: str) -> list[gpu_models.GpuModel]:
    import zoo_cases

    def maker(name: str) -> Callable[[bool], gpu_models.Made]:
        return lambda small: zoo_cases.make(name, zoo_cases.SMALL if small else zoo_cases.ON_GPU)

    return [gpu_models.GpuModel(name, maker(name)) for name in zoo_cases.names(text)]


def _groups(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(GROUPS):
        raise argparse.ArgumentTypeError(f"{', '.join(sorted(unknown))}; known: {GROUPS}")
    return [name for name in GROUPS if name in names]


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--cases", type=_groups, default=list(GROUPS), help=",".join(GROUPS))
    add("--models", type=_architectures, metavar="NAME,...", default=[])
    add("--only", default="", metavar="REGEX", help="cases whose name it is found in")
    add("--quick", action="store_true", help="few rounds: a look, not a measurement")
    add("--rounds", type=int, default=11)
    add("--budget", type=float, metavar="SECONDS", help="begins nothing new after that")
    add("--skip-inductor", action="store_true")
    add("--skip-graphs", action="store_true", help="no mode reduce-overhead")
    add("--turns", type=pathlib.Path, metavar="FILE", help="whole models: measure in turn")
    add("--patience", type=float, metavar="SECONDS", help="gives up what prepares for longer")
    add("--fallbacks", action="store_true", help="what runs in eager is counted, not an error")
    add("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run, tiny shapes")
    add("--json", type=pathlib.Path, default=ROOT / "build" / "bench-gpu.json")
    add("--from", dest="sources", type=pathlib.Path, nargs="+", help="measure nothing")
    add("--write-docs", action="store_true", help="writes the GPU part of docs/performance.md")
    args = parser.parse_args()
    if args.models:
        args.cases = ["models"]
    args.kernel_sample, args.model_sample = 0.03, 0.25
    if args.quick:
        args.rounds, args.kernel_sample, args.model_sample = 5, 0.01, 0.03
    if args.device == "cuda" and not args.sources and not torch.cuda.is_available():
        parser.error("no CUDA device here; --device cpu is a dry run")
    return args


def main() -> int:
    args = _parse()
    warnings.filterwarnings("ignore")
    if args.sources:
        data = gpu_report.merged([json.loads(path.read_text()) for path in args.sources])
    else:
        data = measure(args)
    print("\n" + gpu_report.text(data))
    if args.write_docs:
        report.write_part(ROOT / "docs" / "performance.md", "gpu", gpu_report.markdown(data))
    return 1 if gpu_report.failed(data) else 0


if __name__ == "__main__":
    sys.exit(main())
