# SPDX-License-Identifier: Apache-2.0
"""The order in which attention tries its kernels, and FlexAttention's operator."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

# The orders in which torch itself tries its attention kernels: SDPBackend's numbers.
_MATH, _FLASH, _EFFICIENT, _CUDNN, _OVERRIDEABLE = range(5)
_ORDERS = (
    [_FLASH, _EFFICIENT, _MATH, _CUDNN, _OVERRIDEABLE],
    [_FLASH, _EFFICIENT, _MATH, _CUDNN],
    [_CUDNN, _FLASH, _EFFICIENT, _MATH],
)


@contextlib.contextmanager
def fastest_attention_first() -> Iterator[None]:
    """A block in which scaled_dot_product_attention takes cuDNN's kernel first, from Hopper on.

    torch chooses while a graph is traced, so the choice is in the graph. Where cuDNN does not serve
    a case, or is switched off, torch goes on to the next; an order that the user set is kept.
    """
    read = getattr(torch._C, "_get_sdp_priority_order", None)
    write = getattr(torch._C, "_set_sdp_priority_order", None)
    if read is None or write is None or not torch.cuda.is_available():
        yield
        return
    before = list(read())
    hopper = torch.cuda.get_device_capability() >= (9, 0)
    if not hopper or before not in _ORDERS:
        yield
        return
    rest = [kernel for kernel in before if kernel != _CUDNN]
    write([_CUDNN, *rest])
    try:
        yield
    finally:
        write(before)


def flex_attention_operators() -> frozenset[Any]:
    """What Dynamo's graphs call FlexAttention by."""
    operator = getattr(torch.ops.higher_order, "flex_attention", None)
    return frozenset() if operator is None else frozenset({operator})


# The operator's arguments, of which the last three may be left out.
_FLEX_ARGUMENTS = (
    *("query", "key", "value", "score_mod", "block_mask", "scale", "kernel_options"),
    *("score_mod_other_buffers", "mask_mod_other_buffers"),
)


@dataclass(frozen=True)
class FlexAttentionCall:
    """A call of FlexAttention's operator. score, mask: nodes that read the functions' graphs, each
    with the arguments that it takes behind its score and places. blocks_of_keys, blocks_of_queries:
    counts and numbers of the partial blocks, and of the whole ones, by the other's blocks; None of
    what the mask has not. block_sizes: queries and keys of a block."""

    query: fx.Node
    key: fx.Node
    value: fx.Node
    score: fx.Node
    mask: fx.Node
    scale: Any
    score_arguments: Sequence[Any]
    mask_arguments: Sequence[Any]
    blocks_of_keys: Sequence[Any]
    blocks_of_queries: Sequence[Any]
    block_sizes: Sequence[Any]


def flex_attention_call(node: fx.Node) -> FlexAttentionCall | None:
    """The parts of a call; None of one that is not as in 2.11 to 2.13. How many block tables are in
    front of the mask's graph differs between these."""
    given: dict[str, Any] = {**dict(zip(_FLEX_ARGUMENTS, node.args, strict=False)), **node.kwargs}
    if len(node.args) > len(_FLEX_ARGUMENTS) or set(given) - set(_FLEX_ARGUMENTS):
        return None
    block_mask = given.get("block_mask")
    if not isinstance(block_mask, (tuple, list)) or not block_mask or "scale" not in given:
        return None
    wanted = (*(given.get(name) for name in _FLEX_ARGUMENTS[:4]), block_mask[-1])
    nodes = [node for node in wanted if isinstance(node, fx.Node)]
    if len(nodes) != len(wanted) or any(node.op != "get_attr" for node in nodes[3:]):
        return None
    query, key, value, score, mask = nodes
    captured = [tuple(given.get(name, ())) for name in _FLEX_ARGUMENTS[-2:]]
    return FlexAttentionCall(
        *(query, key, value, score, mask, given["scale"]),
        score_arguments=captured[0],
        mask_arguments=captured[1],
        # Behind the numbers of queries and keys.
        blocks_of_keys=block_mask[2:6],
        blocks_of_queries=block_mask[6:10],
        block_sizes=block_mask[-3:-1],
    )
