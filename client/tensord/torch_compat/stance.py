# SPDX-License-Identifier: Apache-2.0
"""What torch.compiler.set_stance has told Dynamo, which is not imported for it."""

from __future__ import annotations

import sys

_EVAL_FRAME = "torch._dynamo.eval_frame"


def has_stance() -> bool:
    """Whether compiled functions are to behave otherwise than usual (2.11 to 2.13)."""
    if _EVAL_FRAME not in sys.modules:
        return False
    stance = sys.modules[_EVAL_FRAME]._stance
    return bool(stance.stance != "default" or stance.backend is not None)


def compiles_autograd() -> bool:
    """Whether backward is captured too (torch._dynamo.config.compiled_autograd), which takes nodes
    of Python apart but not ours of C++."""
    dynamo = sys.modules.get("torch._dynamo")
    return dynamo is not None and bool(dynamo.config.compiled_autograd)
