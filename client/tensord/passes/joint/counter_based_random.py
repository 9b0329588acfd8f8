# SPDX-License-Identifier: Apache-2.0
"""Rewrites torch's random operators to counter-based ones (philox.py).

A graph draws one seed per call from the default generator of the device where its numbers are, so
torch.manual_seed rules; on CUDA it is a tensor there, which kernels read and the host never waits
for. The n-th random operator of the graph is stream n under that seed. In training the seed is
saved for backward and everything else is recomputed from it, so a dropout mask costs eight bytes of
memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ... import philox, torch_compat
from ..insertion import arguments, fake_mode_of, inherited_meta, insert_call

aten = torch.ops.aten

# Significant bits of a uniform number in a dtype: more would round up to 1.0.
_UNIFORM_BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class _Rewriter:
    """One graph's rewriting: its seed per device and its count of streams."""

    def __init__(self, graph: fx.Graph, anchor: fx.Node, fake_mode: Any) -> None:
        self.graph = graph
        self.anchor = anchor  # the seed is drawn here: before every other operator
        self.fake_mode = fake_mode
        self.seeds: dict[torch.device, fx.Node] = {}
        self.streams = 0
        self.inherited: dict[str, Any] = {}  # meta of every node inserted

    def call(self, op: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """Inserts a call at the graph's insert point, with its fake value."""
        return insert_call(self.graph, self.fake_mode, self.inherited, op, *args, **kwargs)

    def seed(self, device: torch.device) -> fx.Node:
        if device not in self.seeds:
            with self.graph.inserting_before(self.anchor):
                node = self.call(philox.seed, device)
            torch_compat.must_save(node)
            self.seeds[device] = node
        return self.seeds[device]

    def draw(self, op: Any, size: Any, dtype: torch.dtype, device: torch.device) -> fx.Node:
        stream = self.streams
        self.streams += 1
        seed = self.seed(device)
        return self.call(op, seed, size, dtype, device, stream)

    def uniform(self, size: Any, dtype: torch.dtype, device: torch.device) -> fx.Node:
        """Uniform in [0, 1) with as many random bits as the dtype has room for, up to 48."""
        first = self.draw(philox.uniform, size, torch.float32, device)
        if dtype == torch.float64:
            second = self.draw(philox.uniform, size, torch.float32, device)
            high = self.call(aten._to_copy.default, first, dtype=dtype)
            low = self.call(aten._to_copy.default, second, dtype=dtype)
            return self.call(aten.add.Tensor, high, self.call(aten.mul.Tensor, low, 2.0**-24))
        bits = _UNIFORM_BITS[dtype]
        if bits == _UNIFORM_BITS[torch.float32]:
            return first
        whole = self.call(aten.floor.default, self.call(aten.mul.Tensor, first, 2.0**bits))
        scaled = self.call(aten.mul.Tensor, whole, 2.0**-bits)
        return self.call(aten._to_copy.default, scaled, dtype=dtype)


def _native_dropout(rewriter: _Rewriter, node: fx.Node, value: Any) -> Any:
    x, p, *rest = arguments(node)
    train = rest[0] if rest else None
    if train is False or not isinstance(p, (int, float)) or not 0 <= p < 1:
        return None  # rare: eager's own operator does it
    like = x.meta["val"]
    uniform = rewriter.draw(
        philox.uniform, _size_arguments(rewriter, x), torch.float32, like.device
    )
    mask = rewriter.call(aten.ge.Scalar, uniform, p)
    kept = rewriter.call(aten.mul.Tensor, x, mask)
    return (rewriter.call(aten.mul.Tensor, kept, 1.0 / (1.0 - p)), mask)


def _like(kind: str) -> Callable[..., Any]:
    def rewrite(rewriter: _Rewriter, node: fx.Node, value: Any) -> Any:
        size = _size_arguments(rewriter, arguments(node)[0])
        return _fill(rewriter, kind, size, value)

    return rewrite


def _sized(kind: str) -> Callable[..., Any]:
    def rewrite(rewriter: _Rewriter, node: fx.Node, value: Any) -> Any:
        return _fill(rewriter, kind, node.args[0], value)

    return rewrite


def _fill(rewriter: _Rewriter, kind: str, size: Any, value: torch.Tensor) -> Any:
    if value.dtype not in _FLOATS:
        return None
    if kind == "uniform":
        return rewriter.uniform(size, value.dtype, value.device)
    return rewriter.draw(philox.normal, size, value.dtype, value.device)


def _bernoulli(rewriter: _Rewriter, node: fx.Node, value: torch.Tensor) -> Any:
    x, *rest = arguments(node)
    p = rest[0] if rest else x
    uniform = rewriter.draw(
        philox.uniform, _size_arguments(rewriter, x), torch.float32, value.device
    )
    compare = aten.lt.Tensor if isinstance(p, fx.Node) else aten.lt.Scalar
    return rewriter.call(
        aten._to_copy.default, rewriter.call(compare, uniform, p), dtype=value.dtype
    )


_TABLE: dict[Any, Callable[[_Rewriter, fx.Node, Any], Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.rand.default: _sized("uniform"),
    aten.randn.default: _sized("normal"),
    aten.rand_like.default: _like("uniform"),
    aten.randn_like.default: _like("normal"),
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
}

OPERATORS = frozenset(_TABLE)


def counter_based_random(module: fx.GraphModule) -> int:
    """Rewrites a joint or inference graph in place; the number of operators rewritten.

    An operator with a generator, an unusual dtype, or a result that would be laid out otherwise
    than eager's stays as it is and runs as torch's own.
    """
    nodes = [n for n in module.graph.nodes if n.op == "call_function" and n.target in _TABLE]
    if not nodes:
        return 0
    fake_mode = fake_mode_of(module.graph)
    if fake_mode is None:
        return 0
    anchor = next(n for n in module.graph.nodes if n.op not in ("placeholder", "get_attr"))
    rewriter = _Rewriter(module.graph, anchor, fake_mode)
    done = 0
    for node in nodes:
        if node.kwargs.get("generator") is not None:
            continue
        before, streams = set(module.graph.nodes), rewriter.streams
        rewriter.inherited = inherited_meta(node)
        with module.graph.inserting_before(node):
            new = _TABLE[node.target](rewriter, node, node.meta["val"])
        if new is not None and _same_layout(new, node):
            _replace(node, new)
            done += 1
            continue
        rewriter.streams = streams
        for extra in reversed(list(module.graph.nodes)):  # undo, but keep the seed's node
            if extra not in before and extra.target is not philox.seed:
                module.graph.erase_node(extra)
    for seed in rewriter.seeds.values():
        if not seed.users:
            module.graph.erase_node(seed)
    return done


def _size_arguments(rewriter: _Rewriter, x: fx.Node) -> list[Any]:
    """The sizes of `x` as arguments: integers, or sym_size nodes where symbolic."""
    return [
        size if isinstance(size, int) else rewriter.call(aten.sym_size.int, x, dim)
        for dim, size in enumerate(x.meta["val"].shape)
    ]


def _same_layout(new: Any, node: fx.Node) -> bool:
    """True where what may leave the graph is laid out as eager promised: the first result, and
    others that are returned. A dropout's mask that is only saved lies as the counter runs."""
    several, value = isinstance(new, tuple), node.meta["val"]
    news, olds = (new, value) if several else ((new,), (value,))
    users = (user for user in node.users if any(reader.op == "output" for reader in user.users))
    returned = {arguments(user)[1] for user in users} if several else set()
    return all(
        news[i].meta["val"].dtype == olds[i].dtype
        and str(news[i].meta["val"].stride()) == str(olds[i].stride())
        for i in {0, *returned}
    )


def _replace(node: fx.Node, new: Any) -> None:
    if isinstance(new, tuple):
        for user in list(node.users):
            user.replace_all_uses_with(new[arguments(user)[1]])
            user.graph.erase_node(user)
    else:
        node.replace_all_uses_with(new)
    node.graph.erase_node(node)
