# SPDX-License-Identifier: Apache-2.0
"""Rewrites torch's random operators to counter-based ones (philox.py).

A graph draws one seed per call from the default generator of the device where its numbers are, so
torch.manual_seed rules; on CUDA it is a tensor there, which kernels read and the host never waits
for. The n-th random operator of the graph is stream n under that seed. In training the seed is
saved for backward and everything else is recomputed from it, so a dropout mask costs eight bytes of
memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ... import data_checks, philox, torch_compat
from ...wire import rpc
from ..insertion import argument, arguments, fake_mode_of, inherited_meta, insert_call

aten = torch.ops.aten

# Significant bits of a uniform number in a dtype: more would round up to 1.0.
_UNIFORM_BITS = {torch.float16: 11, torch.bfloat16: 8, torch.float32: 24}
# The widest range of whole numbers that 48 random bits serve: the least likely number of it is then
# at most 2^-16 of its probability off.
_MOST_INTEGERS = 1 << 32
_FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
# In fewer bits a formula may round to a bound that is not to be reached.
_WIDE = (torch.float32, torch.float64)


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
        return _fill(rewriter, kind, argument(node, "size"), value)

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
    if isinstance(p, fx.Node):
        p = _checked(rewriter, data_checks.probability, p)
    elif not _is_number(p) or not 0 <= p <= 1:
        return None
    uniform = rewriter.draw(
        philox.uniform, _size_arguments(rewriter, x), torch.float32, value.device
    )
    compare = aten.lt.Tensor if isinstance(p, fx.Node) else aten.lt.Scalar
    return rewriter.call(
        aten._to_copy.default, rewriter.call(compare, uniform, p), dtype=value.dtype
    )


def _integers(rewriter: _Rewriter, size: Any, bounds: list[Any], value: torch.Tensor) -> Any:
    """Whole numbers in [low, high), each as likely as 48 random bits make it. bounds: both, or the
    higher one, where the other is 0."""
    low, high = bounds if len(bounds) == 2 else (0, bounds[0])
    if not isinstance(low, int) or not isinstance(high, int):
        return None
    if not 0 < high - low <= _MOST_INTEGERS or value.dtype == torch.bool:
        return None
    uniform = rewriter.uniform(size, torch.float64, value.device)
    scaled = rewriter.call(aten.mul.Tensor, uniform, float(high - low))
    whole = rewriter.call(aten.add.Tensor, rewriter.call(aten.floor.default, scaled), float(low))
    return rewriter.call(aten._to_copy.default, whole, dtype=value.dtype)


def _randint(rewriter: _Rewriter, node: fx.Node, value: torch.Tensor) -> Any:
    *bounds, size = arguments(node)
    return _integers(rewriter, size, bounds, value)


def _randint_like(rewriter: _Rewriter, node: fx.Node, value: torch.Tensor) -> Any:
    x, *bounds = arguments(node)
    return _integers(rewriter, _size_arguments(rewriter, x), bounds, value)


# A formula: of the rewriter, a number for each element, and the operator's numbers.
_Formula = Callable[..., fx.Node]


def _scaled(rewriter: _Rewriter, x: fx.Node, add: Any = 0.0, by: Any = 1.0) -> fx.Node:
    """x * by + add, of numbers or tensors."""
    product = x if by == 1.0 else rewriter.call(aten.mul.Tensor, x, by)
    return product if add == 0.0 else rewriter.call(aten.add.Tensor, product, add)


def _between(rewriter: _Rewriter, u: fx.Node, low: float = 0.0, high: float = 1.0) -> fx.Node:
    return _scaled(rewriter, u, low, high - low)


def _negative_log(rewriter: _Rewriter, u: fx.Node) -> fx.Node:
    """-ln(1 - u), exponentially distributed; finite, for u is below 1."""
    negative = rewriter.call(aten.neg.default, u)
    return rewriter.call(aten.neg.default, rewriter.call(aten.log1p.default, negative))


def _exponential(rewriter: _Rewriter, u: fx.Node, rate: float = 1.0) -> fx.Node:
    """Above 0, as eager's: the logarithm of it is finite."""
    positive = rewriter.call(aten.clamp_min.default, _negative_log(rewriter, u), 2.0**-25)
    return rewriter.call(aten.div.Tensor, positive, rate)


def _geometric(rewriter: _Rewriter, u: fx.Node, p: float) -> fx.Node:
    """The number of trials up to the first success: at least one."""
    trials = rewriter.call(aten.div.Tensor, _negative_log(rewriter, u), -math.log1p(-p))
    return rewriter.call(aten.clamp_min.default, rewriter.call(aten.ceil.default, trials), 1)


def _cauchy(rewriter: _Rewriter, u: fx.Node, median: float = 0.0, sigma: float = 1.0) -> fx.Node:
    angle = _scaled(rewriter, u, -math.pi / 2, math.pi)
    return _scaled(rewriter, rewriter.call(aten.tan.default, angle), median, sigma)


def _log_normal(
    rewriter: _Rewriter, n: fx.Node, mean: float = 1.0, deviation: float = 2.0
) -> fx.Node:
    return rewriter.call(aten.exp.default, _scaled(rewriter, n, mean, deviation))


def _checked(rewriter: _Rewriter, check: Any, x: fx.Node) -> fx.Node:
    """`x`, which the kernel looks at; a daemon of before has no such kernels."""
    known = rpc.client().lowers(str(check._schema.name))
    return rewriter.call(check, x) if known else x


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _in_place(kind: str, formula: _Formula, takes: Callable[..., bool]) -> Callable[..., Any]:
    """Operators that fill a tensor: its sizes and dtype, then the formula's numbers. Those that
    `takes` is false of are eager's to refuse."""

    def rewrite(rewriter: _Rewriter, node: fx.Node, value: torch.Tensor) -> Any:
        x, *numbers = arguments(node)
        if value.dtype not in _WIDE:
            return None
        if not all(map(_is_number, numbers)) or not takes(*numbers):
            return None
        drawn = _fill(rewriter, kind, _size_arguments(rewriter, x), value)
        return formula(rewriter, drawn, *numbers)

    return rewrite


def _normal(rewriter: _Rewriter, node: fx.Node, value: torch.Tensor) -> Any:
    """normal of a mean and a deviation, of which one or both are tensors."""
    mean, *rest = arguments(node)
    deviation: Any = rest[0] if rest else 1.0
    given = [x for x in (mean, deviation) if isinstance(x, fx.Node)]
    if value.dtype not in _WIDE or not given:
        return None
    if any(x.meta["val"].dtype != value.dtype for x in given):
        return None
    whole = next((x for x in given if x.meta["val"].shape == value.shape), None)
    if whole is None:
        return None
    if isinstance(deviation, fx.Node):
        deviation = _checked(rewriter, data_checks.deviation, deviation)
    elif not _is_number(deviation) or not deviation >= 0:
        return None
    drawn = _fill(rewriter, "normal", _size_arguments(rewriter, whole), value)
    return _scaled(rewriter, drawn, mean, deviation)


def _normal_of_size(rewriter: _Rewriter, node: fx.Node, value: torch.Tensor) -> Any:
    mean, deviation, size = arguments(node)[:3]
    if value.dtype not in _WIDE or not _is_number(deviation) or not deviation >= 0:
        return None
    return _scaled(rewriter, _fill(rewriter, "normal", size, value), mean, deviation)


def _rrelu(rewriter: _Rewriter, node: fx.Node, value: Any) -> Any:
    """x where it is positive, elsewhere x by a slope between two bounds; and the slopes."""
    x, _, *rest = arguments(node)
    low, high, train = (*rest, *(1 / 8, 1 / 3, False)[len(rest) :])[:3]
    like = x.meta["val"]
    if not train or like.dtype not in _WIDE or low > high:
        return None
    drawn = _fill(rewriter, "uniform", _size_arguments(rewriter, x), like)
    slopes = _between(rewriter, drawn, low, high)
    is_positive = rewriter.call(aten.gt.Scalar, x, 0)
    noise = rewriter.call(aten.masked_fill.Scalar, slopes, is_positive, 1)
    return (rewriter.call(aten.mul.Tensor, x, noise), noise)


_TABLE: dict[Any, Callable[[_Rewriter, fx.Node, Any], Any]] = {
    aten.native_dropout.default: _native_dropout,
    aten.rand.default: _sized("uniform"),
    aten.randn.default: _sized("normal"),
    aten.rand_like.default: _like("uniform"),
    aten.randn_like.default: _like("normal"),
    aten.bernoulli.default: _bernoulli,
    aten.bernoulli.p: _bernoulli,
    aten.uniform.default: _in_place("uniform", _between, lambda low=0.0, high=1.0: low <= high),
    aten.exponential.default: _in_place("uniform", _exponential, lambda rate=1.0: rate > 0),
    aten.geometric.default: _in_place("uniform", _geometric, lambda p: 0 < p < 1),
    aten.cauchy.default: _in_place("uniform", _cauchy, lambda median=0.0, sigma=1.0: sigma > 0),
    aten.log_normal.default: _in_place(
        "normal", _log_normal, lambda mean=1.0, deviation=2.0: deviation > 0
    ),
    aten.normal_functional.default: _in_place(
        "normal", _scaled, lambda mean=0.0, deviation=1.0: deviation >= 0
    ),
    aten.normal.Tensor_float: _normal,
    aten.normal.float_Tensor: _normal,
    aten.normal.Tensor_Tensor: _normal,
    aten.normal.float_float: _normal_of_size,
    aten.randint.default: _randint,
    aten.randint.low: _randint,
    aten.randint_like.default: _randint_like,
    aten.randint_like.low_dtype: _randint_like,
    aten.rrelu_with_noise_functional.default: _rrelu,
}

OPERATORS = frozenset(_TABLE)


def counter_based_random(module: fx.GraphModule) -> int:
    """Rewrites a joint or inference graph in place; the number of operators rewritten.

    An operator with a generator, an unusual dtype, one that eager refuses, or a result that would
    be laid out otherwise than eager's stays as it is and runs as torch's own.
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
        if node.kwargs.get("generator") is not None or torch_compat.eager_refuses_node(node):
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
