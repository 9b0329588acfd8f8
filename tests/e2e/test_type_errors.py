# SPDX-License-Identifier: Apache-2.0
"""Types that an operator does not take: what eager raises, in eager's words."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
import torch.nn.functional as F

pytestmark = pytest.mark.usefixtures("tensord_daemon")

INTEGERS = torch.arange(12).reshape(3, 4)
FLOATS = torch.ones(3, 4)
TRUTHS = FLOATS > 0

# Each gets through capture: torch's rules of types are laxer than its kernels.
REFUSED: dict[str, tuple[Callable[..., Any], tuple[torch.Tensor, ...]]] = {
    "gelu of integers": (F.gelu, (INTEGERS,)),
    "silu of integers": (F.silu, (INTEGERS,)),
    "bits of floats": (torch.bitwise_and, (FLOATS, FLOATS)),
    "bits of a float and integers": (torch.bitwise_or, (FLOATS, INTEGERS)),
    "inverted floats": (torch.bitwise_not, (FLOATS,)),
    "shifted floats": (torch.bitwise_left_shift, (FLOATS, FLOATS)),
    "relu of truth values": (F.relu, (TRUTHS,)),
    "product of integers and floats": (torch.mm, (INTEGERS, FLOATS.t())),
}


@pytest.mark.parametrize("name", REFUSED)
def test_raises_as_eager(name: str) -> None:
    function, inputs = REFUSED[name]
    with pytest.raises(RuntimeError) as eager:
        function(*inputs)
    torch._dynamo.reset()
    tensord.reset_stats()
    with pytest.raises(RuntimeError, match=re.escape(str(eager.value).splitlines()[0])):
        torch.compile(function, backend="tensord")(*inputs)
    # By the operator itself, in a compiled program.
    assert tensord.stats()["fallbacks"] == 0
