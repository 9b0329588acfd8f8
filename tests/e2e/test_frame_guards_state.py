# SPDX-License-Identifier: Apache-2.0
"""Guards on tensors, on sizes, and on the process's state."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import frame_guard_cases
import pytest
import torch
import torch.distributed as dist
from frame_guard_cases import Case, parametrised
from frame_guards import capture, captures, why_not
from torch.overrides import TorchFunctionMode
from torch.testing._internal.distributed.fake_pg import FakeStore

pytestmark = pytest.mark.usefixtures("native_guards")
Patch = pytest.MonkeyPatch


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def tensor(**named: Any) -> torch.Tensor:
    return torch.ones(2, 3, **named)


def data_type(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (tensor(dtype=torch.float64),)


def shape(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (torch.ones(2, 4),)


def rank(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (torch.ones(2, 3, 1),)


def strides(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (torch.ones(3, 2).t(),)


def gradient(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (tensor(requires_grad=True),)


def device(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (tensor(device="meta"),)


def class_of_the_tensor(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    yield (torch.nn.Parameter(tensor(), requires_grad=False),)


def conjugate(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(dtype=torch.complex64),)
    yield (tensor(dtype=torch.complex64).conj(),)


def tensor_of_inference_mode(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.inference_mode():
        inner = tensor()
    yield (inner,)


def dimension_marked_dynamic(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    marked = tensor()
    torch._dynamo.mark_dynamic(marked, 0)
    yield (marked,)


def gradient_mode(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.no_grad():
        yield None


def gradient_mode_of_a_gradient(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(requires_grad=True),)
    with torch.no_grad():
        yield None


def inference_mode(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.inference_mode():
        yield None


def autocast(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        yield None


def autocast_cache(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(not before)
    try:
        yield None
    finally:
        torch.set_autocast_cache_enabled(before)


def default_data_type(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    torch.set_default_dtype(torch.float64)
    try:
        yield None
    finally:
        torch.set_default_dtype(torch.float32)


def threads(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    before = torch.get_num_threads()
    torch.set_num_threads(before + 1)
    try:
        yield None
    finally:
        torch.set_num_threads(before)


def deterministic(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    torch.use_deterministic_algorithms(True)
    try:
        yield None
    finally:
        torch.use_deterministic_algorithms(False)


def precision_of_products(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = not before
    try:
        yield None
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


class _Mode(TorchFunctionMode):
    def __torch_function__(
        self, function: Any, kinds: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        return function(*arguments, **(named or {}))


def mode_of_functions(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with _Mode():
        yield None


def functions_disabled(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch._C.DisableTorchFunctionSubclass():
        yield None


def default_device(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.device("meta"):
        yield None


def hooks_of_saved_tensors(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        yield None


def forward_differentiation(patch: Patch) -> Iterator[Any]:
    yield double, (tensor(),)
    with torch.autograd.forward_ad.dual_level():
        yield None


CASES: list[Case] = [
    data_type, shape, rank, strides, gradient, device, class_of_the_tensor, conjugate,
    tensor_of_inference_mode, dimension_marked_dynamic, gradient_mode, gradient_mode_of_a_gradient,
    inference_mode, autocast, autocast_cache, default_data_type, threads,
    deterministic, precision_of_products, mode_of_functions, functions_disabled,
    default_device, hooks_of_saved_tensors, forward_differentiation,
]  # fmt: skip


@parametrised(CASES)
def test_a_change_is_seen(case: Case, monkeypatch: Patch) -> None:
    frame_guard_cases.check(case, monkeypatch)


def test_the_type_of_autocast_is_known() -> None:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        recorded = capture(double, tensor())
        assert why_not(recorded, double, (tensor(),)) == ""
        with torch.autocast("cpu", dtype=torch.float16):
            assert why_not(recorded, double, (tensor(),))


def test_deterministic_algorithms_may_only_be_warned_of() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        recorded = capture(double, tensor())
        assert why_not(recorded, double, (tensor(),)) == ""
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert why_not(recorded, double, (tensor(),))
    finally:
        torch.use_deterministic_algorithms(False)


def test_sizes_that_vary_are_related() -> None:
    """A second size makes a dimension a number of its own, and what was asked of it a guard."""

    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y if x.size(0) < 100 else x * y

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    sizes = [(4, 3), (5, 3)]
    first, second = captures(lambda: [compiled(torch.ones(s), torch.ones(s)) for s in sizes])
    assert why_not(first, function, (torch.ones(5, 3), torch.ones(5, 3)))
    for size in (4, 5, 99):
        assert why_not(second, function, (torch.ones(size, 3), torch.ones(size, 3))) == ""
    for size, other, width in (
        (100, 100, 3),
        (5, 6, 3),
        (5, 5, 4),
        (1, 1, 3),
        (0, 0, 3),
    ):
        assert why_not(second, function, (torch.ones(size, width), torch.ones(other, width)))


@pytest.mark.parametrize("size", [2, 7, 1000])
def test_a_dimension_that_is_marked_serves_all_sizes(size: int) -> None:
    marked = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(marked, 0)
    recorded = capture(double, marked)
    assert why_not(recorded, double, (torch.ones(size, 3),)) == ""


def test_numbers_that_vary_are_related() -> None:
    def function(x: torch.Tensor, number: int) -> torch.Tensor:
        return x * number if number % 2 == 0 else x

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    *_, last = captures(lambda: [compiled(x, number) for number in (4, 6)])
    assert why_not(last, function, (x, 12)) == ""
    assert why_not(last, function, (x, 13))
    assert why_not(last, function, (x, 12.0))


def test_real_numbers_that_vary_are_related() -> None:
    def function(x: torch.Tensor, number: float) -> torch.Tensor:
        return x * number

    compiled = torch.compile(function, backend="eager", fullgraph=True)
    x = torch.ones(2)
    *_, last = captures(lambda: [compiled(x, number) for number in (4.5, 6.5)])
    assert why_not(last, function, (x, 7.5)) == ""
    assert why_not(last, function, (x, 7))
    assert why_not(last, function, (x, float("nan")))


def test_a_mode_of_functions_is_known_by_its_class() -> None:
    with _Mode():
        recorded = capture(double, tensor())
        assert why_not(recorded, double, (tensor(),)) == ""
    assert why_not(recorded, double, (tensor(),))


class _Scales(TorchFunctionMode):
    def __init__(self, amount: float) -> None:
        super().__init__()
        self.amount = amount

    def __torch_function__(
        self, function: Any, kinds: Any, arguments: Any = (), named: Any = None
    ) -> Any:
        made = function(*arguments, **(named or {}))
        return made * self.amount if function is torch.Tensor.mul else made


def test_a_mode_of_functions_is_known_by_what_is_read_of_it() -> None:
    with _Scales(2.0):
        recorded = capture(double, tensor())
        assert why_not(recorded, double, (tensor(),)) == ""
    with _Mode(), _Scales(2.0):
        assert why_not(recorded, double, (tensor(),))
    with _Scales(3.0):
        assert "amount == 2.0" in why_not(recorded, double, (tensor(),))


def test_what_torch_says_of_the_process_is_known(monkeypatch: Patch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.cuda.is_initialized() else x + 1

    recorded = capture(function, tensor())
    assert why_not(recorded, function, (tensor(),)) == ""
    monkeypatch.setattr(torch.cuda, "_initialized", not torch.cuda._initialized)
    assert "torch.cuda.is_initialized() is" in why_not(recorded, function, (tensor(),))


@contextmanager
def _as_rank(rank: int, ranks: int) -> Iterator[None]:
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
    try:
        yield
    finally:
        dist.destroy_process_group()


def test_which_rank_it_is_is_known_where_it_is_asked() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x * (dist.get_rank() + 2)

    with _as_rank(0, 2):
        recorded = capture(function, tensor())
        assert why_not(recorded, function, (tensor(),)) == ""
        asks_nothing = capture(double, tensor())
    with _as_rank(1, 4):
        assert "get_rank() is not 0" in why_not(recorded, function, (tensor(),))
        assert why_not(asks_nothing, double, (tensor(),)) == ""
    assert why_not(recorded, function, (tensor(),))


def test_which_gpu_it_is_is_known_where_it_is_asked(monkeypatch: Patch) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.is_cuda:
            return x * torch.cuda.get_device_properties(0).major
        return x + 1

    assert "torch.cuda" not in str(capture(function, tensor()).frame())  # there is none
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    said = {"get_device_name": "A", "get_device_capability": (9, 0)}
    for name in said:
        known = getattr(torch.cuda, name)
        fake = functools.wraps(known)(functools.partial(said.__getitem__, name))
        monkeypatch.setattr(torch.cuda, name, fake)
    recorded = capture(function, tensor())
    assert why_not(recorded, function, (tensor(),)) == ""
    said["get_device_capability"] = (8, 0)
    assert "get_device_capability() is not (9, 0)" in why_not(recorded, function, (tensor(),))


def test_a_default_device_is_known() -> None:
    with torch.device("cpu"):
        recorded = capture(double, tensor())
        assert why_not(recorded, double, (tensor(),)) == ""
    assert why_not(recorded, double, (tensor(),))
