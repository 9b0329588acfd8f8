# SPDX-License-Identifier: Apache-2.0
"""What torch's dispatcher, its modes and its transforms are told, thread by thread (2.11 to
2.13). Nothing of Dynamo is imported."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

# A block in which no mode and no subclass sees torch's functions; of C, made anew for each block.
WithoutTorchFunctions = torch._C.DisableTorchFunction

# Keys that a thread adds to those of every tensor, and keys that it leaves out, as numbers.
ThreadKeys = tuple[int, int]

own_keys_of = torch._C._dispatch_keys


def thread_keys() -> ThreadKeys:
    """Of the thread that asks, as it is now."""
    included = torch._C._dispatch_tls_local_include_set().raw_repr()
    return included, torch._C._dispatch_tls_local_exclude_set().raw_repr()


@functools.lru_cache(maxsize=1024)
def dispatched_keys(own: int, of_thread: ThreadKeys) -> int:
    """By which an operator of a tensor with those keys is found in that thread.

    own: `own_keys_of(tensor).raw_repr()`.
    """
    keys, included, excluded = map(torch._C.DispatchKeySet.from_raw_repr, (own, *of_thread))
    return int(((keys | included) - excluded).raw_repr())


def has_dispatch_modes() -> bool:
    """Whether the thread has pushed modes of dispatch."""
    return bool(torch._C._len_torch_dispatch_stack() > 0)


def has_transforms() -> bool:
    """Whether the thread is within a transform of functorch."""
    return torch._C._functorch.peek_interpreter_stack() is not None


def has_saved_tensor_hooks() -> bool:
    """Whether the thread has pushed hooks of saved tensors."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True) is not None


function_modes = torch._C._len_torch_function_stack
"""How many modes of torch functions the thread has pushed."""

function_mode_at = torch._C._get_function_stack_at
"""The mode of that number, outermost first."""


def errors_behind(
    gradients: Sequence[torch.Tensor | None], message: str
) -> tuple[torch.Tensor | None, ...]:
    """The gradients, through which autograd goes back to an error of that message."""
    error: Any = torch._C._functions.DelayedError(message.encode(), len(gradients))
    begun = [one if one is None else one.detach().requires_grad_() for one in gradients]
    made: tuple[torch.Tensor | None, ...] = error(*begun)
    return made
