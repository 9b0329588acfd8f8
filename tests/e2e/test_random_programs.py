# SPDX-License-Identifier: Apache-2.0
"""The fuzzer of programs (tests/fuzz/programs.sh): a few programs of it; faults are found."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from long_cases import long_but
from torch import fx

TESTS = Path(__file__).resolve().parents[1]
sys.path += [str(TESTS / "fuzz"), str(TESTS / "tools")]

from programs.execute import run  # noqa: E402
from programs.generate import generate  # noqa: E402
from programs.program import Node, Program, functions, script  # noqa: E402
from programs.shrink import shrink  # noqa: E402

SEEDS = range(30)


@pytest.mark.parametrize("seed", long_but(SEEDS[:10], SEEDS))
def test_program(seed: int, tensord_daemon: object) -> None:
    program = generate(seed)
    outcome = run(program)
    assert not outcome.bad, f"{outcome.message}\n{script(program, outcome.cause)}"
    assert outcome.kind != "invalid", outcome.cause


def test_a_seed_is_always_the_same_program() -> None:
    assert [generate(seed) for seed in (3, 20)] == [generate(seed) for seed in (3, 20)]


def test_a_program_survives_json() -> None:
    program = generate(20)
    assert Program.from_json(program.to_json()) == program


def test_programs_are_the_same_on_every_device() -> None:
    program = Program(
        seed=0, sizes={"n": 3}, outputs=("v0",), device="meta",
        inputs=(Node("a0", "(torch.randn((n, 2)) > 0)[1:]"), Node("a1", "a0[0]")),
        nodes=(Node("v0", "a1 + torch.full((2, a0.size(1)), 1.5) + torch.eye(2)"),),
    )  # fmt: skip
    assert "(torch.randn((n, 2)).to('meta') > 0)[1:]" in program.source()
    assert "torch.full((2, a0.size(1)), 1.5, device='meta') + torch.eye(2, dev" in program.source()
    run = functions(program)
    (result,) = run.program(*run.inputs(n=3))
    assert (result.device.type, result.shape) == ("meta", (2, 2))
    for seed in (3, 20):  # whose texts are of all kinds
        assert functions(replace(generate(seed), device="meta"))


def test_programs_are_varied() -> None:
    programs = [generate(seed) for seed in range(60)]
    texts = [node.text for program in programs for node in program.nodes]
    assert any(program.dynamic and program.other_sizes for program in programs)
    assert any(program.gradients for program in programs)
    assert any(set(program.outputs) & {n.name for n in program.inputs} for program in programs)
    assert max(len(program.nodes) for program in programs) > 30
    for part in ("_(", " @ ", "torch.cat", ".sum(", "[", ".reshape(", ".to(torch."):
        assert any(part in text for text in texts), part


def _faulty(module: fx.GraphModule, inputs: Any) -> Any:
    """A backend whose tanh is a little large."""
    for node in module.graph.nodes:
        if node.target is torch.tanh:
            node.target = _large_tanh
    module.recompile()
    return module.forward


def _large_tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x) * 1.01


def test_a_planted_fault_is_found_and_shrunk() -> None:
    programs = (generate(seed) for seed in range(100))
    program = next(p for p in programs if len(p.nodes) > 8 and run(p, _faulty).kind == "wrong")
    small = shrink(program, lambda p: run(p, _faulty).kind == "wrong", seconds=60)
    assert [node.text.split("(")[0] for node in small.nodes] == ["torch.tanh"]
    assert len(small.inputs) == 1
    assert not small.dynamic


def test_strides_that_torch_declares_otherwise_are_upstream() -> None:
    """Of this `where` fake tensors are contiguous, and eager's results are not."""
    program = Program(
        seed=0, sizes={"n": 3}, outputs=("v0",),
        inputs=(Node("a0", "torch.ones(3, 1, 1, dtype=torch.bool)[::2].permute(2, 1, 0)"),
                Node("a1", "torch.randn(n, 1)")),
        nodes=(Node("v0", "torch.where(a0, a1, a1)"),),
    )  # fmt: skip
    eager = functions(program)
    result = eager.program(*eager.inputs(3))[0]
    assert not result.is_contiguous()
    as_declared = lambda module, _: lambda *a: [module(*a)[0].contiguous()]  # noqa: E731
    assert run(program, as_declared).kind == "upstream"


def test_a_script_stands_alone() -> None:
    space: dict[str, Any] = {}
    exec(script(generate(3), "A title."), space)
    assert space["run"](space["program"], generate(3).sizes)


def test_without_a_fault_nothing_differs() -> None:
    for seed in range(20):
        outcome = run(generate(seed), "eager")
        assert outcome.kind in ("right", "upstream"), (seed, outcome)


def test_choice_by_an_outer_loop_of_a_reduction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several accumulators, in whose loops the choice is made once."""
    monkeypatch.setenv("TENSORD_STRICT", "1")

    def program(x: torch.Tensor) -> torch.Tensor:
        large = x > 1
        large[0].fill_(0)
        return large.any()

    x = torch.randint(-5, 9, (6, 6, 6)).expand(3, 1, 6, 6, 6)
    assert torch.equal(torch.compile(program, backend="tensord")(x), program(x))


def test_slices_that_end_where_the_size_was_at_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seeds 100242 and 770056."""
    monkeypatch.setenv("TENSORD_STRICT", "1")

    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x[:8], x[8:] * 2, x[8 : x.size(0)]

    compiled = torch.compile(program, backend="tensord", dynamic=True)
    for size in (8, 17, 5, 11):
        x = torch.randn(size)
        for mine, theirs in zip(compiled(x), program(x), strict=True):
            assert torch.equal(mine, theirs)


def test_results_share_memory_whose_size_may_be_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 101038: torch counts such a size as 1 in strides."""
    monkeypatch.setenv("TENSORD_STRICT", "1")

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        part = x[:, 1:-1] % 1.0
        return part.squeeze(1), part

    compiled = torch.compile(program, backend="tensord", dynamic=True)
    for size in (17, 5):
        x = torch.randn(size, size)
        view, whole = compiled(x)
        assert torch.equal(view, program(x)[0])
        assert view.data_ptr() == whole.data_ptr()


def test_a_size_divided_by_one_that_may_be_0(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 101412: what divides by it has raised before, where it is 0."""
    monkeypatch.setenv("TENSORD_STRICT", "1")

    def program(x: torch.Tensor) -> torch.Tensor:
        return x.flip(0).reshape(x.size(0) // 3, 3, x.size(1))

    compiled = torch.compile(program, backend="tensord", dynamic=True)
    for rows in (6, 9, 3):
        x = torch.randn(rows, 5, requires_grad=True)
        result = compiled(x)
        assert torch.equal(result, program(x))
        weight = torch.randn_like(result)
        found = torch.autograd.grad(result, x, weight)
        assert torch.equal(*found, *torch.autograd.grad(program(x), x, weight))
