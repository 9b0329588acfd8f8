# SPDX-License-Identifier: Apache-2.0
"""Operators of types for which eager has no kernel, and numbers that a type does not have: eager's
error, in its words, and never a number."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import tensord
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
    "frac": torch.frac,
    "lerp": lambda x: torch.lerp(x, x, 0.5),
    "logaddexp": lambda x: torch.logaddexp(x, x),
    "logaddexp of truth values": lambda x: torch.logaddexp(x > 0, x),
    "unfold": lambda x: F.unfold(x.view(1, 1, 1, 5), 1),
    "bernoulli": torch.bernoulli,
    "batch_norm": lambda x: F.batch_norm(x.view(1, 5), x, x, training=False),
}
OF_TRUTH_VALUES: dict[str, Callable[[Tensor], Tensor]] = {
    "threshold": lambda x: F.threshold(x, 0.5, 0.1),
    "abs": torch.abs,
    "addcmul": lambda x: torch.addcmul(x, x, x),
    "argmax": torch.argmax,
    "bucketize": lambda x: torch.bucketize(x, x),
    "ceil": torch.ceil,
    "clamp": lambda x: torch.clamp(x, False, True),
    "cross": lambda x: torch.linalg.cross(x[:3], x[:3]),
    "reflected": lambda x: F.pad(x[None], (1, 1), mode="reflect"),
    "trace": lambda x: torch.trace(x.expand(5, 5)),
    "arange": lambda x: torch.arange(-1, 2, 2, dtype=x.dtype),
    "max_pool2d": lambda x: F.max_pool2d(x[None, None], (1, 2)),
    "max_pool3d": lambda x: F.max_pool3d(x[None, None, None], (1, 1, 2)),
}
# Of narrow floats.
SPECIAL: dict[str, Callable[[Tensor], Tensor]] = {
    "erfcx": torch.special.erfcx,
    "log_ndtr": torch.special.log_ndtr,
    "zeta": lambda x: torch.special.zeta(x, x),
    "cdist": lambda x: torch.cdist(x[:, None], x[:, None], p=0.0),
}
MIXED: dict[str, Callable[[Tensor], Tensor]] = {
    "complex of two types": lambda x: torch.complex(x, x.double()),
    "polar of two types": lambda x: torch.polar(x, x.double()),
}
OF_BFLOAT16: dict[str, Callable[[Tensor], Tensor]] = {
    "complex": lambda x: torch.complex(x, x),
    "polar": lambda x: torch.polar(x, x),
}
CASES = [
    *((name, dtype) for name in OPERATORS for dtype in (torch.uint8, torch.int64)),
    *((name, torch.bool) for name in OF_TRUTH_VALUES),
    ("arange", torch.complex64),
    ("log_ndtr", torch.complex64),
    *((name, dtype) for name in SPECIAL for dtype in (torch.float16, torch.bfloat16)),
    *((name, torch.bfloat16) for name in OF_BFLOAT16),
    *((name, torch.float32) for name in MIXED),
]  # fmt: skip


@pytest.mark.parametrize("name", ["max_pool2d", "max_pool3d"])
def test_through_ctypes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first call torch looks at operators by a mode in Python, which raises there."""
    monkeypatch.setenv("TENSORD_NATIVE", "0")
    test_is_refused_as_by_eager(name, torch.bool)


def test_truth_values_and_a_symbol() -> None:
    def function(x: Tensor, weight: Tensor, momentum: float) -> Tensor:
        arguments = (x, weight, weight, weight.clone(), weight.clone(), False, momentum, 1e-5)
        return torch.ops.aten._native_batch_norm_legit(*arguments)[0]

    x, weight = torch.ones(3, 2, dtype=torch.bool), torch.ones(2, dtype=torch.bool)
    for run in (function, torch.compile(function, backend="tensord", dynamic=True)):
        with pytest.raises(NotImplementedError, match="not implemented for 'Bool'"):
            run(x, weight, -1.2)


# Beside the types that are refused.
TAKEN: dict[str, Callable[[Tensor], Tensor]] = {
    "bounds of whole numbers": lambda x: torch.clamp(x, 0, 1),
    "a factor": lambda x: torch.addcmul(x, x.float() + 0.5, x, value=2),
    "a length": lambda x: torch.clamp(x, max=x.shape[0]),
}


@pytest.mark.parametrize("name", TAKEN)
def test_truth_values_among_other_types(name: str) -> None:
    x = torch.tensor([True, False])
    run = torch.compile(TAKEN[name], backend="tensord", fullgraph=True, dynamic=True)
    torch.testing.assert_close(run(x), TAKEN[name](x))
    assert tensord.stats()["call_backs"] == 0


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_is_refused_as_by_eager(name: str, dtype: torch.dtype) -> None:
    function = (OPERATORS | OF_TRUTH_VALUES | SPECIAL | OF_BFLOAT16 | MIXED)[name]
    x = torch.ones(5).to(dtype)
    with pytest.raises(RuntimeError) as eager:  # NotImplementedError is one
        function(x)
    with pytest.raises(RuntimeError, match=re.escape(str(eager.value).splitlines()[0])):
        torch.compile(function, backend="tensord")(x)


NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "full, not a number": lambda x: torch.full((5,), math.nan, dtype=x.dtype) + x,
    "full, infinite": lambda x: torch.full_like(x, -math.inf) + x,
    "full, too large": lambda x: torch.full((5,), 1e30, dtype=x.dtype) + x,
    "filled": lambda x: x.clone().fill_(math.nan) * 1,
    "padded": lambda x: F.pad(x, (1, 1), value=math.nan),
    "a number in the graph": lambda x: torch.scalar_tensor(math.nan, dtype=x.dtype) + x,
    "masked": lambda x: x.masked_fill(x > 0, math.inf),
    "by index": lambda x: x.index_fill(0, torch.tensor([0]), math.nan),
    "a threshold's": lambda x: F.threshold(x, 2, math.nan),
    "scattered": lambda x: torch.scatter(x, 0, torch.tensor([0]), math.inf),
}


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int64])
@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_refused_as_by_eager(name: str, dtype: torch.dtype) -> None:
    x = torch.ones(5).to(dtype)
    with pytest.raises(RuntimeError) as eager:
        NUMBERS[name](x)
    words = "without overflow|cannot convert float"  # Dynamo says the latter where it asks first
    assert "without overflow" in str(eager.value)
    with pytest.raises(RuntimeError, match=words):
        torch.compile(NUMBERS[name], backend="tensord")(x)


def test_numbers_that_integers_take() -> None:
    def filled(x: Tensor) -> Tensor:
        return (
            torch.full_like(x, 2.7) + torch.full((5,), -1, dtype=x.dtype) + x.masked_fill(x > 0, 3)
        )

    x = torch.arange(5, dtype=torch.uint8)
    torch.testing.assert_close(torch.compile(filled, backend="tensord")(x), filled(x))
    assert tensord.stats()["call_backs"] == 0
