# SPDX-License-Identifier: Apache-2.0
"""What is a step smaller than a case, the boldest steps first."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from .capture import snapshot
from .case import Case


def candidates(case: Case) -> Iterator[Case]:
    """Cases that are a step smaller; they need not run in eager."""
    if not case.drawn:
        yield replace(case, drawn=True)
    if case.dynamic is not False:
        yield replace(case, dynamic=False)
    if any(isinstance(v, Tensor) and v.requires_grad for v in case.values.values()):
        yield _without_gradients(case, list(case.values))
    yield from _fewer_outputs(case)
    results = _results(case)
    yield from _shorter(case, results)
    yield from _without_nodes(case, results)
    for name, value in case.values.items():
        if isinstance(value, Tensor) and value.requires_grad:
            yield _without_gradients(case, [name])
    yield from _plainer_inputs(case)
    yield from _smaller_sizes(case)


def key(case: Case) -> str:
    """Equal for equal cases."""
    kinds = [
        (name, v.shape, v.stride(), v.dtype, v.requires_grad) if isinstance(v, Tensor) else v
        for name, v in case.values.items()
    ]
    return f"{case.graph.graph} {kinds} {case.dynamic} {case.drawn}"


# -- values ---------------------------------------------------------------------------------------


class _Recorder(fx.Interpreter):
    """Notes what each node gives."""

    def __init__(self, module: fx.GraphModule) -> None:
        super().__init__(module)
        self.found: dict[str, Any] = {}

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        self.found[n.name] = snapshot([result])[0] if isinstance(result, Tensor) else result
        return result


def _results(case: Case) -> dict[str, Any]:
    """Of each node in eager, by its name."""
    recorder = _Recorder(case.graph)
    given = snapshot([case.values[node.name] for node in case.placeholders])
    gradients = torch.is_grad_enabled()
    try:
        recorder.run(*given)
    finally:
        torch.set_grad_enabled(gradients)
    return recorder.found


def _is_value(value: Any) -> bool:
    return type(value) in (Tensor, torch.nn.Parameter, int, float, bool) and not (
        isinstance(value, Tensor) and value.layout is not torch.strided
    )


# -- graphs ---------------------------------------------------------------------------------------


def _outputs(graph: fx.Graph) -> list[Any]:
    given = graph.output_node().args[0]
    return list(given) if isinstance(given, (tuple, list)) else [given]


def _acts(node: fx.Node) -> bool:
    """True for what is called for more than its result."""
    if node.op == "call_method":
        return str(node.target).endswith("_") and not str(node.target).endswith("__")
    if node.op != "call_function":
        return False
    name = getattr(node.target, "__name__", "")
    if node.target is operator.setitem or name in ("_enter_autocast", "_exit_autocast"):
        return True
    in_place = getattr(operator, name, None) is node.target and name.startswith("i")
    return (in_place and name not in ("invert", "inv", "index", "is_", "is_not", "indexOf")) or (
        name.startswith("_set_") or (name.endswith("_") and not name.endswith("__"))
    )


def _changed(
    case: Case,
    outputs: list[fx.Node] | None = None,
    becomes: dict[fx.Node, fx.Node | None] | None = None,
    values: dict[str, Any] | None = None,
    dropped: frozenset[fx.Node] = frozenset(),
) -> Case:
    """A copy with other outputs, nodes replaced (by None: an argument of the same name, whose value
    is in `values`) or dropped, and without what nothing needs then."""
    old, becomes = case.graph.graph, becomes or {}
    wanted: set[fx.Node] = set()

    def source(node: fx.Node) -> fx.Node:
        seen = node
        while isinstance(other := becomes.get(seen), fx.Node):
            seen = other
        return seen

    results = [source(n) if isinstance(n, fx.Node) else n for n in outputs or _outputs(old)]
    pending = [n for n in results if isinstance(n, fx.Node)]
    pending += [n for n in old.nodes if _acts(n) and n not in dropped and n not in becomes]
    while pending:
        node = pending.pop()
        if node not in wanted:
            wanted.add(node)
            if node not in becomes:
                pending += [source(n) for n in node.all_input_nodes]
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    kept: dict[str, Any] = {}
    for node in old.nodes:
        if node in wanted and (node.op == "placeholder" or node in becomes):
            copies[node] = graph.placeholder(node.name)
            kept[node.name] = (values or {}).get(node.name, case.values.get(node.name))
    for node in old.nodes:
        if node in wanted and node not in copies:
            copies[node] = graph.node_copy(node, lambda n: copies[source(n)])
            copies[node]._rename(node.name)
    graph.output(tuple(copies[n] if isinstance(n, fx.Node) else n for n in results))
    return replace(case, graph=fx.GraphModule(case.graph, graph), values=kept)


def _fewer_outputs(case: Case) -> Iterator[Case]:
    outputs = _outputs(case.graph.graph)
    nodes = [n for n in outputs if isinstance(n, fx.Node)]
    if len(outputs) < 2:
        return
    for node in dict.fromkeys(nodes):
        yield _changed(case, outputs=[node])
    for number in range(len(outputs)):
        yield _changed(case, outputs=outputs[:number] + outputs[number + 1 :])


def _shorter(case: Case, results: dict[str, Any]) -> Iterator[Case]:
    """Without an end of the graph, or without a beginning, whose results become arguments."""
    nodes = [n for n in case.graph.graph.nodes if n.op not in ("placeholder", "output", "get_attr")]
    count = len(nodes)
    for part in (2, 4, 8, 16, 32):
        if count < part:
            break
        for place in range(1, part, 2 if part > 2 else 1):
            position = count * place // part
            given = [n for n in nodes[:position] if _is_value(results.get(n.name))]
            ends = [n for n in given if isinstance(results[n.name], Tensor)]
            if ends:
                dropped = frozenset(n for n in nodes[position:] if _acts(n))
                yield _changed(case, outputs=ends[-1:], dropped=_with_pairs(dropped))
            dropped = frozenset(n for n in nodes[:position] if _acts(n))
            values = {n.name: results[n.name] for n in given}
            yield _changed(
                case, becomes=dict.fromkeys(given), values=values, dropped=_with_pairs(dropped)
            )


def _with_pairs(dropped: frozenset[fx.Node]) -> frozenset[fx.Node]:
    """What ends something goes with what begins it."""
    return dropped | {user for node in dropped for user in node.users if _acts(user)}


def _without_nodes(case: Case, results: dict[str, Any]) -> Iterator[Case]:
    """Outputs replaced by what they use; single nodes left out, or made arguments."""
    outputs = _outputs(case.graph.graph)
    for number, output in enumerate(outputs):
        for used in output.all_input_nodes if isinstance(output, fx.Node) else ():
            if isinstance(results.get(used.name), Tensor):
                yield _changed(case, outputs=[*outputs[:number], used, *outputs[number + 1 :]])
    nodes = [n for n in case.graph.graph.nodes if n.op.startswith("call_")]
    for node in reversed(nodes):
        if _acts(node):
            yield _changed(case, dropped=_with_pairs(frozenset([node])))
        own = results.get(node.name)
        if not isinstance(own, Tensor):
            continue
        for used in node.all_input_nodes:
            value = results.get(used.name)
            if isinstance(value, Tensor) and (value.shape, value.dtype) == (own.shape, own.dtype):
                yield _changed(case, becomes={node: used})
    for node in reversed(nodes):
        if _is_value(results.get(node.name)) and node not in outputs:
            yield _changed(case, becomes={node: None}, values={node.name: results[node.name]})


# -- arguments ------------------------------------------------------------------------------------


def _with_values(case: Case, changes: dict[str, Any]) -> Case:
    return replace(case, values={**case.values, **changes})


def _without_gradients(case: Case, names: list[str]) -> Case:
    tensors = {n: case.values[n] for n in names if isinstance(case.values[n], Tensor)}
    copies = snapshot([t.detach() for t in tensors.values()])
    return _with_values(case, dict(zip(tensors, copies, strict=True)))


def _plainer_inputs(case: Case) -> Iterator[Case]:
    """Contiguous, alone in memory, of float32."""
    for name, value in case.values.items():
        if not isinstance(value, Tensor):
            continue
        follows = value.requires_grad
        plain = value.detach().clone(memory_format=torch.contiguous_format)
        if not value.is_contiguous() or value.untyped_storage().nbytes() > plain.nbytes:
            yield _with_values(case, {name: plain.requires_grad_(follows)})
        if value.is_floating_point() and value.dtype is not torch.float32:
            yield _with_values(case, {name: plain.detach().float().requires_grad_(follows)})


def _smaller_sizes(case: Case) -> Iterator[Case]:
    """All sizes that are one number become another one, in arguments and in what nodes are told."""
    tensors = {n: v for n, v in case.values.items() if isinstance(v, Tensor)}
    sizes = sorted({s for v in tensors.values() for s in v.shape}, reverse=True)
    for size in sizes:
        for smaller in (1, 2, 3, 4, size // 2):
            if smaller < size:
                yield _resized(case, tensors, size, smaller)


def _resized(case: Case, tensors: dict[str, Tensor], old: int, new: int) -> Case:
    changes: dict[str, Any] = {}
    for name, value in tensors.items():
        part = value.detach()
        for dim, size in enumerate(value.shape):
            part = part.narrow(dim, 0, new) if size == old else part
        if part.shape != value.shape:
            changes[name] = part.clone().requires_grad_(value.requires_grad)
    changes |= {n: new for n, v in case.values.items() if type(v) is int and v == old}

    def number(given: Any) -> Any:
        return new if type(given) is int and given == old else given

    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    for node in case.graph.graph.nodes:
        copies[node] = graph.node_copy(node, copies.__getitem__)
        copies[node]._rename(node.name)
        if node.op.startswith("call_"):
            copies[node].args = fx.node.map_aggregate(copies[node].args, number)
            copies[node].kwargs = fx.node.map_aggregate(copies[node].kwargs, number)
    module = fx.GraphModule(case.graph, graph)
    return _with_values(replace(case, graph=module), changes)
