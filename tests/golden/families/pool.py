# SPDX-License-Identifier: Apache-2.0
"""Max pooling, forward and backward."""

from __future__ import annotations

import math

import torch
from recorder import INF, aten, case, later, rand


@later
def ties() -> torch.Tensor:
    """Few different numbers, so that windows have several maxima."""
    return torch.randint(-2, 2, (2, 3, 6, 7)).float()


@later
def holes() -> torch.Tensor:
    """The same with infinities and NaN, and one plane of minus infinity."""
    image = torch.randint(-2, 2, (2, 3, 6, 7)).float()
    image.view(-1)[::5] = -INF
    image.view(-1)[::17] = math.nan
    image[0, 0] = -INF
    return image


@later
def gradient_of(values: torch.Tensor) -> torch.Tensor:
    """In the layout of the results."""
    grad = torch.randn(values.shape).to(values.dtype)
    if values.is_contiguous():
        return grad
    return grad.contiguous(memory_format=torch.channels_last)


def cases() -> None:
    # image, kernel, stride, padding, dilation, ceil_mode
    table = [
        (ties(), [3, 3], [2, 2], [1, 1], [1, 1], False),
        (holes(), [3, 3], [2, 2], [1, 1], [1, 1], False),
        (holes(), [2], [], [0], [1], True),
        (holes().double(), [3, 2], [1, 3], [1, 0], [2, 1], False),
        (holes().bfloat16(), [5], [1], [2], [1], False),
        (ties().half(), [2, 3], [3, 1], [1, 1], [2, 2], True),
        (ties().to(memory_format=torch.channels_last), [3], [2], [0], [1], True),
        (holes().transpose(2, 3), [3], [2], [1], [1], True),
        (ties()[0], [3], [2], [1], [1], False),
        (rand(1, 2, 5, 4), [1], [2], [0], [1], False),
        (torch.empty(0, 2, 4, 4), [2], [2], [0], [1], False),
    ]
    for image, *window in table:
        case(aten.max_pool2d_with_indices, image, *window)
        results = later(aten.max_pool2d_with_indices)(image, *window)
        backward = aten.max_pool2d_with_indices_backward
        case(backward, gradient_of(results[0]), image, *window, results[1], graph_device="CUDA")
    case(aten.max_pool2d_with_indices, ties().long(), [3], [2], [1], [1], False)
    case(aten.max_pool2d_with_indices, (ties() + 2).byte(), [3], [2], [1], [1], False)
