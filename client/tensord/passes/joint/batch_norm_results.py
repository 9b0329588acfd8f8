# SPDX-License-Identifier: Apache-2.0
"""Results of batch norms in training, in steps of their own that the partitioner knows to fuse.

A norm is a reduction, so that a partitioner saves what backward wants of its result: beside what
the norm reads, which its own backward wants, and beside the activation's result, which the next
convolution wants, another image for each activation. Written as
(x - mean) * (rstd * weight) + bias, the result is computed again where that costs less than to save
it: x and the statistics are there anyway, and vectors of channels cost nothing. What follows it,
such as an activation and its product with a gate, is computed again as well.
"""

from __future__ import annotations

import functools
import operator
from typing import Any

from torch import fx

from ..insertion import fake_mode_of, have_one_layout, inherited_meta, insert_call
from .batch_norms import NORMS, again_of, norm_of

OPERATORS = frozenset(NORMS)


def batch_norm_results(joint: fx.GraphModule) -> int:
    """Changes a joint graph in place; the number of norms whose results are in steps.

    Norms whose statistics are rounded before they are saved are left, as on CPUs in 16 bits: the
    steps would give other values. So are those of checkpoints, which say themselves what is
    computed again.
    """
    results = joint.graph.find_nodes(op="call_function", target=operator.getitem)
    mode = fake_mode_of(joint.graph)
    return sum(_rewrite_one(joint.graph, result, mode) for result in results if mode is not None)


def _rewrite_one(graph: fx.Graph, result: fx.Node, mode: Any) -> bool:
    norm = norm_of(result)
    if norm is None or not result.users or "recompute" in norm.meta:
        return False
    call = functools.partial(insert_call, graph, mode, inherited_meta(norm))
    with graph.inserting_before(result.next):
        again = again_of(call, norm, result)
    if not have_one_layout(again.meta["val"], result.meta["val"]):
        return False  # what was added is unused, and goes with all else that is
    result.replace_all_uses_with(again)
    return True
