# SPDX-License-Identifier: Apache-2.0
"""Training graphs as tensord cuts them, run in eager, to look at what backward reads."""

from __future__ import annotations

import functools
from typing import Any

from tensord import torch_compat
from tensord.capture import partition
from torch import Tensor, fx
from torch._dynamo.backends.common import aot_autograd
from torch._functorch.aot_autograd import make_boxed_func


class Graphs:
    """A backend that cuts graphs as tensord does and runs them in eager."""

    def __init__(self) -> None:
        self.forward: fx.GraphModule
        self.backward: fx.GraphModule

    def __call__(self, module: fx.GraphModule, inputs: Any) -> Any:
        compilers = {
            f"{short}_compiler": functools.partial(self._keep, which)
            for short, which in (("fw", "forward"), ("bw", "backward"))
        }
        with torch_compat.lower_backward_early():
            return aot_autograd(partition_fn=partition.partition, **compilers)(module, inputs)

    def _keep(self, which: str, module: fx.GraphModule, inputs: Any) -> Any:
        module.graph.lint()
        setattr(self, which, module)
        return make_boxed_func(module.forward)

    def backward_reads(self) -> list[fx.Node]:
        """Images among the inputs of the backward graph, results' gradients apart."""
        nodes = self.backward.graph.find_nodes(op="placeholder")
        return [n for n in nodes if is_image(n) and not n.name.startswith("tangents")]


def is_image(node: fx.Node) -> bool:
    value = node.meta["val"]
    return isinstance(value, Tensor) and value.dim() >= 3
