# SPDX-License-Identifier: Apache-2.0
"""One forward, backward or inference graph: exported, and sent to the daemon.

It is cut into several programs where data decides a size within it, and where its program is to be
captured as a CUDA graph and something in it forbids that.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping

import torch
from torch import fx

from .. import fallback, options
from ..bridge.compiled_graph import CompiledGraph, eager
from ..counters import STATS
from ..cuda_graphs import graphed_program
from ..cuda_graphs.plan import Plan, plan_of
from ..cuda_graphs.split import cut
from ..cut import Cut
from ..frames import recorded_graphs
from ..torch_compat import Boxed
from ..v1 import compile_pb2, frame_pb2, requests_pb2
from ..wire import call_backs, caller, export, rpc, spans, target
from ..wire.exporter import Exported
from . import data_sizes

log = logging.getLogger("tensord")

_PRIMAL = re.compile(r"primals_(\d+)$")


def compile_graph(
    module: fx.GraphModule,
    *,
    fixed: set[int],
    donated: frozenset[int] = frozenset(),
    chosen: options.Options,
    label: str,
) -> Boxed:
    """Exports one graph and sends it; the result waits for its program when first called.

    fixed: arguments of the forward or inference graph that keep their address from call to call.
    donated: arguments of the graph that the call may overwrite.
    label: which graph it is, "forward", "backward" or "inference".
    """
    STATS.add("graphs")
    try:
        static = _static_inputs(module, fixed, label)
        with STATS.timed("export_seconds"), spans.timed("cut", label):
            parts = data_sizes.cut(module, static)
        if parts is None:
            return _compile(
                module, static, chosen, label, reads_last=label == "backward", donated=donated
            )
        recorded_graphs.refuse("data decides sizes within a graph")
        return _compile_parts(parts, chosen, label)
    except Exception as error:
        fallback.note(error, f"the {label} graph")
        recorded_graphs.refuse("a graph runs in eager")
        return eager(module)


def exported_program(
    module: fx.GraphModule,
    *,
    fixed: set[int],
    donated: frozenset[int] = frozenset(),
    chosen: options.Options,
    label: str,
) -> frame_pb2.FrameProgram:
    """One graph as part of a frame, without asking for its program. Arguments as of compile_graph.

    Raises ExportError or UnrecordableError.
    """
    exported = export.export(module, _static_inputs(module, fixed, label), donated)
    return recorded_graphs.program_of(exported, _compile_options(chosen, label))


def _compile_parts(parts: Cut, chosen: options.Options, label: str) -> Boxed:
    """Parts between sizes that data decides; what decides them runs in eager."""
    runs: list[Boxed] = []
    for number, part in enumerate(parts.parts):
        if part.obstacle:
            STATS.add("call_backs")
            _note_in_python(label, part.reasons)
            runs.append(eager(part.module))
            continue
        name = f"{label}, part {number + 1}"
        try:
            runs.append(_compile(part.module, part.static, chosen, name, reads_last=False))
        except Exception as error:
            fallback.note(error, f"the {name}")
            runs.append(eager(part.module))
    return parts.callable(runs)


def _compile(
    module: fx.GraphModule,
    static: set[int],
    chosen: options.Options,
    label: str,
    *,
    reads_last: bool,
    donated: frozenset[int] = frozenset(),
) -> Boxed:
    """A graph in which data decides no size. reads_last: see cuda_graphs.plan.Plan."""
    with STATS.timed("export_seconds"), spans.timed("export", label):
        exported = export.export(module, static, donated)
    if all(node.op == call_backs.OPERATOR for node in exported.graph.nodes):
        # A frame has a program of it all the same, which does nothing.
        recorded_graphs.note_program(exported, _compile_options(chosen, label), label, None)
        return eager(module)  # passes inputs through, or there is nothing to compile
    _note_call_backs(exported, label)
    if chosen.mode not in options.GRAPHED or exported.cuda_index is None:
        return _send(module, exported, chosen, label, None)
    plan = plan_of(module, static, exported.cuda_index, reads_last)
    parts = _graphed_parts(module, static, plan) if plan.obstacle else None
    if parts is None:
        return _send(module, exported, chosen, label, plan)
    return _send_parts(*parts, plan, chosen, label)


def _note_call_backs(exported: Exported, label: str) -> None:
    for step in exported.call_backs:
        STATS.add("call_backs")
        _note_in_python(label, step.reasons)


def _note_in_python(label: str, reasons: Mapping[str, str]) -> None:
    """reasons: why each node runs in Python, by its name."""
    for name, reason in reasons.items():
        STATS.add_call_back(reason)
        log.info("tensord: %r of the %s graph runs in Python: %s", name, label, reason)


def _send(
    module: fx.GraphModule,
    exported: Exported,
    chosen: options.Options,
    label: str,
    plan: Plan | None,
) -> Boxed:
    """Asks for one program. plan: of its capture; None for what is not captured."""
    request = requests_pb2.CompileRequest(
        graph=exported.graph,
        target=target.detect(exported.cuda_index),
        options=_compile_options(chosen, label),
        caller=caller.caller(),
        label=label,
    )
    recorded_graphs.note_program(exported, request.options, label, plan)
    with spans.timed("send", label):
        call = rpc.client().compile(request)
    waits = chosen.wait == "program"
    return CompiledGraph(module, exported, call, label, plan, waits=waits).callable()


def _graphed_parts(
    module: fx.GraphModule, static: set[int], plan: Plan
) -> tuple[Cut, list[Exported]] | None:
    """A graph cut at what keeps it from being captured; None where it is better left whole."""
    try:
        parts = cut(module, static)
        if parts is None:
            return None
        with STATS.timed("export_seconds"), spans.timed("export"):
            exported = [export.export(part.module, part.static) for part in parts.parts]
    except Exception as error:  # the whole graph has been exported, and serves
        log.debug("not cut at what no CUDA graph can hold (%s): %r", plan.obstacle, error)
        return None
    return parts, exported


def _send_parts(
    parts: Cut,
    exported: list[Exported],
    plan: Plan,
    chosen: options.Options,
    label: str,
) -> Boxed:
    """Asks for the programs of all parts, which are compiled side by side."""
    graphed_program.refuse(plan.obstacle)
    STATS.add("cuda_graph_cuts")
    runs = []
    for number, (part, one) in enumerate(zip(parts.parts, exported, strict=True)):
        capture = None
        if not part.obstacle:
            capture = plan_of(part.module, part.static, plan.index, plan.reads_last)
        if one.graph.nodes:
            runs.append(_send(part.module, one, chosen, f"{label}, part {number + 1}", capture))
        else:
            runs.append(eager(part.module))
    return parts.callable(runs)


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


def _compile_options(chosen: options.Options, label: str) -> compile_pb2.CompileOptions:
    return compile_pb2.CompileOptions(
        mode=options.MODES[chosen.mode],
        deterministic=chosen.deterministic or torch.are_deterministic_algorithms_enabled(),
        unchecked=options.unchecked(chosen),
        emulate_eager_rounding="emulate_eager_rounding" in options.switched_off(chosen),
        releases_inputs=label.startswith("backward"),
    )
