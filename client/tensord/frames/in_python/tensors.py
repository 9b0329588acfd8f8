# SPDX-License-Identifier: Apache-2.0
"""What a guard asks of a tensor (_native/tensor_check.h)."""

from __future__ import annotations

from builtins import all, isinstance, type, zip  # noqa: UP029
from collections.abc import Callable
from typing import Any

import torch

from ...torch_compat import dispatch

# The attributes by which a user says that a dimension is dynamic.
_MARKS = (
    "_dynamo_dynamic_indices", "_dynamo_weak_dynamic_indices", "_dynamo_unbacked_indices",
    "_dynamo_strict_unbacked_indices", "_dynamo_static_indices",
)  # fmt: skip

_Numbers = tuple[int | None, ...]
# Of a tensor, and what the thread adds to its dispatch keys.
TensorCheck = Callable[[Any, dispatch.ThreadKeys], bool]


def dispatch_keys(tensor: torch.Tensor) -> int:
    """As guards compare them."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError("a tensor is expected")
    return dispatch.dispatched_keys(dispatch.own_keys_of(tensor).raw_repr(), dispatch.thread_keys())


def tensor_check(argument: tuple[Any, ...]) -> TensorCheck:
    """Of (type, dtype, device index, requires_grad, dispatch keys, sizes or None, strides, marks),
    as ReadTensorCheck takes them. To be called where no mode sees torch's functions.

    Raises ValueError or TypeError for another tuple.
    """
    cls, dtype, index, requires_grad, keys, sizes, strides, marks = argument
    if type(dtype) is not torch.dtype or type(marks) is not dict or not issubclass(type(cls), type):
        raise TypeError("a class, a dtype and a dictionary are expected")
    index, keys, requires_grad = int(index), int(keys), bool(requires_grad)
    is_laid = _layout_check(sizes, strides)
    own_keys_of, dispatched_keys = dispatch.own_keys_of, dispatch.dispatched_keys
    is_grad_enabled = torch.is_grad_enabled

    def holds(tensor: Any, of_thread: dispatch.ThreadKeys) -> bool:
        return (
            type(tensor) is cls
            and tensor.dtype is dtype
            and tensor.get_device() == index
            and (tensor.requires_grad and is_grad_enabled()) is requires_grad
            and dispatched_keys(own_keys_of(tensor).raw_repr(), of_thread) == keys
            and is_laid(tensor)
            and (not (own := tensor.__dict__) or _has_marks(own, marks))
        )

    return holds


def _layout_check(sizes: _Numbers | None, strides: _Numbers) -> Callable[[torch.Tensor], bool]:
    """Of sizes and strides, None where any serves."""
    if sizes is None:
        return lambda tensor: True
    if not isinstance(sizes, tuple) or not isinstance(strides, tuple):
        raise TypeError("a tuple of sizes is expected")
    for number in (*sizes, *strides):
        if number is not None and not isinstance(number, int):
            raise TypeError("a tuple of sizes is expected")
    if None not in sizes and None not in strides:
        return lambda tensor: tensor.shape == sizes and tensor.stride() == strides

    rank = len(sizes)

    def holds(tensor: torch.Tensor) -> bool:
        return (
            tensor.dim() == rank
            and _are(tuple(tensor.shape), sizes)
            and _are(tensor.stride(), strides)
        )

    return holds


def _are(numbers: tuple[int, ...], expected: _Numbers) -> bool:
    pairs = zip(numbers, expected, strict=True)
    return all(wanted is None or number == wanted for number, wanted in pairs)


def _has_marks(own: dict[str, Any], marks: dict[str, set[int]]) -> bool:
    """Of marks that were there, what is there must be a part; of others there must be none."""
    return all(
        attribute not in own or (attribute in marks and own[attribute] <= marks[attribute])
        for attribute in _MARKS
    )
