# SPDX-License-Identifier: Apache-2.0
"""Layer, RMS, group and batch normalization, forward and backward."""

from __future__ import annotations

import torch
from recorder import aten, case, channels_last, later, rand, uniform
from torch._decomp.decompositions import _fused_rms_norm_backward

ALL, FIRST, NOT_FIRST = [True, True, True], [True, False, False], [False, True, True]
EPS = 1e-5


def layer_norms() -> None:
    x, w, b = rand(3, 4, 6) + 5, rand(6), rand(6)
    norm = aten.native_layer_norm
    case(norm, x, [6], w, b, EPS, tolerance=1e-4)
    case(norm, x, [6], None, None, EPS, tolerance=1e-4)
    case(norm, x, [6], w, None, EPS, tolerance=1e-4)
    case(norm, x, [4, 6], rand(4, 6), None, EPS, tolerance=1e-4)
    case(norm, x.bfloat16(), [6], w.bfloat16(), b.bfloat16(), EPS, tolerance=3e-2)
    case(norm, x[0, 0], [6], w, b, EPS, tolerance=1e-4)
    case(aten.layer_norm, x, [6], w, b, tolerance=1e-4)
    of_x = later(norm)(x, [6], w, b, EPS)
    mean, rstd, grad = of_x[1], of_x[2], rand(3, 4, 6)
    for mask in (ALL, FIRST, NOT_FIRST):
        case(aten.native_layer_norm_backward, grad, x, [6], mean, rstd, w, b, mask, tolerance=1e-4)
    case(
        aten.native_layer_norm_backward, grad, x, [6], mean, rstd, None, None, FIRST, tolerance=1e-4
    )


def rms_norms() -> None:
    x, w, grad = rand(3, 4, 6) + 5, rand(6), rand(3, 4, 6)
    case(aten._fused_rms_norm, x, [6], w, 1e-6)
    case(aten._fused_rms_norm, x, [6], None, None)
    rstd = later(aten._fused_rms_norm)(x, [6], w, 1e-6)[1]
    for weight, mask in ((w, [True, True]), (None, [True, False])):
        case(
            aten._fused_rms_norm_backward,
            *(grad, x, [6], rstd, weight, mask),
            reference=_fused_rms_norm_backward,
        )
    case(aten.rms_norm, x, [4, 6], rand(4, 6), 1e-6)


def group_norms() -> None:
    image, w, b, grad = rand(2, 6, 3, 4) + 1, rand(6), rand(6), rand(2, 6, 3, 4)
    norm, backward = aten.native_group_norm, aten.native_group_norm_backward
    case(norm, image, w, b, 2, 6, 12, 3, EPS, tolerance=1e-4)
    case(norm, image, None, None, 2, 6, 12, 1, EPS, tolerance=1e-4)
    case(norm, channels_last(2, 6, 3, 4), w, b, 2, 6, 12, 2, EPS, tolerance=1e-4)
    case(aten.group_norm, rand(4, 6), 3, w, b, EPS, tolerance=1e-4)
    of_image = later(norm)(image, w, b, 2, 6, 12, 3, EPS)
    mean, rstd = of_image[1], of_image[2]
    case(backward, grad, image, mean, rstd, w, 2, 6, 12, 3, ALL, tolerance=1e-4)
    case(backward, grad, image, mean, rstd, w, 2, 6, 12, 3, FIRST, tolerance=1e-4)
    case(backward, grad, image, mean, rstd, None, 2, 6, 12, 3, FIRST, tolerance=1e-4)


def batch_norms() -> None:
    image, w, b, grad = rand(2, 6, 3, 4) + 1, rand(6), rand(6), rand(2, 6, 3, 4)
    means, variances = rand(6), uniform(6) + 0.5
    running = (w, b, means, variances)
    functional = aten._native_batch_norm_legit_functional
    for x in (image, rand(5, 6), channels_last(2, 6, 3, 4), rand(3, 6, 4)):
        case(functional, x, *running, True, 0.1, EPS, tolerance=1e-4)
        case(aten._native_batch_norm_legit_no_training, x, *running, 0.1, EPS, tolerance=1e-4)
    case(functional, image, *running, False, 0.1, EPS, tolerance=1e-4)
    case(aten._native_batch_norm_legit, image, *running, False, 0.1, EPS, tolerance=1e-4)
    case(aten.native_batch_norm, image, w, b, None, None, True, 0.1, EPS, tolerance=1e-4)
    case(aten._native_batch_norm_legit.no_stats, image, w, None, True, 0.1, EPS, tolerance=1e-4)
    case(aten._batch_norm_with_update_functional, image, *running, 0.1, EPS, tolerance=1e-4)
    case(aten._batch_norm_no_update, image, *running, 0.1, EPS, tolerance=1e-4)
    of_image = later(functional)(image, *running, True, 0.1, EPS)
    mean, rstd = of_image[1], of_image[2]
    saved = (w, means, variances, mean, rstd)
    backward = aten.native_batch_norm_backward
    for mask in (ALL, FIRST, NOT_FIRST):
        for train in (True, False):
            case(backward, grad, image, *saved, train, EPS, mask, tolerance=1e-4)
    case(backward, grad, image, None, None, None, mean, rstd, True, EPS, FIRST, tolerance=1e-4)
    reserve = torch.empty(0, dtype=torch.uint8)
    case(aten.batch_norm_backward, grad, image, *saved, True, EPS, ALL, reserve, tolerance=1e-4)


def cases() -> None:
    layer_norms()
    rms_norms()
    group_norms()
    batch_norms()
