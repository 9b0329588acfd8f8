# SPDX-License-Identifier: Apache-2.0
"""What the partitioner saves for backward, and what it computes again."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

_CONVERT_ELEMENT_TYPE = torch.ops.prims.convert_element_type.default


@functools.cache
def let_partitioner_recompute(
    ops: tuple[Any, ...], only_fused: tuple[Any, ...] = (), views: tuple[Any, ...] = ()
) -> None:
    """Tells the min-cut partitioner that `ops` (overload packets) are cheap to compute again, that
    `only_fused` fuse as they do, but are not, and that `views` cost nothing at all. Casts of what
    fuses with all its readers are no reason to save it as wide as they make it.

    2.11 to 2.13: get_default_op_list() makes the lists anew for every graph, so it is wrapped once,
    and _size_of() beside it. Where they are missing, the partitioner saves the random tensors
    instead: correct, but larger.
    """
    from torch._functorch import partitioners

    original = getattr(partitioners, "get_default_op_list", None)
    original_size = getattr(partitioners, "_size_of", None)
    if original is None or original_size is None:
        return
    is_cast_read_through: Callable[[fx.Node], bool] | None = None  # of the graph at hand

    @functools.wraps(original)
    def extended() -> Any:
        types = original()
        types.recomputable_ops.update(ops, views)
        types.fusible_ops.update(ops, only_fused, views)
        types.view_ops.update(views)
        # A view is never a reason to save what it gives, whoever reads that; nor is such a cast.
        is_view = types.is_view

        def is_cast(node: fx.Node) -> bool:
            return _widens(node) and is_converted_by_readers(node)

        def is_read_through(node: fx.Node) -> bool:
            return is_view(node) or is_cast(node)

        def is_converted_by_readers(node: fx.Node) -> bool:
            return all(
                is_converted_by_readers(user) if is_view(user) else types.is_fusible(user)
                for user in node.users
            )

        nonlocal is_cast_read_through
        is_cast_read_through = is_cast
        types.is_view = is_read_through
        return types

    @functools.wraps(original_size)
    def size(node: fx.Node) -> int:
        # What fuses with all its readers weighs twice in the cut. So does such a cast, which would
        # otherwise weigh no more than what it casts. Others ask for sizes as they are.
        weighs = sys._getframe(1).f_code.co_name == "get_node_weight"
        twice = weighs and is_cast_read_through is not None and is_cast_read_through(node)
        return int(original_size(node)) * (2 if twice else 1)

    partitioners.get_default_op_list = extended
    partitioners._size_of = size


def _widens(node: fx.Node) -> bool:
    """True for casts to types of more bytes."""
    if node.target not in (torch.ops.aten._to_copy.default, _CONVERT_ELEMENT_TYPE):
        return False
    if len(node.all_input_nodes) != 1:  # of a number
        return False
    narrow: Any = node.all_input_nodes[0].meta.get("val")
    wide: Any = node.meta.get("val")
    if not isinstance(narrow, torch.Tensor) or not isinstance(wide, torch.Tensor):
        return False
    return narrow.device == wide.device and narrow.itemsize < wide.itemsize


def subexpressions_are_kept() -> bool:
    """True where the partitioner does not merge common subexpressions: the user switched it off, or
    torch no longer has the setting."""
    from torch._functorch import config

    return not getattr(config, "cse", False)


def keep_subexpressions() -> contextlib.AbstractContextManager[Any]:
    """A block in which the partitioner leaves common subexpressions as they are."""
    from torch._functorch import config

    return config.patch(cse=False)


def must_save(node: fx.Node) -> None:
    """Marks a node of a joint graph: its value is saved for backward, never computed again."""
    from torch.utils.checkpoint import CheckpointPolicy

    node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
