"""Passes over the graph that Dynamo captured, before AOTAutograd: forward and backward profit.

Each is a function of the GraphModule that returns how often it did something; each keeps results up
to rounding, and each is a file of its own. They run on graphs for GPUs only, whose library kernels
they aim at; bodies of higher-order operators (checkpointing) are passed over as well.

Five passes, channels_last, softmax_statistics, pool_offsets, batch_norm_relu and
common_subexpressions, work on the joint graph of forward and backward; partition.py calls them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container
from dataclasses import dataclass

import torch
from torch import fx

from ..counters import STATS
from .captured import attention, attention_masks, grouped_query_attention, merged_products


@dataclass(frozen=True)
class Pass:
    """counter: what counts it in the statistics. option: what turns it off (options.py)."""

    counter: str
    run: Callable[[fx.GraphModule], int]
    option: str


# In order.
PASSES: tuple[Pass, ...] = (
    # Hand-written attention becomes one call of scaled_dot_product_attention.
    Pass("attention_fused", attention.run, "attention"),
    # Masks that depend on no input: dropped where they mask nothing, is_causal where they are that.
    Pass("masks_simplified", attention_masks.run, "attention"),
    # Keys and values that are repeated for groups of queries' heads go in as they are.
    Pass("heads_grouped", grouped_query_attention.run, "attention"),
    # Linear layers of one input become one. Behind attention's, whose calls it looks for.
    Pass("products_merged", merged_products.run, "merged_products"),
)


class Before:
    """The graphs of a module and of its bodies as they were before the passes, to go back to."""

    def __init__(self, *modules: fx.GraphModule) -> None:
        self._graphs = [(module, _copy(module.graph)) for module in modules]

    def restore(self) -> None:
        for module, graph in self._graphs:
            module.graph = graph  # recompiles as well


def run(module: fx.GraphModule, off: Container[str] = ()) -> Before:
    """All passes over a graph but those of options that are off, in place, where it works on a GPU;
    the way back.

    In place, for Dynamo keeps on the graph's nodes and module what AOTAutograd asks for later. What
    a pass raises is raised, and so is what is wrong with the graph behind one, all graphs being as
    they were before the first pass.
    """
    if not _on_gpu(module):
        return Before()
    modules = (module, *_bodies(module))
    before = Before(*modules)
    try:
        for one in modules:
            _run(one, off)
    except Exception:
        before.restore()
        raise
    return before


def _run(module: fx.GraphModule, off: Container[str]) -> None:
    for one in PASSES:
        if one.option not in off and (count := one.run(module)):
            module.graph.lint()
            module.recompile()
            STATS.add(one.counter, count)


def _copy(graph: fx.Graph) -> fx.Graph:
    """A copy of the graph, with what Dynamo keeps on its inputs outside of their `meta`."""
    new = copy.deepcopy(graph)  # of the nodes: what they name is shared
    pairs = zip(graph.find_nodes(op="placeholder"), new.find_nodes(op="placeholder"), strict=True)
    for old, placeholder in pairs:
        if hasattr(old, "_dynamo_source"):
            placeholder._dynamo_source = old._dynamo_source
    return new


def _bodies(module: fx.GraphModule) -> list[fx.GraphModule]:
    return [m for m in module.modules() if isinstance(m, fx.GraphModule) and m is not module]


def _on_gpu(module: fx.GraphModule) -> bool:
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            return True
    return False
