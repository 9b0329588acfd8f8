# SPDX-License-Identifier: Apache-2.0
"""What a ReLU's gradient wants of it: a truth value an element, not a number.

threshold_backward(gradient, x, 0) is where(x <= 0, 0, gradient), and so torch decomposes it for
others. Taken apart, the truth values may be saved where nothing else wants x or the ReLU's result:
behind a ReLU with dropout, backward's products read the dropout's result. Where one of the two is
saved anyway, the partitioner compares that again. A ReLU's result that the caller gets is there
without being saved, and its gradient stays whole; so does that of other thresholds, which
comparisons round to the type of x and thresholds do not.
"""

from __future__ import annotations

import functools

import torch
from torch import fx

from ..insertion import (
    arguments,
    fake_mode_of,
    have_one_layout,
    inherited_meta,
    insert_call,
    source_of,
)

aten = torch.ops.aten

OPERATORS = (aten.threshold_backward.default,)


def relu_masks(joint: fx.GraphModule) -> int:
    """Changes a joint graph in place; the number of gradients that were taken apart."""
    steps = joint.graph.find_nodes(op="call_function", target=OPERATORS[0])
    if not steps or (mode := fake_mode_of(joint.graph)) is None:
        return 0
    given = {source_of(node) for node in joint.graph.output_node().all_input_nodes}
    changed = 0
    for step in steps:
        gradient, read, threshold = arguments(step)
        source = source_of(read)
        if threshold != 0 or source in given:
            continue
        call = functools.partial(insert_call, joint.graph, mode, inherited_meta(step))
        # Beside what it reads, not where backward begins: all that would be kept until then.
        with joint.graph.inserting_before(source.next if source.op == "call_function" else step):
            stops = call(aten.le.Scalar, source, 0)
        with joint.graph.inserting_before(step):
            passed = call(aten.where.ScalarSelf, stops, 0, gradient)
        # What was added is unused otherwise, and goes with all else that is.
        if have_one_layout(passed.meta["val"], step.meta["val"]):
            step.replace_all_uses_with(passed)
            joint.graph.erase_node(step)
            changed += 1
    return changed
