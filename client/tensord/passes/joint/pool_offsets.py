# SPDX-License-Identifier: Apache-2.0
"""What a max pooling saves for backward: a byte for each result, which says where in its window the
maximum is. Autograd's formula saves an index into the image, of eight bytes.

Nor is the image saved: backward needs its sizes alone.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx

from ..insertion import arguments, fake_mode_of, inherited_meta, insert_call

_aten = torch.ops.aten

OPERATORS = frozenset({_aten.max_pool2d_with_indices.default})
# Where the compiler makes code for pooling, and of how many elements in a window and windows over
# an element (compiler/decompose/operators/windows.h).
DEVICES = ("cuda",)
LARGEST_WINDOW = 27

_LIBRARY = torch.library.Library("tensord", "FRAGMENT")
_WINDOW = "int[] kernel_size, int[] stride, int[] padding, int[] dilation, bool ceil_mode"
# As aten's, but with offsets: the row in the window times its width, plus the column.
_LIBRARY.define(
    f"max_pool2d_with_offsets(Tensor x, {_WINDOW}) -> (Tensor, Tensor)",
    tags=(torch.Tag.pt2_compliant_tag,),
)
# `sizes`: the rows and columns of the image.
_LIBRARY.define(
    f"max_pool2d_offsets_backward(Tensor grad, Tensor offsets, int[] sizes, {_WINDOW},"
    " bool channels_last) -> Tensor",
    tags=(torch.Tag.pt2_compliant_tag,),
)


def _starts(count: int, d: int, window: Sequence[Any], device: torch.device) -> torch.Tensor:
    """The first row (d = 0) or column (d = 1) of each window, broadcast over a plane."""
    starts = torch.arange(count, device=device) * window[1][d] - window[2][d]
    return starts.unsqueeze(1) if d == 0 else starts


def _pool(x: torch.Tensor, *window: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = _aten.max_pool2d_with_indices(x, *window)
    places = indices // x.shape[-1], indices % x.shape[-1]
    row, column = (
        (places[d] - _starts(indices.shape[d - 2], d, window, x.device)) // window[3][d]
        for d in (0, 1)
    )
    return values, (row * window[0][1] + column).to(torch.uint8)


def _pool_fake(x: torch.Tensor, *window: Any) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = _aten.max_pool2d_with_indices(x, *window)
    return values, torch.empty_like(indices, dtype=torch.uint8)


def _image(grad: torch.Tensor, sizes: Sequence[int], channels_last: bool) -> torch.Tensor:
    memory_format = torch.channels_last if channels_last else torch.contiguous_format
    return torch.empty(
        (*grad.shape[:-2], *sizes),
        dtype=grad.dtype,
        device=grad.device,
        memory_format=memory_format,
    )


def _backward(
    grad: torch.Tensor, offsets: torch.Tensor, sizes: Sequence[int], *rest: Any
) -> torch.Tensor:
    *window, channels_last = rest
    offsets = offsets.long()
    inside = offsets // window[0][1], offsets % window[0][1]
    row, column = (
        inside[d] * window[3][d] + _starts(grad.shape[d - 2], d, window, grad.device)
        for d in (0, 1)
    )
    image = _image(grad, sizes, channels_last)
    return _aten.max_pool2d_with_indices_backward(grad, image, *window, row * sizes[1] + column)


def _backward_fake(
    grad: torch.Tensor, offsets: torch.Tensor, sizes: Sequence[int], *rest: Any
) -> torch.Tensor:
    return _image(grad, sizes, rest[-1])


for _name, _real, _fake in (
    ("max_pool2d_with_offsets", _pool, _pool_fake),
    ("max_pool2d_offsets_backward", _backward, _backward_fake),
):
    _LIBRARY.impl(_name, _real, "CompositeExplicitAutograd")
    torch.library.register_fake(f"tensord::{_name}", _fake, lib=_LIBRARY)

pool = torch.ops.tensord.max_pool2d_with_offsets.default
backward = torch.ops.tensord.max_pool2d_offsets_backward.default


def pool_offsets(joint: fx.GraphModule) -> int:
    """Gives each max pooling whose indices backward alone reads offsets instead, in place; the
    number of them.

    Poolings that the compiler leaves to the library, as those of large windows, keep their indices.
    """
    nodes = [n for n in joint.graph.nodes if n.target in OPERATORS]
    plans = [(node, plan) for node in nodes if (plan := _plan(node)) is not None]
    if not plans or (mode := fake_mode_of(joint.graph)) is None:
        return 0
    for node, (window, steps) in plans:
        _rewrite_one(joint.graph, node, window, steps, mode)
    return len(plans)


def _plan(node: fx.Node) -> tuple[tuple[Any, ...], list[fx.Node]] | None:
    """The pooling's window, complete, and its backward steps; None where it stays as it is."""
    x = arguments(node)[0].meta["val"]
    window = _window(*node.args[1:], **node.kwargs)
    readers = [r for user in node.users if user.args[1] == 1 for r in user.users]
    if x.device.type not in DEVICES or not readers or not _is_lowered(x, window):
        return None
    for step in readers:
        if step.target is not _aten.max_pool2d_with_indices_backward.default:
            return None
        _, image, *rest = arguments(step)
        same = image.meta["val"].shape == x.shape and _window(*rest[:5]) == window
        if not same or _channels_last(step) is None:
            return None
    return window, readers


def _window(
    kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: Any = False
) -> tuple[Any, ...]:
    def pair(numbers: Any) -> list[Any]:
        numbers = [numbers] if not isinstance(numbers, (list, tuple)) else list(numbers)
        return numbers * 2 if len(numbers) == 1 else numbers

    return (
        pair(kernel_size),
        pair(stride) or pair(kernel_size),
        pair(padding),
        pair(dilation),
        ceil_mode,
    )


def _is_lowered(x: torch.Tensor, window: tuple[Any, ...]) -> bool:
    kernel, stride, padding, dilation, _ = window
    numbers = (*kernel, *stride, *padding, *dilation, *x.shape[-2:])
    if not all(isinstance(number, int) for number in numbers):
        return False
    spans = [(kernel[d] - 1) * dilation[d] + 1 for d in (0, 1)]
    covering = [-(-spans[d] // stride[d]) for d in (0, 1)]
    return (
        x.is_floating_point()
        and all(dilation[d] <= x.shape[d - 2] for d in (0, 1))
        and max(kernel[0] * kernel[1], covering[0] * covering[1]) <= LARGEST_WINDOW
    )


def _channels_last(step: fx.Node) -> bool | None:
    """How the result of a backward step lies in memory; None where it is in neither format."""
    value = step.meta["val"]
    for channels_last in (False, True):
        if channels_last and value.dim() != 4:
            break
        if value.stride() == _image(value, value.shape[-2:], channels_last).stride():
            return channels_last
    return None


def _rewrite_one(
    graph: fx.Graph, node: fx.Node, window: tuple[Any, ...], steps: list[fx.Node], mode: Any
) -> None:
    call = functools.partial(insert_call, graph, mode)
    with graph.inserting_before(node):
        both = call(_inherited_with_policy(node), pool, node.args[0], *window)
        results = [call(_inherited_with_policy(node), operator.getitem, both, i) for i in range(2)]
    for step in steps:
        grad, image = arguments(step)[:2]
        sizes = list(image.meta["val"].shape[-2:])
        given = (grad, results[1], sizes, *window, _channels_last(step))
        with graph.inserting_before(step):
            step.replace_all_uses_with(call(_inherited_with_policy(step), backward, *given))
        graph.erase_node(step)
    for result in list(node.users):
        result.replace_all_uses_with(results[arguments(result)[1]])
        graph.erase_node(result)
    graph.erase_node(node)


def _inherited_with_policy(node: fx.Node) -> dict[str, Any]:
    """What a checkpoint computes again is computed again in this form too."""
    kept = {"recompute": node.meta["recompute"]} if "recompute" in node.meta else {}
    return {**inherited_meta(node), **kept}
