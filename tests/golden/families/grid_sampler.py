# SPDX-License-Identifier: Apache-2.0
"""Images and volumes read at the places of a grid."""

from __future__ import annotations

import torch
from recorder import aten, case, rand, uniform

BILINEAR, NEAREST, BICUBIC = range(3)
ZEROS, BORDER, REFLECTION = range(3)


def cases() -> None:
    for padding in (ZEROS, BORDER, REFLECTION):
        for align_corners in (False, True):
            for mode in (BILINEAR, NEAREST, BICUBIC):
                grid = uniform(2, 3, 5, 2, low=-1.6, high=1.6)
                case(aten.grid_sampler_2d, rand(2, 3, 4, 6), grid, mode, padding, align_corners)
            for mode in (BILINEAR, NEAREST):
                grid = uniform(1, 2, 3, 2, 3, low=-1.6, high=1.6)
                case(aten.grid_sampler_3d, rand(1, 2, 3, 4, 5), grid, mode, padding, align_corners)
    far = uniform(1, 3, 4, 2, low=-9.0, high=9.0)
    case(aten.grid_sampler_2d, rand(1, 2, 1, 3), far, BILINEAR, REFLECTION, True)
    case(aten.grid_sampler_2d, rand(1, 2, 5, 3).double(), far.double(), BICUBIC, REFLECTION, False)
    case(aten.grid_sampler_2d, rand(1, 2, 5, 3).transpose(2, 3), far, BILINEAR, ZEROS, False)
    case(
        aten.grid_sampler_2d,
        rand(1, 2, 5, 3, dtype=torch.bfloat16),
        uniform(1, 3, 4, 2, low=-1.0, high=1.0).bfloat16(),
        NEAREST,
        BORDER,
        False,
        graph_device="CUDA",
    )
