# SPDX-License-Identifier: Apache-2.0
"""Which results of a captured graph lie in the memory of what they are views of.

A served graph makes such a result a view by where the program's own result lies, so that a program
that may copy there cannot be served.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..torch_compat.operators import gives_views, named_operator
from ..v1 import frame_pb2, graph_pb2
from .errors import UnrecordableError

# Which give the bits of their memory another meaning: their results may be copies.
_REINTERPRET = (
    "aten::_conj", "aten::_neg_view", "aten::real", "aten::imag", "aten::view_as_complex",
    "aten::view_as_real",
)  # fmt: skip


def check(call: frame_pb2.GraphCall) -> None:
    """Raises UnrecordableError for a view that a program may give as a copy."""
    program = call.forward if call.HasField("forward") else call.inference
    for result, base in _views(call, program):
        if program.graph.symbols:
            # Strides that cannot be proved to be those of the base are made by a copy.
            raise UnrecordableError("a result of the graph is a view of symbolic sizes")
        root = _root(program.graph, program.graph.outputs[result])
        if base is None or root != base:
            raise UnrecordableError("a result of the graph may be a copy of what it is a view of")


_Value = tuple[int, int]  # its number, and which result of a node with several


def _views(
    call: frame_pb2.GraphCall, program: frame_pb2.FrameProgram
) -> Iterator[tuple[int, _Value | None]]:
    """By result that is a view, in whose memory it is to lie; None where the program has no such
    value."""
    inputs = list(program.inputs)
    for result, is_view in enumerate(call.result_is_view):
        if is_view:
            argument = call.result_is_argument[result] - 1
            yield result, (inputs.index(argument), 0) if argument in inputs else None
    for result, number in enumerate(call.result_is_view_of):
        if number:
            yield result, _root(program.graph, program.graph.outputs[number - 1])


def _root(graph: graph_pb2.Graph, output: graph_pb2.Argument) -> _Value | None:
    """In whose memory an output lies; None for what is no tensor, or a constant."""
    made = len(graph.inputs) + len(graph.constants)
    while output.HasField("value"):
        number = output.value.value
        if number < made:
            return (number, 0) if number < len(graph.inputs) else None
        node = graph.nodes[number - made]
        if not _is_view(node):
            return number, output.value.output
        output = node.args[0]
    return None


def _is_view(node: graph_pb2.Node) -> bool:
    """Whether an operator of torch gives its first argument's memory in another shape."""
    if not node.op.startswith("aten::") or node.op in _REINTERPRET or node.overload == "dtype":
        return False
    try:
        return gives_views(named_operator(node.op, node.overload))
    except AttributeError:
        return False
