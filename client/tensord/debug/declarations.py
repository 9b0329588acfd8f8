# SPDX-License-Identifier: Apache-2.0
"""Layouts that torch declares and eager does not have, found by a backend that compiles nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, fx

from .. import torch_compat
from . import compare


class DeclaredStrides:
    """A backend for torch.compile that runs AOTAutograd's graphs in eager, and notes whether any
    gave a result with other strides than its declaration, by which every backend compiles."""

    def __init__(self) -> None:
        self.are_others = False

    def __call__(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        from torch._dynamo.backends.common import aot_autograd

        return aot_autograd(fw_compiler=self._look)(module, inputs)

    def _look(self, module: fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        outputs: Any = module.graph.output_node().args[0]
        declared = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in outputs]

        def run(*arguments: Any) -> Any:
            results = module(*arguments)
            self.are_others |= any(map(_differ, declared, results))
            return results

        return run


def _differ(declared: Any, real: Any) -> bool:
    """Where the declaration, at the sizes that it was made for, is of the real result's sizes."""
    if not (isinstance(declared, Tensor) and isinstance(real, Tensor)):
        return False
    if any(t.layout is not torch.strided for t in (declared, real)):
        return False
    sizes, strides = (list(map(_number, of)) for of in (declared.shape, declared.stride()))
    if sizes != list(real.shape) or real.numel() == 0:
        return False
    meant = [stride for size, stride in zip(sizes, strides, strict=True) if size != 1]
    return meant != compare.strides_of(real)


def _number(size: int | torch.SymInt) -> int | None:
    return torch_compat.hint_of(size) if isinstance(size, torch.SymInt) else size
