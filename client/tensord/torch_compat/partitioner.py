# SPDX-License-Identifier: Apache-2.0
"""What the partitioner saves for backward, and what it computes again."""

from __future__ import annotations

import contextlib
import functools
from typing import Any

from torch import fx


@functools.cache
def let_partitioner_recompute(ops: tuple[Any, ...], only_fused: tuple[Any, ...] = ()) -> None:
    """Tells the min-cut partitioner that `ops` (overload packets) are cheap to compute again, and
    that `only_fused` fuse as they do, but are not.

    2.11 to 2.13: get_default_op_list() makes the lists anew for every graph, so it is wrapped once.
    Where it is missing, the partitioner saves the random tensors instead: correct, but larger.
    """
    from torch._functorch import partitioners

    original = getattr(partitioners, "get_default_op_list", None)
    if original is None:
        return

    @functools.wraps(original)
    def extended() -> Any:
        types = original()
        types.recomputable_ops.update(ops)
        types.fusible_ops.update(ops, only_fused)
        return types

    partitioners.get_default_op_list = extended


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
