# SPDX-License-Identifier: Apache-2.0
"""Activations and their gradients, dropout."""

from __future__ import annotations

import torch
from recorder import aten, bools, case, later, rand, special, uniform


def cases() -> None:
    unary = [
        (aten.gelu, ()),
        (aten.silu, ()),
        (aten.relu, ()),
        (aten.relu6, ()),
        (aten.leaky_relu, (0.1,)),
        (aten.elu, (0.7, 1.3, 1.0)),
        (aten.celu, (1.7,)),
        (aten.selu, ()),
        (aten.hardtanh, (-0.5, 0.8)),
        (aten.hardswish, ()),
        (aten.hardsigmoid, ()),
        (aten.softplus, (2.0, 3.0)),
        (aten.mish, ()),
        (aten.sigmoid, ()),
        (aten.log_sigmoid, ()),
        (aten.softshrink, (0.5,)),
        (aten.hardshrink, (0.5,)),
        (aten.threshold, (0.1, 20.0)),
    ]
    for op, args in unary:
        case(op, rand(3, 5), *args)
        case(op, rand(3, 5, dtype=torch.bfloat16), *args)
        # Vectorised eager gives NaN for gelu of infinity.
        if op is not aten.gelu:
            case(op, special(), *args)
    case(aten.gelu, rand(3, 5), approximate="tanh")
    case(aten.gelu, rand(5, 3).t())
    case(aten.sigmoid, torch.arange(-3, 4))
    case(aten.relu, torch.arange(-3, 4))
    case(aten.logit, uniform(7))
    case(aten.logit, uniform(7), 0.2)
    case(aten.log_sigmoid_forward, rand(3, 5))
    case(aten._prelu_kernel, rand(2, 3, 4), rand(1, 3, 1))
    case(aten._prelu_kernel_backward, rand(2, 3, 4), rand(2, 3, 4), rand(1, 3, 1))
    case(aten.glu, rand(3, 6), 1)
    case(aten.glu, rand(4, 3), 0)
    case(aten.glu_backward, rand(3, 3), rand(3, 6), -1)
    case(aten.native_dropout, rand(3, 4), 0.5, False)
    case(aten.dropout, rand(3, 4), 0.5, False)
    case(aten.native_dropout_backward, rand(3, 4), bools(3, 4), 2.0)
    case(aten.native_dropout_backward, torch.arange(12).reshape(3, 4), bools(3, 4), 0.5)

    backward = [
        (aten.threshold_backward, (0.3,)),
        (aten.gelu_backward, ()),
        (aten.silu_backward, ()),
        (aten.tanh_backward, ()),
        (aten.sigmoid_backward, ()),
        (aten.leaky_relu_backward, (0.1, False)),
        (aten.hardtanh_backward, (-0.5, 0.8)),
        (aten.hardswish_backward, ()),
        (aten.hardsigmoid_backward, ()),
        (aten.softplus_backward, (2.0, 3.0)),
        (aten.mish_backward, ()),
        (aten.softshrink_backward, (0.5,)),
        (aten.hardshrink_backward, (0.5,)),
    ]
    for op, args in backward:
        case(op, rand(3, 5), rand(3, 5), *args)
        case(op, rand(3, 5, dtype=torch.bfloat16), rand(3, 5, dtype=torch.bfloat16), *args)
    case(aten.gelu_backward, rand(3, 5), rand(3, 5), approximate="tanh")
    case(aten.elu_backward, rand(9), 0.7, 1.3, 1.1, False, rand(9))
    case(aten.elu_backward, rand(9), 0.7, 1.3, 1.1, True, rand(9))
    x = rand(9)
    case(aten.log_sigmoid_backward, rand(9), x, later(aten.log_sigmoid_forward)(x)[1])
