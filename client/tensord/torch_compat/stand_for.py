# SPDX-License-Identifier: Apache-2.0
"""What a compiled function or module stands for, as torch._dynamo.run, torch.compiler.disable and
torch.compile look for it: they take the function itself in the place of what compiles it.

2.11 to 2.13, where 2.13 also wants the number of the object that has the attribute, which a copy of
it (functools.wraps) is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def stand_for(compiled: Any, target: Callable[..., Any]) -> Any:
    """The compiled function, from now on in the target's place."""
    compiled._torchdynamo_orig_callable = target
    compiled._torchdynamo_wrapper_id = id(compiled)
    return compiled


class StandsForModule:
    """Of a module that stands for another, its `_orig_mod`: in the place of that one's forward."""

    _orig_mod: Any

    @property
    def _torchdynamo_orig_callable(self) -> Callable[..., Any]:
        forward: Callable[..., Any] = self._orig_mod.forward
        return forward

    @property
    def _torchdynamo_wrapper_id(self) -> int:
        return id(self)
