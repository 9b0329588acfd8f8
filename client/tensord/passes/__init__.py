# SPDX-License-Identifier: Apache-2.0
"""Passes over graphs in the job, and the table of them all.

Which side a pass belongs to: here is only what must be decided before a training graph is cut into
forward and backward, since no program of the daemon sees both: what saves memory between them, what
both profit from, what autograd or the partitioner must be told. And what the wire format has no
form for. Everything else is a rewrite of the compiler's (compiler/rewrite, in C++), where it is
verified and timed, and serves every client.

A graph goes through three stages:

- captured: what Dynamo captured, calls of Python functions, with the bodies of its higher-order
  operators. Forward and backward both profit from what is done here.
- joint: forward and backward as one graph of ATen operators, before the partitioner cuts it.
- partitioned: what is exported, a forward, a backward or an inference graph.

A pass is a file in the folder of its stage, with one function of the file's name, and one line in
the table. runner.py runs them and says what becomes of one that fails.
"""

from __future__ import annotations

from collections.abc import Container

from torch import fx

from . import runner
from .captured import (
    attention,
    attention_masks,
    flex_attention,
    grouped_query_attention,
    mask_layouts,
    merged_products,
    shared_heads,
)
from .joint import (
    batch_norm_relu,
    batch_norm_results,
    chained_norms,
    changed_arguments,
    channels_last,
    common_subexpressions,
    compared_extrema,
    complex_numbers,
    counter_based_random,
    embedding_bags,
    misstated_sizes,
    pool_offsets,
    relu_masks,
    softmax_statistics,
    strided_bases,
    symbolic_numbers,
)
from .partitioned import (
    absent_gradients,
    in_place_operators,
    late_waits,
    move_constants_to_device,
    tensors_of_numbers,
    unlift_effect_tokens,
    views_of_arguments,
)
from .runner import Outcome, Pass, Snapshot, Stage

__all__ = ["TABLE", "Outcome", "Pass", "Snapshot", "Stage", "run"]

# In order, stage by stage.
TABLE: tuple[Pass, ...] = (
    # Hand-written attention becomes one call of scaled_dot_product_attention.
    Pass(
        "attention",
        "captured",
        attention.attention,
        devices=("cuda",),
        switch="attention",
        counter="attention_fused",
    ),
    # Masks that depend on no input: dropped where they mask nothing, is_causal where they are that.
    Pass(
        "attention_masks",
        "captured",
        attention_masks.attention_masks,
        devices=("cuda",),
        switch="attention",
        counter="masks_simplified",
    ),
    # Masks whose rows are in pieces, which fused kernels refuse.
    Pass(
        "mask_layouts",
        "captured",
        mask_layouts.mask_layouts,
        devices=("cuda",),
        switch="attention",
        counter="masks_packed",
    ),
    # Keys and values that are repeated for groups of queries' heads go in as they are.
    Pass(
        "grouped_query_attention",
        "captured",
        grouped_query_attention.grouped_query_attention,
        devices=("cuda",),
        switch="attention",
        counter="heads_grouped",
    ),
    # One head of keys and values for all of the queries'.
    Pass(
        "shared_heads",
        "captured",
        shared_heads.shared_heads,
        devices=("cuda",),
        switch="attention",
        counter="heads_shared",
    ),
    # FlexAttention's functions of scores and masks fuse with its softmax.
    Pass(
        "flex_attention",
        "captured",
        flex_attention.flex_attention,
        operators=flex_attention.OPERATORS,
        counter="flex_attentions",
    ),
    # Linear layers of one input become one. Behind attention's, whose calls it looks for.
    Pass(
        "merged_products",
        "captured",
        merged_products.merged_products,
        devices=("cuda",),
        switch="merged_products",
        counter="products_merged",
    ),
    # Random numbers that backward can draw again, from a seed that forward saves.
    Pass(
        "counter_based_random",
        "joint",
        counter_based_random.counter_based_random,
        operators=counter_based_random.OPERATORS,
        switch="eager_random",
    ),
    # Convolutions compute on channels-last memory, as tensor cores do.
    Pass(
        "channels_last",
        "joint",
        channels_last.channels_last,
        operators=channels_last.OPERATORS,
        counter="channels_last",
    ),
    # Of a log-softmax of long rows two numbers a row are saved.
    Pass(
        "softmax_statistics",
        "joint",
        softmax_statistics.softmax_statistics,
        operators=softmax_statistics.OPERATORS,
        switch="emulate_eager_rounding",
    ),
    # Max pooling saves a byte for each result.
    Pass(
        "pool_offsets",
        "joint",
        pool_offsets.pool_offsets,
        devices=pool_offsets.DEVICES,
        operators=pool_offsets.OPERATORS,
    ),
    # Backward computes a batch norm again rather than read the ReLU behind it.
    Pass(
        "batch_norm_relu",
        "joint",
        batch_norm_relu.batch_norm_relu,
        operators=batch_norm_relu.OPERATORS,
        counter="relus_recomputed",
    ),
    # Of other ReLUs truth values may be saved.
    Pass("relu_masks", "joint", relu_masks.relu_masks, operators=relu_masks.OPERATORS),
    # The partitioner may have batch norms computed again. Behind the one that looks for ReLUs' own.
    Pass(
        "batch_norm_results",
        "joint",
        batch_norm_results.batch_norm_results,
        operators=batch_norm_results.OPERATORS,
    ),
    # Backward computes a layer norm again rather than read it where another norm reads it.
    Pass(
        "chained_norms",
        "joint",
        chained_norms.chained_norms,
        operators=chained_norms.OPERATORS,
        counter="norms_recomputed",
    ),
    # Views by offset, of the memory that they count from. Before a part of it is saved.
    Pass("strided_bases", "joint", strided_bases.strided_bases, operators=strided_bases.OPERATORS),
    # Real numbers that only a call knows, as tensors of one element.
    Pass("symbolic_numbers", "joint", symbolic_numbers.symbolic_numbers),
    # Conjugates that kernels can compute with.
    Pass("complex_numbers", "joint", complex_numbers.complex_numbers),
    # Before the partitioner counts what to save, and instead of its own, which is slow to load.
    Pass("common_subexpressions", "joint", common_subexpressions.common_subexpressions),
    # Elements that equal an extremum are found where forward's own are saved. Behind the merging of
    # subexpressions, which marks would keep apart.
    Pass(
        "compared_extrema",
        "joint",
        compared_extrema.compared_extrema,
        operators=compared_extrema.OPERATORS,
    ),
    # What fake tensors say wrongly and can be said rightly.
    Pass(
        "embedding_bags", "joint", embedding_bags.embedding_bags, operators=embedding_bags.OPERATORS
    ),
    # What no program can be compiled for, since torch is wrong about its sizes. Behind passes that
    # replace nodes, and with the marks in both graphs that are cut from this one.
    Pass(
        "misstated_sizes",
        "joint",
        misstated_sizes.misstated_sizes,
        operators=misstated_sizes.OPERATORS,
    ),
    # Of arguments that forward changes, backward gets what was computed before.
    Pass(
        "changed_arguments",
        "joint",
        changed_arguments.changed_arguments,
        operators=changed_arguments.OPERATORS,
    ),
    # Views of what the graph changes lie as the arguments do. Before passes that replace views.
    Pass(
        "views_of_arguments",
        "partitioned",
        views_of_arguments.views_of_arguments,
        graphs=("forward", "inference"),
        keeps_strides=False,
    ),
    # Random numbers that are kernels' own rather than a library's.
    Pass(
        "counter_based_random",
        "partitioned",
        counter_based_random.counter_based_random,
        operators=counter_based_random.OPERATORS,
        switch="eager_random",
        graphs=("inference",),
    ),
    Pass(
        "strided_bases",
        "partitioned",
        strided_bases.strided_bases,
        operators=strided_bases.OPERATORS,
        graphs=("inference",),
    ),
    Pass(
        "symbolic_numbers", "partitioned", symbolic_numbers.symbolic_numbers, graphs=("inference",)
    ),
    Pass("complex_numbers", "partitioned", complex_numbers.complex_numbers, graphs=("inference",)),
    Pass(
        "misstated_sizes",
        "partitioned",
        misstated_sizes.misstated_sizes,
        operators=misstated_sizes.OPERATORS,
        graphs=("inference",),
    ),
    # Backward without the gradients that are not to be expected.
    Pass(
        "absent_gradients",
        "partitioned",
        absent_gradients.absent_gradients,
        graphs=("backward",),
        switch="absent_gradients",
        counter="gradients_absent",
    ),
    # Operators with effects are called as they are: the wire format has no tokens.
    Pass(
        "unlift_effect_tokens",
        "partitioned",
        unlift_effect_tokens.unlift_effect_tokens,
        operators=unlift_effect_tokens.OPERATORS,
    ),
    # What needs nothing of a collective runs before the wait for it.
    Pass("late_waits", "partitioned", late_waits.late_waits, operators=late_waits.OPERATORS),
    # Operators that change tensors work in place, where these need not be copied.
    Pass(
        "in_place_operators",
        "partitioned",
        in_place_operators.in_place_operators,
        operators=in_place_operators.OPERATORS,
        counter="copies_saved",
    ),
    # A number is no tensor on the wire.
    Pass(
        "tensors_of_numbers",
        "partitioned",
        tensors_of_numbers.tensors_of_numbers,
        operators=tensors_of_numbers.OPERATORS,
    ),
    # CUDA operators find small constants on their own device.
    Pass(
        "move_constants_to_device",
        "partitioned",
        move_constants_to_device.move_constants_to_device,
        devices=("cuda",),
    ),
)


def run(stage: Stage, module: fx.GraphModule, off: Container[str] = (), label: str = "") -> Outcome:
    """The table's passes of a stage over a graph, in place (runner.run)."""
    return runner.run(TABLE, stage, module, off, label)
