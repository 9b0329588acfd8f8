# SPDX-License-Identifier: Apache-2.0
"""Operators with effects, which AOTAutograd threads on tokens: they are sent without."""

from __future__ import annotations

from typing import Any

import pytest
import tensord
import torch
from torch import Tensor


def _prints(x: Tensor) -> Tensor:
    torch.ops.aten._print("first")
    y = x.sin()
    torch.ops.aten._print("second")
    return y * 2


def _is_printed_in_order(out: str) -> bool:
    return [word for word in out.split() if word in ("first", "second")] == ["first", "second"]


@pytest.mark.parametrize("training", [False, True])
def test_operators_with_effects_run_for_what_they_do(
    tensord_daemon: Any, capfd: pytest.CaptureFixture[str], training: bool
) -> None:
    x = torch.randn(5, requires_grad=training)
    compiled = torch.compile(_prints, backend="tensord", fullgraph=True)
    result = compiled(x)
    if training:
        result.sum().backward()
        torch.testing.assert_close(x.grad, 2 * x.detach().cos())
    torch.testing.assert_close(result, 2 * x.sin())
    assert _is_printed_in_order(capfd.readouterr().out)
    assert tensord.stats()["graphs"] == 1 + training
