# SPDX-License-Identifier: Apache-2.0
"""What the judge of minify and of the fuzzer says of results: roundings are none of ours, and what
else differs is what it names."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tensord.debug.compare import Mismatch
from tensord.debug.judge import Judge, Outcome, attempt, cause_of, is_upstream
from torch import Tensor


def _centred(x: Tensor) -> list[Any]:
    return [(x - x.mean()).float(), x * 2]


def _centred_without_rounding(x: Tensor) -> list[Any]:
    return [(x.double() - x.double().mean()).float(), x * 2]


def _narrow() -> list[Any]:
    return [torch.linspace(-3, 4, 11).half()]


def test_what_is_nearer_to_float64_than_eager_is_right() -> None:
    judge = Judge(_centred, _narrow)
    judge.check(judge.compiled(_centred_without_rounding))


def test_the_difference_that_is_no_rounding_is_named() -> None:
    judge = Judge(_centred, _narrow)
    wrong = judge.compiled(lambda x: [_centred_without_rounding(x)[0], x * 3])
    with pytest.raises(Mismatch, match=r"^output 1: "):
        judge.check(wrong)


@pytest.mark.usefixtures("tensord_daemon")
def test_a_wrong_gradient_of_torchs_own_is_known_beside_roundings() -> None:
    """Seed 800281: AOTAutograd's gradient of a result whose elements overlap."""

    def program(a: Tensor, b: Tensor) -> list[Any]:
        wide = torch.atan2(b - b.mean(0, True), a.abs() + 1.0)
        return [wide, torch.as_strided(torch.outer(b, b), (3, 2), (1, 1))]

    def inputs() -> list[Any]:
        torch.manual_seed(800281)
        return [torch.randn(6), torch.randn(6, dtype=torch.float16, requires_grad=True)]

    judges = [Judge(program, inputs)]
    outcome = attempt(program, judges, "tensord", False)
    assert (outcome.kind, outcome.cause) == ("wrong", "value of gradient")
    assert is_upstream(program, judges, outcome, dynamic=False)


def _rounded_in_place(x: Tensor) -> list[Any]:
    return [x.tanh_().float()]


def test_roundings_in_place_are_shaken_too() -> None:
    def without_float64(x: Tensor) -> list[Any]:
        raise RuntimeError("mixes dtypes")

    judge = Judge(_rounded_in_place, _narrow, without_float64)
    exact = lambda x: [torch.tanh(x.double()).float(), x.tanh_()][:1]  # noqa: E731
    judge.check(judge.compiled(exact))
    with pytest.raises(Mismatch, match=r"^output 0: "):
        judge.check(
            judge.compiled(lambda x: [torch.tanh(x.double()).float() * 1.01, x.tanh_()][:1])
        )


def test_sums_of_another_order_are_rounded_at_each_level() -> None:
    """Seed 9961: equal terms, which round alike, and a function that makes the sum's error large
    beside its own value."""

    def program(x: Tensor) -> list[Any]:
        return [torch.sin(x.sum())]

    def by_lanes(x: Tensor, factor: float = 1.0) -> list[Any]:
        lanes = torch.zeros(4)
        for row in x.view(-1, 4):
            lanes = lanes + row
        return [torch.sin(lanes.sum() * factor)]

    judge = Judge(program, lambda: [torch.full((512,), 0.3)])
    ours = judge.compiled(by_lanes)
    assert abs(ours.outputs[0] - judge.eager.outputs[0]) > 1e-4
    judge.check(ours)
    with pytest.raises(Mismatch):
        judge.check(judge.compiled(lambda x: by_lanes(x, 1 + 1e-4)))


def test_numbers_that_a_program_makes_are_wide_in_float64() -> None:
    def program(x: Tensor) -> list[Any]:
        return [(x - x.mean()).float() @ torch.full((11,), 1.0)]

    judge = Judge(program, _narrow, lambda x: [(x - x.mean()) @ torch.full((11,), 1.0)])
    ours = lambda x: [_centred_without_rounding(x)[0] @ torch.full((11,), 1.0)]  # noqa: E731
    judge.check(judge.compiled(ours))


def test_overflow_that_rounding_decides_is_no_difference() -> None:
    """The cube is beyond what 16 bits hold, or just within."""

    def program(x: Tensor) -> list[Any]:
        return [torch.sin(x * x * x)]

    def at_the_limit() -> list[Any]:
        return [torch.tensor([40.34, 1.0]).half()]

    judge = Judge(program, at_the_limit)
    assert judge.eager.outputs[0].isnan().tolist() == [True, False]
    other = torch.tensor([0.5, judge.eager.outputs[0][1].item()]).half()
    judge.check(judge.compiled(lambda x: [other]))
    with pytest.raises(Mismatch):
        judge.check(judge.compiled(lambda x: [other * 0.8]))


def test_strides_that_torch_declares_otherwise_beside_sizes_that_data_decides() -> None:
    """Seed 7496."""

    def program(condition: Tensor, x: Tensor) -> list[Any]:
        return [torch.where(condition, x, x) + x[x > 0].sum()]

    def inputs() -> list[Any]:
        condition = torch.ones(3, 1, 1, dtype=torch.bool)[::2].permute(2, 1, 0)
        return [condition, torch.arange(3.0)[:, None]]

    assert Judge(program, inputs).is_misdeclared()
    assert not Judge(lambda condition, x: [x[x > 0] * 2, x], inputs).is_misdeclared()


def test_strides_that_torch_declares_otherwise_of_sizes_that_are_symbols() -> None:
    """Sizes of 1 tie: what is written in place lies otherwise than the sum that stands for it."""

    def program(x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        x.add_(y)
        return [torch.cat([x, x], 1)]

    def inputs() -> list[torch.Tensor]:
        return [torch.randn(9, 2, 1, 1).transpose(0, -1), torch.randn(())]

    strides = Outcome("wrong", "strides")
    judges = [Judge(program, inputs)]
    assert is_upstream(program, judges, strides, dynamic=True)
    assert not is_upstream(program, judges, Outcome("wrong", "value of output"), dynamic=True)

    def plain(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.cat([x + 1, x], 1)]

    judges = [Judge(plain, lambda: [torch.randn(4, 6)])]
    assert not is_upstream(plain, judges, strides, dynamic=True)


def test_a_cause_has_no_addresses() -> None:
    """Seed 103890, which every backend fails in the same way."""
    causes = {cause_of(ValueError(f"s{n} of <Tracer at {hex(n)}>")) for n in (10, 0xABC12F)}
    assert causes == {"ValueError: sN of <Tracer at N>"}
