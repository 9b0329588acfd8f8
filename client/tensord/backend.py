"""The backend that torch.compile(..., backend="tensord") calls, found by its entry point."""

from __future__ import annotations

import functools
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Container, Sequence
from typing import Any

import torch
from torch import fx

from . import (
    absent_gradients,
    cuda_graph_plan,
    cuda_graph_split,
    cuda_graphs,
    devices,
    effects,
    fallback,
    garbage,
    graph_passes,
    options,
    partition,
    random_ops,
    rpc,
    target,
    torch_compat,
)
from . import export as exporter
from .compiled import CompiledGraph, eager
from .counters import STATS
from .errors import TensordError
from .v1 import compile_pb2, service_pb2

log = logging.getLogger("tensord")

_PRIMAL = re.compile(r"primals_(\d+)$")


garbage.watch_dynamo()  # the package is imported when torch.compile is called: before any capture


def compile_fx(
    module: fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    **extra: Any,
) -> Callable[..., Any]:
    """Compiles a Dynamo graph; the graph's own forward when that cannot be.

    Raises ValueError or TypeError for options that are not known (options.py).
    """
    return _compile(module, example_inputs, _parse(mode, options, extra))


_parse = options.parse


def _compile(
    module: fx.GraphModule, example_inputs: Sequence[Any], chosen: options.Options
) -> Callable[..., Any]:
    garbage.watch_dynamo()
    start = time.perf_counter()
    exporting = STATS.seconds("export_seconds")
    before = graph_passes.Before()
    try:
        with garbage.waits():
            greeting = rpc.client().hello()
            off = options.switched_off(chosen)
            before = _improve(module, off)
            return _autograd(chosen, greeting, off)(module, example_inputs)
    except Exception as error:
        if _is_for_dynamo(error):
            raise
        fallback.note(error, f"a graph of {len(module.graph.nodes)} nodes")
        before.restore()  # what failed may have failed because of a pass
        return module.forward
    finally:
        exported = STATS.seconds("export_seconds") - exporting
        STATS.add_seconds("capture_seconds", time.perf_counter() - start - exported)


def _improve(module: fx.GraphModule, off: Container[str]) -> graph_passes.Before:
    """The passes before autograd, in place; where one fails the graph is as it was.

    The way back to the graph before them.
    """
    try:
        return graph_passes.run(module, off)
    except Exception as error:
        fallback.note(error, "a pass over the captured graph", "is left out")
        return graph_passes.Before()


def _is_for_dynamo(error: Exception) -> bool:
    """True for what Dynamo raises through a backend to itself (restart the analysis, break
    here)."""
    return type(error).__module__.startswith("torch._dynamo") and not isinstance(
        error, TensordError
    )


def _autograd(chosen: options.Options, greeting: Any, off: Container[str]) -> Callable[..., Any]:
    """AOTAutograd with this package's compilers, for one Dynamo graph."""
    absent = absent_gradients.AbsentGradients()

    def compiler(label: str) -> Callable[..., Any]:
        def compile_one(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Any:
            fixed = torch_compat.static_input_indices()
            compile_graph = functools.partial(
                _compile_graph, fixed=fixed, chosen=chosen, label=label
            )
            if label == "backward" and "absent_gradients" not in off:
                return absent.backward(module, compile_graph)
            return compile_graph(module)

        return compile_one

    inner = torch_compat.autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=partition.partition,
        decompositions=decompositions(tuple(greeting.operators)),
        keep_inference_input_mutations=True,
    )

    def run(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        # Both graphs are sent before the first call waits, so the daemon compiles them side by
        # side.
        with torch_compat.lower_backward_early(), torch_compat.fastest_attention_first():
            return absent.spared(inner(module, example_inputs))

    return run


@functools.lru_cache(maxsize=8)
def decompositions(operators: tuple[str, ...]) -> dict[Any, Callable[..., Any]]:
    """What AOTAutograd should decompose, given the operators that the daemon lowers itself."""
    known = {name.removesuffix(".default") for name in operators}
    keep = known | random_ops.REWRITTEN | torch_compat.KEEP_WHOLE
    return {
        op: function
        for op, function in torch_compat.core_decompositions().items()
        if not isinstance(op, torch._ops.OpOverload) or torch_compat.operator_name(op) not in keep
    }


def _compile_graph(
    module: fx.GraphModule, *, fixed: set[int], chosen: options.Options, label: str
) -> Callable[[list[Any]], Any]:
    """Exports one graph and sends it; the result waits for its program when first called.

    fixed: arguments of the forward or inference graph that keep their address from call to call.
    """
    STATS.add("graphs")
    try:
        if label == "inference":
            random_ops.rewrite(module)
        effects.unthread(module)
        devices.move_constants(module, exporter.MAX_CONSTANT_BYTES)
        static = _static_inputs(module, fixed, label)
        with STATS.timed("export_seconds"):
            exported = exporter.export(module, static)
        if not exported.graph.nodes:
            return eager(module)  # only passes inputs through
        if chosen.mode not in options.GRAPHED or exported.cuda_index is None:
            return _send(module, exported, chosen, label, None)
        backward = label == "backward"
        plan = cuda_graph_plan.plan_of(module, static, exported.cuda_index, backward)
        parts = _parts(module, static, plan) if plan.obstacle else None
        if parts is None:
            return _send(module, exported, chosen, label, plan)
        return _send_parts(*parts, plan, chosen, label)
    except Exception as error:
        fallback.note(error, f"the {label} graph")
        return eager(module)


def _send(
    module: fx.GraphModule,
    exported: exporter.Exported,
    chosen: options.Options,
    label: str,
    plan: cuda_graph_plan.Plan | None,
) -> Callable[[list[Any]], Any]:
    """Asks for one program. plan: of its capture; None for what is not captured."""
    request = service_pb2.CompileRequest(
        graph=exported.graph,
        target=target.detect(exported.cuda_index),
        options=_compile_options(chosen),
        caller=_caller(),
        label=label,
    )
    call = rpc.client().compile(request)
    return CompiledGraph(module, exported, call, label, plan).callable()


_Parts = tuple[cuda_graph_split.Cut, list[exporter.Exported]]


def _parts(module: fx.GraphModule, static: set[int], plan: cuda_graph_plan.Plan) -> _Parts | None:
    """A graph cut at what keeps it from being captured; None where it is better left whole."""
    try:
        cut = cuda_graph_split.cut(module, static)
        if cut is None:
            return None
        with STATS.timed("export_seconds"):
            exported = [exporter.export(part.module, part.static) for part in cut.parts]
    except Exception as error:  # the whole graph has been exported, and serves
        log.debug("not cut at what no CUDA graph can hold (%s): %r", plan.obstacle, error)
        return None
    return cut, exported


def _send_parts(
    cut: cuda_graph_split.Cut,
    exported: list[exporter.Exported],
    plan: cuda_graph_plan.Plan,
    chosen: options.Options,
    label: str,
) -> Callable[[list[Any]], Any]:
    """Asks for the programs of all parts, which are compiled side by side."""
    cuda_graphs.refuse(plan.obstacle)
    STATS.add("cuda_graph_cuts")
    runs = []
    for number, (part, one) in enumerate(zip(cut.parts, exported, strict=True)):
        capture = None
        if not part.obstacle:
            capture = cuda_graph_plan.plan_of(part.module, part.static, plan.index, plan.reads_last)
        if one.graph.nodes:
            runs.append(_send(part.module, one, chosen, f"{label}, part {number + 1}", capture))
        else:
            runs.append(eager(part.module))
    return cut.callable(runs)


def _static_inputs(module: fx.GraphModule, fixed: set[int], label: str) -> set[int]:
    """The graph's own arguments among those.

    The backward graph takes some of the same tensors, under the names that they had in the forward
    graph.
    """
    names = [node.name for node in module.graph.nodes if node.op == "placeholder"]
    if label != "backward":
        return {index for index in fixed if index < len(names)}
    matches = [(i, _PRIMAL.match(name)) for i, name in enumerate(names)]
    return {i for i, match in matches if match and int(match[1]) - 1 in fixed}


def _compile_options(chosen: options.Options) -> Any:
    return compile_pb2.CompileOptions(
        mode=options.MODES[chosen.mode],
        deterministic=chosen.deterministic or torch.are_deterministic_algorithms_enabled(),
    )


# Who asks, from what schedulers and launchers set.
_JOB_VARIABLES = ("TENSORD_JOB", "TORCHELASTIC_RUN_ID", "SLURM_JOB_ID")
_RANK_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


def _caller() -> Any:
    job = next((os.environ[v] for v in _JOB_VARIABLES if os.environ.get(v)), "")
    rank = next((os.environ[v] for v in _RANK_VARIABLES if os.environ.get(v, "").isdigit()), "0")
    return service_pb2.Caller(pid=os.getpid(), job=job, rank=int(rank), host=socket.gethostname())
