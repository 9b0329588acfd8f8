# SPDX-License-Identifier: Apache-2.0
"""Concatenation, padding, repetition, and the scatters into slices."""

from __future__ import annotations

import torch
from recorder import aten, case, integers, rand


def cases() -> None:
    x = rand(4, 6)
    case(aten.cat, [x, rand(2, 6)], 0)
    case(aten.cat, [x, rand(4, 1), rand(4, 3)], -1)
    case(aten.cat, [x, rand(0)], 0)
    case(aten.cat, [integers(3), rand(2)])
    case(aten.cat, [x.t(), x.t()], 1)
    case(aten.stack, [x, x + 1], 1)
    case(aten.stack, [torch.tensor(1.0), torch.tensor(2.0)])
    case(aten.constant_pad_nd, x, [1, 2], 1.5)
    case(aten.constant_pad_nd, x, [1, 0, -1, 2])
    case(aten.constant_pad_nd, x, [-1, -2])
    case(aten.constant_pad_nd, integers(2, 3), [0, 1, 1, 1], 7)
    case(aten.constant_pad_nd, x, [0, 0])
    case(aten.repeat, rand(2, 3), [2, 1, 3])
    case(aten.repeat, rand(2, 1), [1, 4])
    case(aten.repeat, rand(2), [1])
    case(aten.flip, x, [0, -1])
    case(aten.flip, rand(3), [0])
    case(aten.roll, x, [2], [1])
    case(aten.roll, x, [-1, 7], [0, 1])
    case(aten.roll, x, [5])
    case(aten.slice_scatter, x, rand(4, 2), 1, 1, 5, 2)
    case(aten.slice_scatter, x, rand(2, 6), 0, -2)
    case(aten.slice_scatter, integers(4), rand(2), 0, 1, 3)
    case(aten.as_strided_scatter, x, rand(2, 3), [2, 3], [8, 2], 1)
    case(aten.as_strided_scatter, rand(12), integers(3), [3], [4])
    case(aten.select_scatter, x, rand(4), 1, -1)
    case(aten.slice_backward, rand(4, 2), [4, 6], 1, 1, 5, 2)
    case(aten.slice_backward, rand(3, 6), [4, 6], 0, 1, 2**63 - 1, 1)
    case(aten.select_backward, rand(4), [4, 6], 1, 2)
