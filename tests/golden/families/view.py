# SPDX-License-Identifier: Apache-2.0
"""Views."""

from __future__ import annotations

import torch
from recorder import aten, case, prims, rand


def cases() -> None:
    x = rand(4, 6)
    for op in (aten.alias, aten.detach, aten.lift_fresh):
        case(op, x)
    case(aten.view, x, [2, -1, 3])
    case(aten.view, torch.tensor(3.0), [1, 1])
    case(aten._unsafe_view, x, [24])
    case(aten.reshape, x.t(), [3, 8])
    case(aten._reshape_alias, x, [8, 3], [3, 1])
    case(aten.view.dtype, torch.arange(6.0), torch.int32)
    case(aten.expand, rand(4, 1), [2, -1, 5])
    case(prims.broadcast_in_dim, rand(4, 1), [4, 3, 5], [0, 2])
    case(aten.permute, rand(2, 3, 4), [2, 0, -2])
    case(aten.transpose.int, rand(2, 3, 4), 0, -1)
    case(aten.swapaxes, rand(2, 3, 4), 0, -1)
    case(aten.t, x)
    case(aten.t, rand(3))
    case(aten.squeeze, rand(1, 3, 1))
    case(aten.squeeze.dim, rand(1, 3, 1), -1)
    case(aten.squeeze.dim, rand(1, 3, 1), 1)
    case(aten.squeeze.dims, rand(1, 3, 1), [0, 2])
    case(aten.unsqueeze, x, -1)
    case(aten.unsqueeze, x, 0)
    for start, end, step in (
        (1, 5, 1),
        (None, None, 2),
        (-3, -1, 1),
        (0, 2**63 - 1, 4),
        (5, 2, 1),
        (-99, 3, 1),
    ):
        case(aten.slice.Tensor, x, 1, start, end, step)
    case(aten.select.int, x, 1, -2)
    case(aten.select.int, rand(3), 0, 1)
    case(aten.unbind.int, x, 0)
    case(aten.unbind.int, x.t(), 1)
    for name in ("split", "unsafe_split"):
        case(getattr(aten, name).Tensor, x, 4, 1)
        case(getattr(aten, name).Tensor, x, 2, 0)
    case(aten.split_with_sizes, x, [1, 3, 2], -1)
    case(aten.unsafe_split_with_sizes, x, [1, 3], 0)
    case(aten.chunk, x, 4, 1)
    case(aten.unsafe_chunk, x, 3, 0)
    case(aten.as_strided, x, [3, 2], [6, 1], 7)
    case(aten.as_strided, x, [3, 3], [1, 1])
    case(aten.diagonal, x)
    case(aten.diagonal, rand(2, 5, 4), 1, 1, 2)
    case(aten.diagonal, rand(2, 5, 4), -2, -2, -1)
    case(aten.diagonal_scatter, rand(2, 5, 4), rand(2, 3), 1, 1, 2)
    case(aten.diagonal_scatter, rand(4, 4).t(), rand(2), -2)
    case(aten.diagonal_scatter, rand(3, 0), rand(0))
    case(aten.diagonal_scatter, rand(3, 2), rand(0), 5)
    case(aten.view_copy, x, [-1])
    case(aten.as_strided_copy, rand(12), [2, 3], [1, 4], 1)
    case(aten.permute_copy, rand(2, 3, 4), [2, 0, 1])
    case(aten.narrow_copy, rand(5, 3), 0, 1, 3)
    case(aten.narrow_copy, rand(5, 3), 0, -2, 2)
    case(aten.unbind_copy.int, rand(3, 4), 1)
    case(aten.unfold, x, 1, 3, 2)
    case(aten.unfold, rand(7), 0, 4, 1)
