# SPDX-License-Identifier: Apache-2.0
"""Counter-based random numbers, as the client's own operators give them."""

from __future__ import annotations

import torch
from recorder import case
from tensord import philox

CPU = torch.device("cpu")


def cases() -> None:
    for seed, stream in ((0, 0), (123456789, 7), (-5, 1)):
        for op in (philox.uniform, philox.normal):
            case(op, torch.tensor(seed), [3, 5], torch.float32, CPU, stream)
    case(philox.uniform, torch.tensor(3), [2, 9], torch.bfloat16, CPU, 2)
    case(philox.normal, torch.tensor(3), [7], torch.float64, CPU, 2)
