# SPDX-License-Identifier: Apache-2.0
"""The thread's state beside what torch's own GlobalStateGuard compares (_native/state_check.h)."""

from __future__ import annotations

import torch

from ...torch_compat import dispatch


def thread_state() -> int:
    """1 for inference mode, plus 2 for hooks of saved tensors, plus 4 for a transform of functorch,
    plus 8 times the number of modes of torch functions."""
    return (
        int(torch.is_inference_mode_enabled())
        + 2 * dispatch.has_saved_tensor_hooks()
        + 4 * dispatch.has_transforms()
        + 8 * dispatch.function_modes()
    )
