# SPDX-License-Identifier: Apache-2.0
"""Pooling: maxima forward and backward, averages, and as many windows as are wanted."""

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


@later
def volume() -> torch.Tensor:
    """Few different numbers, and NaN, of three dimensions."""
    image = torch.randint(-2, 2, (2, 3, 4, 5, 6)).float()
    image.view(-1)[::17] = math.nan
    return image


def _volumes() -> None:
    for window in (
        ([2], [], [0], [1], False),
        ([3, 2, 1], [2, 1, 3], [1, 1, 0], [1, 2, 1], False),
        ([2, 3, 2], [2], [1], [1], True),
    ):
        case(aten.max_pool3d_with_indices, volume(), *window)
        case(aten.max_pool3d_with_indices, volume()[0].bfloat16(), *window)


def _averages() -> None:
    image = rand(2, 3, 6, 7)
    # image, kernel, stride, padding, ceil_mode, count_include_pad, divisor
    for window in (
        ([3], [2], [1], False, True),
        ([3, 2], [1, 3], [1, 0], False, False),
        ([2], [], [0], True, True),
        ([5], [3], [2], True, False),
        ([5], [3], [2], True, True),
        ([2, 3], [2], [1], False, True, 7),
    ):
        case(aten.avg_pool2d, image, *window)
    case(aten.avg_pool2d, image.bfloat16(), [3], [2], [1])
    case(aten.avg_pool2d, image.double().to(memory_format=torch.channels_last), [3], [2], [1])
    case(aten.avg_pool2d, image[0].transpose(1, 2), [3], [2], [1])
    case(aten.avg_pool3d, rand(2, 3, 4, 5, 6), [2], [], [0])
    case(aten.avg_pool3d, rand(2, 3, 4, 5, 6), [3, 2, 2], [2, 1, 2], [1, 1, 0], True, False)
    case(aten.avg_pool3d, rand(3, 4, 5, 6), [2], [2], [1], False, True, 3)


def _adaptive() -> None:
    for sizes in ([3, 7], [4, 5], [6, 2], [9, 8]):
        case(aten._adaptive_avg_pool2d, rand(2, 3, 6, 7), sizes)
        case(aten.adaptive_max_pool2d, holes(), sizes)
    case(aten._adaptive_avg_pool2d, rand(2, 6, 7).half(), [3, 4])
    case(aten._adaptive_avg_pool3d, rand(2, 3, 4, 5, 6), [2, 3, 4])
    case(aten._adaptive_avg_pool3d, rand(3, 4, 5, 6), [4, 2, 5])
    case(aten.adaptive_max_pool3d, volume(), [2, 3, 4])
    case(aten.adaptive_max_pool3d, volume()[1], [4, 2, 5])


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
    _volumes()
    _averages()
    _adaptive()
    case(aten.max_pool2d_with_indices, (ties() + 2).byte(), [3], [2], [1], [1], False)
