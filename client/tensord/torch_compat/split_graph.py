# SPDX-License-Identifier: Apache-2.0
"""How torch calls the parts of a graph that it split before it had them compiled: 2.11 to 2.13 do
so for the buckets of DistributedDataParallel (torch._dynamo.backends.distributed)."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import fx

# A call, and which of its results; or ARGUMENTS, and which of the graph's arguments.
Value = tuple[int, int]
ARGUMENTS = -1


@dataclass(frozen=True)
class SplitCall:
    """function: what the backend returned for the part; is_single: the part has one result, and the
    backend's function gives it in a tuple or list."""

    function: Callable[..., Any]
    arguments: tuple[Value, ...]
    is_single: bool


@dataclass(frozen=True)
class SplitGraph:
    """arguments: how many the graph has."""

    arguments: int
    calls: tuple[SplitCall, ...]
    results: tuple[Value, ...]


def bucket_bytes() -> int | None:
    """At how many bytes of gradients torch splits a graph that is captured now; None outside of
    DistributedDataParallel."""
    parallel = sys.modules.get("torch.nn.parallel.distributed")
    module = parallel and parallel.DistributedDataParallel._get_active_ddp_module()
    return int(module.bucket_bytes_cap) if module else None


class _NotSplit(Exception):
    """It is no split graph, or does more than to call its parts."""


def split_graph_of(function: Any) -> SplitGraph | None:
    """What the function that torch made of a split graph calls; None of another."""
    called = getattr(function, "_torchdynamo_orig_callable", function)
    module = getattr(called, "__self__", called)
    if not isinstance(module, fx.GraphModule):
        return None
    try:
        return _split(module)
    except _NotSplit:
        return None


def _split(module: fx.GraphModule) -> SplitGraph:
    arguments = 0
    calls: list[SplitCall] = []
    # Tensors and numbers; calls that give several.
    values: dict[Any, Value] = {}
    several: dict[Any, int] = {}

    def value_of(node: Any) -> Value:
        if not isinstance(node, fx.Node) or node not in values:
            raise _NotSplit
        return values[node]

    for node in module.graph.nodes:
        if node.op == "placeholder":
            values[node] = (ARGUMENTS, arguments)
            arguments += 1
        elif node.op == "call_module" and not node.kwargs:
            part = module.get_submodule(str(node.target))
            if not hasattr(part, "submod"):
                raise _NotSplit
            is_single = bool(getattr(part, "unwrap_singleton_tuple", False))
            if is_single:
                values[node] = (len(calls), 0)
            else:
                several[node] = len(calls)
            takes = tuple(value_of(argument) for argument in node.args)
            calls.append(SplitCall(part.submod, takes, is_single))  # type: ignore[arg-type]
        elif node.op == "call_function" and node.target is operator.getitem:
            of, index = node.args
            if of not in several or not isinstance(index, int):
                raise _NotSplit
            values[node] = (several[of], index)
        elif node.op != "output":
            raise _NotSplit
    results = module.graph.output_node().args[0]
    if not calls or not isinstance(results, (tuple, list)):
        raise _NotSplit
    return SplitGraph(arguments, tuple(calls), tuple(map(value_of, results)))
