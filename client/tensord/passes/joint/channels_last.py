# SPDX-License-Identifier: Apache-2.0
"""Convolutions of a training graph in channels-last memory: over the joint graph, before its cut.

Convolutions on tensor cores compute on channels-last memory: of row-major tensors the library makes
transposed copies in every call, forward and backward. At inference the compiler turns regions of a
graph by itself (compiler/rewrite/channels_last.cc). In training, forward and backward are programs
of their own, and what one saves for the other has the layout that the joint graph says. So it is
said here: what goes into convolutions is copied into channels-last memory, or cast into it, and
torch's own rules carry the layout on from operator to operator, until something wants eager's: a
result of the graph, a view that the new layout does not have, an operator that is not known to take
any. That gets a copy as eager has it.

Nothing changes unless it pays: the copies must move less than the library would have transposed.
"""

from __future__ import annotations

import logging
import operator
from typing import Any

import torch
from torch import fx

from ... import torch_compat
from ...torch_compat.operators import packet_of
from ..insertion import arguments, fake_mode_of
from . import layouts

aten = torch.ops.aten
log = logging.getLogger("tensord")

# Convolutions: which arguments are images and, last, filters; and where the groups are.
_CONVOLUTIONS: dict[Any, tuple[tuple[int, ...], int]] = {
    aten.convolution.default: ((0, 1), 8),
    aten.convolution_backward.default: ((0, 1, 2), 9),
}
OPERATORS = frozenset(_CONVOLUTIONS)
# Operators whose result is channels-last when all their images are. So are pointwise ones.
_FOLLOWING = frozenset(
    {
        aten._native_batch_norm_legit,
        aten._native_batch_norm_legit_functional,
        aten._native_batch_norm_legit_no_training,
        aten._batch_norm_with_update_functional,
        aten.native_batch_norm,
        aten.native_batch_norm_backward,
        aten.batch_norm_backward,
        aten.native_group_norm,
        aten.native_group_norm_backward,
        aten.max_pool2d_with_indices,
        aten.max_pool2d_with_indices_backward,
        aten.avg_pool2d,
        aten.avg_pool2d_backward,
        aten._adaptive_avg_pool2d,
        aten._adaptive_avg_pool2d_backward,
        aten.upsample_nearest2d,
        aten.upsample_nearest2d_backward,
        aten.upsample_bilinear2d,
        aten.upsample_bilinear2d_backward,
        aten.cat,
        aten.constant_pad_nd,
    }
)
# Operators that give the same from any layout as fast. So do pointwise ones, views and slices.
_ANY_LAYOUT = frozenset(
    {
        operator.getitem,
        aten._to_copy,
        aten._unsafe_view,
        aten.addmm,
        aten.amax,
        aten.amin,
        aten.baddbmm,
        aten.bmm,
        aten.clone,
        aten.copy_,
        aten.mean,
        aten.mm,
        aten.native_layer_norm,
        aten.native_layer_norm_backward,
        aten.select_backward,
        aten.slice_backward,
        aten.sum,
        aten.var,
        aten.var_mean,
    }
)
_AS_STRIDED = frozenset({aten.as_strided, aten.as_strided_copy, aten.as_strided_scatter})
# What can write channels-last memory itself.
_CASTS = frozenset({aten._to_copy.default, aten.clone.default})

# Tensor cores take channels in runs of 16 bytes: of others, and of very few, the library makes
# padded copies in any layout.
_FEWEST_CHANNELS, _CHANNELS_UNIT = 16, 8


def channels_last(joint: fx.GraphModule, force: bool = False) -> int:
    """Changes a joint graph in place; gives the number of convolutions, forward and backward, that
    it turned.

    What the graph returns keeps its strides. force: for tests, on any device and also where it does
    not pay.
    """
    convolutions = [n for n in joint.graph.nodes if _is_convolution(n)]
    if not convolutions or not (force or _may_pay(convolutions)):
        return 0
    try:
        plan = _Plan(joint.graph, convolutions)
    except _Stays as reason:
        log.debug("convolutions stay as they are: %s", reason)
        return 0
    if not force and plan.copied() >= sum(map(_transposed, convolutions)):
        return 0
    plan.apply()
    return len(convolutions)


class _Stays(Exception):
    """The graph stays as it is, and why."""


# -- whether it pays -------------------------------------------------------------------------------


def _may_pay(convolutions: list[fx.Node]) -> bool:
    """False for what can be told without the copies that the graph would need."""
    tensors = [arg.meta["val"] for node in convolutions for arg in _operands(node)]
    return (
        all(map(_on_tensor_cores, tensors))
        and not torch_compat.symbols_of(tensors)
        # The library's kernels for several groups of several channels each are far slower on
        # channels-last memory.
        and not any(_groups(node) > 1 and _filters(node).shape[1] > 1 for node in convolutions)
    )


def _on_tensor_cores(tensor: torch.Tensor) -> bool:
    if tensor.device.type != "cuda" or not torch.backends.cudnn.enabled:
        return False
    major, _ = torch.cuda.get_device_capability(tensor.device)
    if tensor.dtype == torch.float32:
        return major >= 8 and torch.backends.cudnn.allow_tf32
    return major >= 7 and tensor.dtype in (torch.float16, torch.bfloat16)


def _transposed(node: fx.Node) -> int:
    """Bytes of images that the library transposes for one convolution as it is."""
    out, into = _filters(node).shape[:2]
    if _groups(node) > 1 or min(out, into) < _FEWEST_CHANNELS:
        return 0
    if out % _CHANNELS_UNIT or into % _CHANNELS_UNIT:
        return 0
    result = node.meta["val"]
    images = [arg.meta["val"] for arg in _operands(node)[:-1]]
    # Of a backward step: the gradient of its image, where that is asked for.
    images.append(result if isinstance(result, torch.Tensor) else result[0])
    return sum(layouts.bytes_of(image) for image in images if layouts.is_row_major(image))


# -- what changes ----------------------------------------------------------------------------------


class _Plan:
    """The values that nodes will have, and the copies between them; the graph changes in apply().

    Raises _Stays where the layout comes to something that this pass cannot undo.
    """

    def __init__(self, graph: fx.Graph, convolutions: list[fx.Node]) -> None:
        self.graph = graph
        nodes = list(graph.nodes)
        self.fake_mode = fake_mode_of(graph)
        if self.fake_mode is None:
            raise _Stays("its values are not fake")
        operands = {arg for node in convolutions for arg in _operands(node)}
        self.casts = {n for n in operands if n.target in _CASTS and layouts.is_row_major(_value(n))}
        self.values: dict[fx.Node, Any] = {}  # of nodes whose strides change
        # What is copied into channels-last memory, or back, and who reads the copy.
        self.inside: dict[fx.Node, list[fx.Node]] = {}
        self.outside: dict[fx.Node, list[fx.Node]] = {}
        for node in nodes:
            if node.op == "call_function":
                self._visit(node)
            elif node.op == "output":
                self._read_outside(node)

    def copied(self) -> int:
        """Bytes of all copies. What is cast anyway costs nothing more."""
        return sum(layouts.bytes_of(_value(node)) for node in (*self.inside, *self.outside))

    # -- planning --

    def _visit(self, node: fx.Node) -> None:
        brought = self._brought(node)
        if not brought and node not in self.casts and not self._changed(node):
            return
        value = self._new_value(node, brought) if self._may_change(node) else None
        if value is None:
            self._read_outside(node)
            return
        for arg in brought:
            self.inside.setdefault(arg, []).append(node)
        new, old = _leaves(value), _leaves(_value(node))
        if not all(map(_same_type, new, old)):
            raise _Stays(f"{node.name}: its result depends on the layout")
        # Strides of dimensions of size 1 say nothing; eager's stay.
        kept = [
            b if b is None or layouts.same_memory(a, b) else a
            for a, b in zip(new, old, strict=True)
        ]
        if any(a is not b for a, b in zip(kept, old, strict=True)):
            self.values[node] = kept[0] if isinstance(value, torch.Tensor) else tuple(kept)

    def _brought(self, node: fx.Node) -> list[fx.Node]:
        """Arguments that the node should read in channels-last memory, and that are not in it."""
        if _is_convolution(node):
            return [arg for arg in _operands(node) if not layouts.is_channels_last(self._now(arg))]
        if not any(layouts.is_channels_last(self.values[arg]) for arg in self._changed(node)):
            return []
        images = [arg for arg in node.all_input_nodes if layouts.is_row_major(self._now(arg))]
        if packet_of(node) in _FOLLOWING:
            return images
        if _is_pointwise(node):  # but not what is broadcast
            return [arg for arg in images if _value(arg).shape == _value(node).shape]
        return []

    def _may_change(self, node: fx.Node) -> bool:
        known = all(_value(arg) is not None for arg in node.all_input_nodes)
        return node in self.casts or (known and _takes_any_layout(node))

    def _new_value(self, node: fx.Node, brought: list[fx.Node]) -> Any:
        """What the node gives for what its arguments have become; None for a view that cannot."""
        with self.fake_mode, torch.no_grad():
            copies = {arg: _value(arg).clone(memory_format=torch.channels_last) for arg in brought}
            args, kwargs = fx.node.map_arg(
                (node.args, self._kwargs(node)), lambda arg: copies.get(arg, self._now(arg))
            )
            target: Any = node.target
            try:
                return target(*args, **kwargs)
            except (RuntimeError, ValueError):
                return None

    def _read_outside(self, node: fx.Node) -> None:
        for arg in self._changed(node):
            # A copy has no gaps, which only these two would notice.
            if not layouts.is_dense(_value(arg)) and (
                node.op == "output" or packet_of(node) in _AS_STRIDED
            ):
                raise _Stays(f"{node.name} wants a layout that no copy has")
            self.outside.setdefault(arg, []).append(node)

    def _changed(self, node: fx.Node) -> list[fx.Node]:
        return [arg for arg in node.all_input_nodes if arg in self.values]

    def _now(self, node: fx.Node) -> Any:
        return self.values.get(node, _value(node))

    def _kwargs(self, node: fx.Node) -> dict[str, Any]:
        if node not in self.casts:
            return node.kwargs
        return {**node.kwargs, "memory_format": torch.channels_last}

    # -- the change itself --

    def apply(self) -> None:
        for copied, copy_of in ((self.inside, self._copied), (self.outside, self._copied_back)):
            for node, readers in copied.items():
                copy = copy_of(node)
                for reader in readers:
                    reader.replace_input_with(node, copy)
        for node in self.casts:
            node.kwargs = self._kwargs(node)
        for node, value in self.values.items():
            node.meta["val"] = value
            node.meta.pop("tensor_meta", None)

    def _copied(self, node: fx.Node) -> fx.Node:
        after = node
        if node.op == "placeholder":  # all of them come first
            after = [n for n in self.graph.nodes if n.op == "placeholder"][-1]
        channels_last = (aten.clone.default, {"memory_format": torch.channels_last})
        return self._insert(after, node, channels_last)[-1]

    def _copied_back(self, node: fx.Node) -> fx.Node:
        """A copy with the strides that the node had, without gaps."""
        order = layouts.order(_value(node))
        contiguous = (aten.clone.default, {"memory_format": torch.contiguous_format})
        steps: list[tuple[Any, dict[str, Any]]] = [contiguous]
        if order != sorted(order):
            back = sorted(order, key=order.__getitem__)
            steps = [(aten.permute.default, {"dims": order}), contiguous]
            steps.append((aten.permute.default, {"dims": back}))
        copy = self._insert(node, node, *steps)[-1]
        if layouts.is_dense(_value(node)):
            copy.meta["val"] = _value(node)
        return copy

    def _insert(
        self, after: fx.Node, source: fx.Node, *calls: tuple[Any, dict[str, Any]]
    ) -> list[fx.Node]:
        """Calls behind a node, each on what the one before gives."""
        added: list[fx.Node] = []
        value = self._now(source)
        for op, kwargs in calls:
            with self.graph.inserting_after(added[-1] if added else after):
                node = self.graph.call_function(op, (added[-1] if added else source,), kwargs)
            with self.fake_mode, torch.no_grad():
                value = op(value, **kwargs)
            meta = {k: v for k, v in source.meta.items() if k not in ("val", "tensor_meta")}
            node.meta = {**meta, "val": value}
            added.append(node)
        return added


# -- nodes and values ------------------------------------------------------------------------------


def _value(node: fx.Node) -> Any:
    return node.meta.get("val")


def _is_convolution(node: fx.Node) -> bool:
    return node.target in _CONVOLUTIONS and all(_value(arg).dim() == 4 for arg in _operands(node))


def _operands(node: fx.Node) -> list[fx.Node]:
    return [arguments(node)[i] for i in _CONVOLUTIONS[node.target][0]]


def _filters(node: fx.Node) -> torch.Tensor:
    return _value(_operands(node)[-1])


def _groups(node: fx.Node) -> int:
    return int(arguments(node)[_CONVOLUTIONS[node.target][1]])


def _is_pointwise(node: fx.Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _takes_any_layout(node: fx.Node) -> bool:
    packet = packet_of(node)
    if packet in _FOLLOWING or packet in _ANY_LAYOUT or node.target in _CONVOLUTIONS:
        return True
    # What draws from a generator gives its numbers to elements in the order of memory.
    if packet in _AS_STRIDED or torch_compat.is_random(node):
        return False
    return _is_pointwise(node) or getattr(node.target, "is_view", False)


def _leaves(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _same_type(a: Any, b: Any) -> bool:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return type(a) is type(b)
    return a.dtype == b.dtype and a.shape == b.shape
