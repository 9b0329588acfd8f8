# SPDX-License-Identifier: Apache-2.0
"""What operators are called, which are better whole, and what torch says of them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

# Operators that are better whole, as one library call, than as the small operators that torch would
# make of them; the daemon runs what it does not lower through torch's dispatcher.
KEEP_WHOLE = frozenset(
    {
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_scaled_dot_product_flash_attention_backward",
        "aten::_scaled_dot_product_efficient_attention_backward",
        "aten::_scaled_dot_product_cudnn_attention_backward",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::embedding_dense_backward",
        "aten::_embedding_bag",
        "aten::upsample_bilinear2d.vec",
        "aten::upsample_bicubic2d.vec",
        "aten::grid_sampler_2d",
        "aten::max_pool2d_with_indices_backward",
        "aten::addmm",
        "aten::baddbmm",
        "aten::mm",
        "aten::bmm",
        "aten::cumsum",
        "aten::cumprod",
    }
)


def operator_name(op: torch._ops.OpOverload) -> str:
    """The name as the daemon has it: aten::sum.dim_IntList; the default overload has no suffix."""
    name = op._schema.name
    return f"{name}.{op._schema.overload_name}" if op._schema.overload_name else name


def named_operator(name: str, overload: str) -> torch._ops.OpOverload:
    """The operator that the daemon has by that name, "aten::sum", and overload, "" for the default
    one. Raises AttributeError."""
    namespace, _, own = name.partition("::")
    packet = getattr(getattr(torch.ops, namespace), own)
    op: torch._ops.OpOverload = getattr(packet, overload or "default")
    return op


def packet_of(node: fx.Node) -> Any:
    """The overload packet that a node calls; what else it calls as it is."""
    return getattr(node.target, "overloadpacket", node.target)


def gives_views(op: torch._ops.OpOverload) -> bool:
    """Whether its results are views of its first argument."""
    returns = op._schema.returns
    return bool(returns) and all(r.alias_info and not r.alias_info.is_write for r in returns)


def target_name(node: fx.Node) -> str:
    """What a node calls, for people."""
    if isinstance(node.target, torch._ops.OpOverload):
        return operator_name(node.target)
    return getattr(node.target, "__name__", str(node.target))


@functools.cache
def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """torch's decompositions to core ATen, {OpOverload: function}; not to be changed."""
    try:  # 2.11 to 2.13: the table without composite operators, which autograd decomposes anyway
        from torch._decomp import _core_aten_decompositions_post_autograd

        return dict(_core_aten_decompositions_post_autograd())
    except ImportError:
        from torch._decomp import core_aten_decompositions

        return dict(core_aten_decompositions().items())


def effect_operators() -> frozenset[Any]:
    """What a graph calls an operator with effects by: with_effects(token, operator, ...)."""
    try:
        from torch._higher_order_ops.effects import with_effects
    except ImportError:
        return frozenset()
    return frozenset({with_effects})


def functionalized_operators() -> frozenset[Any]:
    """What a functional graph calls an operator by that changes its arguments:
    auto_functionalized(op, argument=...), and the same with bases of views."""
    found = (
        getattr(torch.ops.higher_order, name, None)
        for name in ("auto_functionalized", "auto_functionalized_v2")
    )
    return frozenset(op for op in found if op is not None)


# By which argument such a call is told to clone some of the tensors alone: by number, or by name.
_CLONED_BASES, _CLONED_TENSORS = "_only_clone_these_bases", "_only_clone_these_tensors"


def changed_tensors(call: fx.Node) -> tuple[list[fx.Node | None], int]:
    """Of such a call: the tensors that it changes (None for what is none, or is several), and the
    number of the result that the first of them becomes; the others follow. None of what changes
    lists of tensors, or is no operator."""
    op: Any = call.args[0] if call.args else None
    if not isinstance(op, torch._ops.OpOverload):
        return [], 0
    given: Any = [call.kwargs.get(name) for name in _changed_names(op)]
    if "_all_bases" in call.kwargs:
        given = call.kwargs["_all_bases"]
    tensors = [tensor if isinstance(tensor, fx.Node) else None for tensor in given]
    return tensors, max(1, len(op._schema.returns))


def change_in_place(call: fx.Node, number: int) -> None:
    """Lets such a call change that tensor rather than a clone of it."""
    bases = "_all_bases" in call.kwargs
    kept: Any = call.kwargs.get(_CLONED_BASES if bases else _CLONED_TENSORS)
    names = range(len(changed_tensors(call)[0])) if bases else _changed_names(call.args[0])
    cloned = tuple(name for name in (names if kept is None else kept) if name != names[number])
    call.update_kwarg(_CLONED_BASES if bases else _CLONED_TENSORS, cloned)


def changed_in_place(call: fx.Node) -> list[fx.Node]:
    """The tensors of such a call that it changes rather than clones."""
    bases = "_all_bases" in call.kwargs
    cloned: Any = call.kwargs.get(_CLONED_BASES if bases else _CLONED_TENSORS)
    if cloned is None:
        return []
    tensors, _ = changed_tensors(call)
    names = range(len(tensors)) if bases else _changed_names(call.args[0])
    return [
        tensor
        for name, tensor in zip(names, tensors, strict=True)
        if tensor is not None and name not in cloned
    ]


def _changed_names(op: Any) -> list[str]:
    arguments = op._schema.arguments
    return [a.name for a in arguments if a.alias_info is not None and a.alias_info.is_write]


def is_random(node: fx.Node) -> bool:
    """True for operators that draw from a generator."""
    tags = getattr(node.target, "tags", ())
    return torch.Tag.nondeterministic_seeded in tags
