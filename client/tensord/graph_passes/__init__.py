"""Passes over the graph that Dynamo captured, before AOTAutograd: forward and backward profit.

Each is a function of the GraphModule that returns how often it did something; each keeps results up
to rounding, and each is a file of its own. They run on graphs for GPUs only, whose library kernels
they aim at; bodies of higher-order operators (checkpointing) are passed over as well.

Four passes, channels_last, softmax_statistics, pool_offsets and batch_norm_relu, work on the joint
graph of forward and backward; partition.py calls them.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

import torch
from torch import fx

from ..counters import STATS
from . import attention, grouped_heads, masks, merged_products


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
    Pass("masks_simplified", masks.run, "attention"),
    # Keys and values that are repeated for groups of queries' heads go in as they are.
    Pass("heads_grouped", grouped_heads.run, "attention"),
    # Linear layers of one input become one. Behind attention's, whose calls it looks for.
    Pass("products_merged", merged_products.run, "merged_products"),
)


def run(module: fx.GraphModule, off: Container[str] = ()) -> None:
    """All passes over a graph but those of options that are off, in place, where it works on a GPU.

    In place, for Dynamo keeps on the graph's nodes and module what AOTAutograd asks for later. What
    a pass raises is raised, the graph left as it was before that one rewrite.
    """
    if not _on_gpu(module):
        return
    for graph in (module, *_bodies(module)):
        for one in PASSES:
            if one.option in off:
                continue
            before = set(graph.graph.nodes)
            try:
                if count := one.run(graph):
                    STATS.add(one.counter, count)
            except Exception:
                _erase_unused(graph.graph, before)
                raise
            finally:
                graph.recompile()


def _erase_unused(graph: fx.Graph, before: set[fx.Node]) -> None:
    """Erases what a rewrite had begun to put in."""
    for node in reversed(list(graph.nodes)):
        if node not in before and not node.users:
            graph.erase_node(node)


def _bodies(module: fx.GraphModule) -> list[fx.GraphModule]:
    return [m for m in module.modules() if isinstance(m, fx.GraphModule) and m is not module]


def _on_gpu(module: fx.GraphModule) -> bool:
    for node in module.graph.nodes:
        value = node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and value.device.type == "cuda":
            return True
    return False
