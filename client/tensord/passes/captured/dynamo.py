# SPDX-License-Identifier: Apache-2.0
"""How Dynamo's graphs spell operations: names, arguments, values, and autocast."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import fx

from .signatures import PARAMETERS

# Names under which the modules below offer what passes look for.
_NAMES = """
matmul bmm mm baddbmm einsum softmax dropout scaled_dot_product_attention
add sub mul div truediv true_divide floordiv mod neg pos abs sign log exp sqrt rsqrt pow
iadd isub imul itruediv
lt le gt ge eq ne and_ or_ xor invert not_ logical_and logical_or logical_not logical_xor
bitwise_and bitwise_or bitwise_not
min max minimum maximum clamp where masked_fill tril triu cumsum diff any all sum
arange ones zeros full eye linspace tensor scalar_tensor ones_like zeros_like full_like
getitem unsqueeze squeeze reshape transpose swapaxes swapdims permute movedim flatten cat stack
flip tile repeat_interleave broadcast_to linear embedding layer_norm gelu addmm
split chunk unbind narrow select unflatten detach clone
square reciprocal sin cos tanh sigmoid erf relu relu6 silu mish elu selu leaky_relu softplus
logsigmoid hardtanh hardswish hardsigmoid glu log1p expm1 exp2 isnan isinf
log_softmax rms_norm normalize mean var std amax amin logsumexp norm
""".split()
# What never returns memory of an argument.
_FRESH = frozenset(
    """
matmul mm addmm baddbmm einsum softmax linear embedding layer_norm gelu
add sub mul truediv floordiv mod neg abs sign log exp sqrt rsqrt pow
lt le gt ge eq ne and_ or_ xor invert logical_and logical_or logical_not logical_xor
where masked_fill tril triu cumsum diff sum cat stack tile repeat_interleave
""".split()
)
_MODULES = (torch, F, operator)
_FUNCTIONS: dict[Any, str] = {
    getattr(module, name): name
    for module in reversed(_MODULES)
    for name in _NAMES
    if hasattr(module, name)
}
_ATTRIBUTES = (
    (torch.ops.aten.numpy_T, "T"),
    (torch.ops.aten.mT, "mT"),
    (torch.ops.aten.matrix_H, "H"),
    (torch.ops.aten.mH, "mH"),
)
# Operators that write into their first operand.
_IN_PLACE_OPERATORS = frozenset(
    """
iadd iand iconcat ifloordiv ilshift imatmul imod imul ior ipow irshift isub itruediv ixor
""".split()
)
_COMMUTATIVE = "add mul and_ or_ xor".split()
_OPERATORS = (
    *_COMMUTATIVE,
    *"sub truediv floordiv mod matmul pow neg abs invert lt le gt ge eq ne getitem".split(),
)
# Spelling -> the name that passes use.
_ALIASES = {
    "bmm": "matmul",
    "div": "truediv",
    "true_divide": "truediv",
    "itruediv": "truediv",
    "imul": "mul",
    "iadd": "add",
    "multiply": "mul",
    "divide": "truediv",
    "swapaxes": "transpose",
    "swapdims": "transpose",
    "view": "reshape",
}
# Before torch 2.13 Dynamo calls some operators as methods: x.__eq__(y), x.__radd__(1).
_ALIASES |= {f"__{name}__": _ALIASES[name] for name in _IN_PLACE_OPERATORS & _ALIASES.keys()}
_ALIASES |= {f"__{name.strip('_')}__": name for name in _OPERATORS}
_ALIASES |= {f"__r{name.strip('_')}__": name for name in _COMMUTATIVE}
_WRITING_METHODS = frozenset({"__setitem__", *(f"__{name}__" for name in _IN_PLACE_OPERATORS)})
# What an operation raises of values that it does not take, where a pass tries it.
REFUSALS = (RuntimeError, TypeError, ValueError, IndexError)
# Methods that only change the dtype or the layout.
CASTS = frozenset({"to", "float", "double", "half", "bfloat16", "type", "type_as", "contiguous"})


def name_of(node: Any) -> str:
    """What a node calls, whichever way it is spelt; "" for what passes do not know."""
    if not isinstance(node, fx.Node):
        return ""
    if node.op == "call_method":
        method = str(node.target)
        return _ALIASES.get(method, method)
    if node.op == "call_function":
        try:
            name = _FUNCTIONS.get(node.target, "")
        except TypeError:  # not hashable
            return ""
        return _ALIASES.get(name, name)
    return ""


def attribute_read(node: fx.Node) -> str:
    """The attribute of its first argument that a node reads, as T; "" for others. From torch 2.14
    on Dynamo calls operators for some."""
    if node.op != "call_function":
        return ""
    if node.target is getattr:
        return str(node.args[1])
    return next((name for packet, name in _ATTRIBUTES if packet is node.target), "")


def argument(node: fx.Node, name: str, default: Any = None) -> Any:
    """An argument by its parameter's name, wherever it is given."""
    place = PARAMETERS[name_of(node)].index(name)
    return node.args[place] if place < len(node.args) else node.kwargs.get(name, default)


def set_argument(node: fx.Node, name: str, value: Any) -> None:
    """Gives an argument another value, where it is given; else as a keyword."""
    place = PARAMETERS[name_of(node)].index(name)
    if place < len(node.args):
        node.update_arg(place, value)
    else:
        node.update_kwarg(name, value)


def tensor_of(node: Any) -> torch.Tensor | None:
    """The fake tensor that Dynamo saw, or None."""
    value = node.meta.get("example_value") if isinstance(node, fx.Node) else None
    return value if isinstance(value, torch.Tensor) else None


def value_of(node: Any) -> torch.Tensor:
    """The fake tensor of a node that is known to have one."""
    value = node.meta["example_value"]
    assert isinstance(value, torch.Tensor)
    return value


def sizes_of(node: Any) -> list[Any] | None:
    """Its sizes, or None."""
    value = tensor_of(node)
    return None if value is None else list(value.shape)


def is_number(value: Any) -> bool:
    """True for a Python number that is part of the graph."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def used_once(node: fx.Node) -> bool:
    """True when one node uses it, and that in one place."""
    if len(node.users) != 1:
        return False
    return sum(argument is node for argument in _arguments(next(iter(node.users)))) == 1


def _arguments(node: fx.Node) -> Sequence[Any]:
    found: list[Any] = []
    fx.node.map_arg((node.args, node.kwargs), found.append)
    return found


def is_last_transpose(node: Any) -> bool:
    """True when the node swaps the last two dimensions of its first argument."""
    value = tensor_of(node)
    if value is None or value.dim() < 2:
        return False
    rank, name = value.dim(), name_of(node)
    if name == "transpose":
        dims = [argument(node, name) for name in ("dim0", "dim1")]
        if not all(isinstance(d, int) for d in dims):
            return False
        return {d % rank for d in dims} == {rank - 2, rank - 1}
    if name == "permute":
        order = node.args[1] if isinstance(node.args[1], (tuple, list)) else node.args[1:]
        order = [d % rank for d in order if isinstance(d, int)]
        return order == [*range(rank - 2), rank - 1, rank - 2]
    attribute = attribute_read(node)
    return attribute == "mT" or (attribute == "T" and rank == 2)


def autocast_dtypes(graph: fx.Graph, device: str) -> dict[fx.Node, torch.dtype | None]:
    """For every node the dtype that autocast runs products in there, or None.

    Autocast around the compiled function is this thread's state; autocast within it is in the
    graph.
    """
    outer = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else None
    stack: list[tuple[fx.Node, torch.dtype | None]] = []
    result = {}
    for node in graph.nodes:
        if node.op == "call_function":
            what = getattr(node.target, "__name__", "")
            if what == "_enter_autocast":
                now = stack[-1][1] if stack else outer
                kind, dtype, enabled = (*node.args, None, True)[:3]
                if kind == device:
                    now = (dtype or torch.get_autocast_dtype(device)) if enabled else None
                stack.append((node, now))
            elif what == "_exit_autocast":
                stack = [entry for entry in stack if entry[0] is not node.args[0]]
        result[node] = stack[-1][1] if stack else outer
    return result


def changed_in_place(graph: fx.Graph) -> set[fx.Node]:
    """Nodes whose memory something may write into: all that a write's target may be a view of."""
    pending = [target for node in graph.nodes if (target := written_by(node)) is not None]
    found: set[fx.Node] = set()
    while pending:
        node = pending.pop()
        if node not in found:
            found.add(node)
            if name_of(node) not in _FRESH or written_by(node) is not None:
                pending.extend(node.all_input_nodes)
    return found


def written_by(node: fx.Node) -> fx.Node | None:
    """The node whose tensor `node` writes into."""
    if node.op == "call_method":
        name = str(node.target)
        writes = name in _WRITING_METHODS or (name.endswith("_") and not name.endswith("__"))
    elif node.op == "call_function":
        name = getattr(node.target, "__name__", "")
        in_operator = getattr(operator, name, None) is node.target
        writes = name == "setitem" or (in_operator and name in _IN_PLACE_OPERATORS)
        writes = writes or (name.endswith("_") and name not in _NAMES and not name.startswith("_"))
        if "inplace" in PARAMETERS.get(name_of(node), ()):
            writes = writes or bool(argument(node, "inplace"))
        writes = writes or bool(node.kwargs.get("inplace"))
        if isinstance(out := node.kwargs.get("out"), fx.Node):
            return out
    else:
        return None
    first = node.args[0] if node.args else None
    return first if writes and isinstance(first, fx.Node) else None


def method(graph: fx.Graph, name: str, *args: Any, **kwargs: Any) -> fx.Node:
    """A new node that calls a method, with its fake value."""
    node = graph.call_method(name, args, kwargs)
    return _with_value(node, lambda self, *rest, **named: getattr(self, name)(*rest, **named))


def function(graph: fx.Graph, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A new node that calls a function, with its fake value."""
    return _with_value(graph.call_function(target, args, kwargs), target)


def _with_value(node: fx.Node, run: Any) -> fx.Node:
    args, kwargs = fx.node.map_arg((node.args, node.kwargs), lambda n: n.meta["example_value"])
    with torch.no_grad():
        node.meta["example_value"] = run(*args, **kwargs)
    return node


def copy_meta(new: fx.Node, old: fx.Node) -> None:
    """A node that stands for another one: its value and its place in the user's source."""
    new.meta = dict(old.meta)
