# SPDX-License-Identifier: Apache-2.0
"""AOTAutograd with this package's compilers: one Dynamo graph becomes an inference graph, or a
forward and a backward graph."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from .. import passes, torch_compat
from ..frames import recorded_graphs
from ..options import Options
from ..passes.partitioned.absent_gradients import likely_absent, tangents_of
from ..torch_compat import Boxed
from ..wire import spans
from . import garbage_collection
from .absent_gradients import AbsentGradients
from .compile_graph import compile_graph, exported_program
from .decompositions import decompositions
from .partition import partition


def autograd(chosen: Options, operators: Sequence[str], off: frozenset[str]) -> Callable[..., Any]:
    """AOTAutograd for one Dynamo graph.

    operators: those that the daemon lowers itself. off: the switches of passes that are off.
    """
    absent = AbsentGradients()
    shows_memory = True  # of forward: its values say in whose memory each is

    def compiler(label: str) -> Callable[..., Any]:
        def compile_one(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Boxed:
            fixed = torch_compat.static_input_indices()
            record = recorded_graphs.current()
            if record is not None and label != "backward":
                record.note_forward()
            nonlocal shows_memory
            if label == "forward":
                shows_memory = not _calls_graphs(module)
            donated = torch_compat.take_donations() if label == "backward" else frozenset()
            donated = donated if shows_memory else frozenset()

            def compile_program(module: fx.GraphModule) -> Boxed:
                return compile_graph(
                    module, fixed=fixed, donated=donated, chosen=chosen, label=label
                )

            ran = passes.run("partitioned", module, off, label)
            program = compile_program(module)
            if not ran.changes.get("absent_gradients"):
                return program

            whole = ran.before.graph()

            def with_all() -> fx.GraphModule:
                """Behind the other passes; made anew by each call."""
                made = fx.GraphModule(module, ran.before.graph())
                passes.run("partitioned", made, off | {"absent_gradients"}, label)
                return made

            if record is not None:
                tangents = tangents_of(whole)
                record.note_absent(
                    list(tangents),
                    likely_absent(tangents),
                    lambda: exported_program(
                        with_all(), fixed=fixed, donated=donated, chosen=chosen, label=label
                    ),
                )

            def compile_whole() -> Boxed:
                with garbage_collection.waits(), spans.capturing():
                    return compile_program(with_all())

            return absent.backward(whole, program, compile_whole)

        return compile_one

    inner = torch_compat.autograd(
        fw_compiler=compiler("forward"),
        bw_compiler=compiler("backward"),
        inference_compiler=compiler("inference"),
        partition_fn=functools.partial(partition, off=off),
        decompositions=decompositions(tuple(operators)),
        keep_inference_input_mutations=True,
    )

    def run(module: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        # Both graphs are sent before the first call waits, so the daemon compiles them side by
        # side.
        with torch_compat.lower_backward_early(), torch_compat.fastest_attention_first():
            return absent.spared(inner(module, example_inputs))

    return run


def _calls_graphs(module: fx.GraphModule) -> bool:
    """Whether it calls operators of graphs, whose results may be their arguments' memory without
    that their fake values say so."""
    return any(isinstance(n.target, torch._ops.HigherOrderOperator) for n in module.graph.nodes)
