# SPDX-License-Identifier: Apache-2.0
"""Runs passes over a graph, and answers for what they leave.

The same for graphs of all stages. A pass changes the graph in place. What it leaves is checked: the
order of the nodes, the fake values of those that are new, and the graph's arguments and results,
which must be as they were. A pass that raises, or leaves a graph that is not sound, is undone as a
whole: the graph goes back to what it was before the first pass, and the others run again without
it. That is counted as a fallback and said once; under TENSORD_STRICT=1 it is an error.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Container, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import fx

from .. import fallback, torch_compat
from ..counters import STATS
from ..wire import spans

Stage = Literal["captured", "joint", "partitioned"]

# Where nodes carry their fake values.
_VALUES: dict[Stage, str] = {"captured": "example_value", "joint": "val", "partitioned": "val"}


@dataclass(frozen=True)
class Pass:
    """One change of a graph, in place, which keeps results up to rounding.

    name: of its file and its function. run: gives how often it changed something; None for a graph
    that it leaves to torch. devices: it runs where the graph has a tensor on one of these;
    operators: where the graph calls one of these; graphs: on partitioned graphs of these labels
    ("forward", "backward", "inference"). Empty: on any. switch: the option of torch.compile that
    turns it off, as does TENSORD_<SWITCH> (0 for one that is on, 1 for one that is off). counter:
    what counts its changes in tensord.stats(). keeps_strides: results lie as before; only what
    knows better how they lie in eager says otherwise.
    """

    name: str
    stage: Stage
    run: Callable[[fx.GraphModule], int | None]
    devices: Collection[str] = ()
    operators: Collection[Any] = ()
    graphs: Collection[str] = ()
    switch: str | None = None
    counter: str | None = None
    keeps_strides: bool = True


class Snapshot:
    """The graphs of modules as they were, to go back to."""

    def __init__(self, modules: Iterable[fx.GraphModule] = ()) -> None:
        self._graphs = [(module, torch_compat.recorded(module.graph)) for module in modules]

    def restore(self) -> None:
        """Gives the modules equal graphs."""
        for module, make in self._graphs:
            module.graph = make()  # recompiles as well

    def graph(self) -> fx.Graph:
        """One that is equal to the first module's."""
        return self._graphs[0][1]()


@dataclass
class Outcome:
    """What passes did. changes: by the names of those that took the graph, how often each changed
    it. before: the graph before them; empty where none ran."""

    changes: dict[str, int] = field(default_factory=dict)
    before: Snapshot = field(default_factory=Snapshot)


def run(
    table: Iterable[Pass],
    stage: Stage,
    module: fx.GraphModule,
    off: Container[str] = (),
    label: str = "",
) -> Outcome:
    """The table's passes of a stage over a graph, in order. off: switches. label: of a partitioned
    graph.

    In place, for Dynamo keeps on a graph's nodes and module what AOTAutograd asks for later.
    """
    chosen = [
        one
        for one in table
        if one.stage == stage and one.switch not in off and (not one.graphs or label in one.graphs)
    ]
    while True:
        try:
            with spans.timed("passes", label or stage):
                outcome = _run_all(chosen, stage, module, label)
            break
        except _PassFailed as failed:
            chosen.remove(failed.which)
            what = f"the pass {failed.which.name} over the {label or stage} graph"
            fallback.note(failed.error, what, "is left out")
    for one in chosen:
        if one.counter is not None:
            STATS.add(one.counter, outcome.changes.get(one.name, 0))
    return outcome


class UnsoundGraphError(Exception):
    """What a pass left is no graph that can go on."""


class _PassFailed(Exception):
    def __init__(self, which: Pass, error: Exception) -> None:
        super().__init__(which.name)
        self.which, self.error = which, error


def _run_all(chosen: Iterable[Pass], stage: Stage, module: fx.GraphModule, label: str) -> Outcome:
    """Raises _PassFailed, all graphs being as they were."""
    modules = [module]
    if stage == "captured":  # and the bodies of higher-order operators, as of checkpoints
        modules = [each for each in module.modules() if isinstance(each, fx.GraphModule)]
    key = _VALUES[stage]
    outcome = Outcome()
    present = _Present(modules, key)
    snapshot: Snapshot | None = None
    for one in chosen:
        if not present.suits(one):
            continue
        try:
            snapshot = snapshot or Snapshot(modules)
            with spans.timed(one.name):
                counts = [_run_checked(one, each, key, label) for each in modules]
        except Exception as error:
            if snapshot is not None:
                snapshot.restore()
            raise _PassFailed(one, error) from error
        if None not in counts:
            outcome.changes[one.name] = sum(count or 0 for count in counts)
        if any(counts):
            present = _Present(modules, key)
    outcome.before = snapshot or outcome.before
    return outcome


def _run_checked(one: Pass, module: fx.GraphModule, key: str, label: str) -> int | None:
    # Nobody is promised how gradients lie.
    strided = label != "backward" and one.keeps_strides
    before = _Interface(module.graph, key, strided)
    nodes = set(module.graph.nodes)
    count = one.run(module)
    if count:
        module.graph.lint()
        for node in module.graph.nodes:
            if node not in nodes and node.op.startswith("call_") and key not in node.meta:
                raise UnsoundGraphError(f"{node.name}, which it added, has no fake value")
        before.check(_Interface(module.graph, key, strided))
        module.recompile()
    return count


class _Present:
    """What is in graphs: the operators that are called, and the devices of tensors."""

    def __init__(self, modules: Iterable[fx.GraphModule], key: str) -> None:
        self._nodes = [node for module in modules for node in module.graph.nodes]
        self._key = key

    def suits(self, one: Pass) -> bool:
        """True where the pass may have something to do."""
        if one.operators and not any(id(op) in self._operators for op in one.operators):
            return False
        return not one.devices or not self._devices.isdisjoint(one.devices)

    @functools.cached_property
    def _operators(self) -> set[int]:
        """By identity: not all that a graph calls can be hashed."""
        return {id(node.target) for node in self._nodes if node.op == "call_function"}

    @functools.cached_property
    def _devices(self) -> set[str]:
        values = [node.meta.get(self._key) for node in self._nodes]
        return {value.device.type for value in values if isinstance(value, torch.Tensor)}


class _Interface:
    """A graph's arguments and results, as others see them."""

    def __init__(self, graph: fx.Graph, key: str, strided: bool) -> None:
        self.arguments = [str(node.target) for node in graph.find_nodes(op="placeholder")]
        leaves = torch.utils._pytree.tree_leaves(graph.output_node().args[0])
        values = [leaf.meta.get(key) if isinstance(leaf, fx.Node) else leaf for leaf in leaves]
        self.results = [_described(value, strided) for value in values]
        self._values, self._strided = values, strided
        # Effect tokens are of this kind, which nobody reads: None may stand for them.
        self.empty = [isinstance(v, torch.Tensor) and _is_empty(v) for v in values]

    def _sample(self, number: int) -> str:
        return _described(self._values[number], self._strided, torch_compat.sample_of)

    def check(self, now: _Interface) -> None:
        """Raises UnsoundGraphError where a graph that was like this is another one now."""
        if now.arguments != self.arguments:
            raise UnsoundGraphError(f"its arguments were {self.arguments}, are {now.arguments}")
        if len(now.results) != len(self.results):
            raise UnsoundGraphError(f"it had {len(self.results)} results, has {len(now.results)}")
        for number, (old, new) in enumerate(zip(self.results, now.results, strict=True)):
            if self.empty[number] and new == _NOTHING:
                continue
            # A size may be written otherwise.
            if new != old and now._sample(number) != self._sample(number):
                raise UnsoundGraphError(f"its result {number} was {old}, is {new}")


def _is_empty(tensor: torch.Tensor) -> bool:
    """True for a vector without elements; a size that depends on data may not be asked."""
    return tensor.dim() == 1 and isinstance(tensor.shape[0], int) and tensor.shape[0] == 0


def _described(value: Any, strided: bool, size_as: Callable[[Any], Any] = lambda size: size) -> str:
    """Type, sizes and strides of a fake value, as text: comparing symbols would set guards."""
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__} {size_as(value)}"
    kind = f"{value.dtype} {tuple(map(size_as, value.shape))} on {value.device}"
    if value.layout is not torch.strided:
        return f"{kind}, {value.layout}"
    sizes = [str(size) for size in value.shape]  # a constant may come as a symbolic number, too
    if not strided or "0" in sizes:
        return kind
    # Strides of dimensions of size 1 say nothing, and none where there is no element.
    pairs = zip(sizes, value.stride(), strict=True)
    strides = [size_as(stride) for size, stride in pairs if size != "1"]
    return f"{kind}, strides {strides}"


_NOTHING = _described(None, True)
