# SPDX-License-Identifier: Apache-2.0
"""Operators of types for which eager has no kernel: its error, in its words, and never a number."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

pytestmark = pytest.mark.usefixtures("tensord_daemon")

OPERATORS: dict[str, Callable[[Tensor], Tensor]] = {
    "hardswish": F.hardswish,
    "hardsigmoid": F.hardsigmoid,
    "gelu": F.gelu,
    "softplus": F.softplus,
    "soft_margin_loss": lambda x: F.soft_margin_loss(x, x),
    "threshold": lambda x: F.threshold(x, 0.5, 0.1),
}
CASES = [
    (name, dtype)
    for name in OPERATORS
    for dtype in ([torch.bool] if name == "threshold" else [torch.uint8, torch.int64])
]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_is_refused_as_by_eager(name: str, dtype: torch.dtype) -> None:
    function = OPERATORS[name]
    x = torch.ones(5).to(dtype)
    with pytest.raises(RuntimeError) as eager:  # NotImplementedError is one
        function(x)
    with pytest.raises(RuntimeError, match=re.escape(str(eager.value).splitlines()[0])):
        torch.compile(function, backend="tensord")(x)
