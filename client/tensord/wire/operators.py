# SPDX-License-Identifier: Apache-2.0
"""The operators of nodes, and which of their calls have no form on the wire."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .. import torch_compat
from ..errors import ExportError
from .call_backs import DISGUISED
from .memory import Span, span, span_of, viewed_input

# They take a boolean that only torch's own symbolic numbers can say.
_ASSERTIONS_OF_NUMBERS = ("aten::_assert_scalar",)
_SQUEEZES = (
    torch.ops.aten.squeeze.default,
    torch.ops.aten.squeeze.dim,
    torch.ops.aten.squeeze.dims,
)

# What is said of a result of which rank_depends_on_data is true.
RANK_OF_DATA = "has as many dimensions as data decides"

# They count from the start of their argument's memory.
STRIDED_VIEWS = (torch.ops.aten.as_strided.default, torch.ops.aten.as_strided_copy.default)


def operator_of(node: fx.Node) -> Any:
    """The OpOverload that a node calls; ExportError for what cannot be a call on the wire."""
    op = node.target
    if DISGUISED in node.meta:
        raise ExportError(f"its result {node.meta[DISGUISED]}")
    if isinstance(op, torch._ops.HigherOrderOperator):
        raise ExportError("a higher-order operator has no form on the wire")
    if not isinstance(op, torch._ops.OpOverload):
        raise ExportError("a Python function has no form on the wire")
    if op._schema.is_mutable and op is not torch.ops.aten.copy_.default:
        raise ExportError("an operator that changes its arguments has no form on the wire")
    target: Any = node.args[0] if node.args else None
    if op is torch.ops.aten.copy_.default and target.op != "placeholder":
        raise ExportError("only inputs can be copied into")
    if torch_compat.eager_refuses_node(node):
        raise ExportError("eager has no kernel for such operands")
    if torch_compat.eager_refuses_number(node):
        raise ExportError("eager refuses to write such a number into integers")
    if op in STRIDED_VIEWS and _reaches_beyond(node):
        raise ExportError("it reaches beyond what the graph knows of its argument's memory")
    if op is torch.ops.aten.as_strided_scatter.default and _is_expanded(*node.args[2:4]):
        raise ExportError("it writes elements more than once: torch raises at it")
    if op is torch.ops.aten.as_strided_scatter.default:
        if not torch_compat.is_known_dense(_value(node.args[0])):
            raise ExportError("it writes among what lies in the gaps of its argument")
        if _writes_beyond(node):
            raise ExportError("it writes beyond what the graph knows of its argument's memory")
    if not op._schema.returns and op._schema.name in _ASSERTIONS_OF_NUMBERS:
        raise ExportError("an assertion of a number has no form on the wire")
    if rank_depends_on_data(node):
        raise ExportError(f"its result {RANK_OF_DATA}")
    return op


def rank_depends_on_data(node: fx.Node) -> bool:
    """True for a squeeze whose result, which leaves the graph, may have another rank than torch
    says: it takes a size that data decides not to be 1. What reads it is compiled for that."""
    if node.target not in _SQUEEZES or any(user.op != "output" for user in node.users):
        return False
    source: Any = node.args[0]
    sizes = source.meta["val"].shape
    if len(node.args) > 1:
        given: Any = node.args[1]
        dims = given if isinstance(given, (list, tuple)) else [given]
        sizes = [sizes[dim] for dim in dims] if len(sizes) > 0 else []
    return any(torch_compat.depends_on_data(size) for size in sizes)


def _reaches_beyond(node: fx.Node) -> bool:
    """True for as_strided that may read what is not its argument's, as only a call knows."""
    root = viewed_input(node.args[0])
    return root is not None and not _within(span_of(node.meta["val"]), span_of(root.meta["val"]))


def _writes_beyond(node: fx.Node) -> bool:
    """True for as_strided_scatter that is known to do so, or may where its argument is no beginning
    of memory: its result keeps its argument's place there. Of a tensor of the graph's own nobody
    else has eager's place, and the daemon refuses the graph."""
    target: Any = node.args[0]
    if viewed_input(target) is None:
        return False
    sizes, strides = node.args[2:4]
    offset = node.args[4] if len(node.args) > 4 else node.kwargs.get("storage_offset")
    known = _value(target)
    first = known.storage_offset() if offset is None else _value(offset)
    part, whole = span(_value(sizes), _value(strides), first), span_of(known)
    if part is None or whole is None:
        return False
    if not isinstance(whole[0], int) or whole[0] > 0:
        return not _within(part, whole)
    return _surely(part[0] < whole[0]) or _surely(part[1] > whole[1])


def _value(argument: Any) -> Any:
    """An argument with the fake values of its nodes."""
    return fx.map_arg(argument, lambda arg: arg.meta["val"])


def _within(part: Span, whole: Span) -> bool:
    """False also where only a call knows."""
    if part is None or whole is None:
        return part is None
    return _surely(part[0] >= whole[0]) and _surely(part[1] <= whole[1])


def _surely(condition: Any) -> bool:
    """Without a guard; False where only a call knows."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def _is_expanded(sizes: Any, strides: Any) -> bool:
    """True where a stride of 0 makes many elements of one."""
    numbers = zip(sizes, strides, strict=True)
    return any(stride == 0 and isinstance(size, int) and size > 1 for size, stride in numbers)
