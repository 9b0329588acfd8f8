# SPDX-License-Identifier: Apache-2.0
"""A captured graph that was split into several, as a SplitGraph of frame.proto, and back."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..torch_compat.eval_frame import without_hook
from ..torch_compat.split_graph import ARGUMENTS, SplitGraph, Value
from ..v1 import frame_pb2
from .errors import UnfitError, UnrecordableError
from .recorded_graphs import record_of


def write(
    split: SplitGraph, name: str
) -> tuple[frame_pb2.SplitGraph, list[frame_pb2.GraphCall]]:  # fmt: skip
    """The order of the calls, and what is called, under names that begin with `name`. Raises
    UnrecordableError."""
    graphs: list[frame_pb2.GraphCall] = []
    first = {ARGUMENTS: 0}  # number of each call's first result
    made = split.arguments
    for number, call in enumerate(split.calls):
        record = record_of(call.function)
        if record is None:
            raise UnrecordableError("a graph runs in eager")
        graphs.append(record.message(f"{name}.{number}"))
        if call.is_single and graphs[-1].results != 1:
            raise UnrecordableError("a part of a split graph has other results than its reader")
        first[number] = made
        made += graphs[-1].results

    def numbers(values: Iterable[Value]) -> list[int]:
        return [first[call] + which for call, which in values]

    return (
        frame_pb2.SplitGraph(
            arguments=split.arguments,
            calls=[
                frame_pb2.SplitGraph.Call(graph=graph.name, arguments=numbers(call.arguments))
                for graph, call in zip(graphs, split.calls, strict=True)
            ],
            results=numbers(split.results),
        ),
        graphs,
    )


def read(
    message: frame_pb2.SplitGraph, graphs: Mapping[str, Callable[..., Any]]
) -> Callable[..., list[Any]]:
    """The whole graph's function. graphs: its parts by name. Raises UnfitError."""
    results = tuple(message.results)
    last_read = {value: i for i, call in enumerate(message.calls) for value in call.arguments}
    calls = []
    for i, call in enumerate(message.calls):
        if call.graph not in graphs:
            raise UnfitError(f"a split graph calls {call.graph!r}, which is none of the frame")
        done = {value for value in call.arguments if last_read[value] == i} - set(results)
        calls.append((graphs[call.graph], tuple(call.arguments), tuple(done)))

    def run(*arguments: Any) -> list[Any]:
        values = list(arguments)
        for function, numbers, done in calls:
            made = function(*[values[number] for number in numbers])
            for number in done:  # its memory may be given back
                values[number] = None
            values.extend(made)
        return [values[number] for number in results]

    return without_hook(run)
