# SPDX-License-Identifier: Apache-2.0
"""Memory that CUDA graphs share (cuda_graphs/arena.py), with a stand-in for the device.

The stand-in puts results into the memory of inputs that a capture was the last to hold, and writes
over what is left of it at each replay: a replay too many shows.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tensord
import torch
from fake_graphs import FakeDevice, graphed
from tensord.cuda_graphs import arena, graphed_program, memory
from tensord.cuda_graphs.graphed_program import WARM_UP, GraphedProgram
from torch import Tensor

SIZE = 16

pytestmark = pytest.mark.usefixtures("no_graphs_yet", "either_loans")


@pytest.fixture
def either_loans(extension: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are lent out by the extension, and without it."""
    if extension is not None:
        monkeypatch.setattr(graphed_program, "PythonLoans", extension.Loans)


def forward_and_backward() -> tuple[GraphedProgram, GraphedProgram, FakeDevice]:
    """A result and what is saved of it; a gradient from what was saved."""
    forward, _ = graphed(lambda x: [x.sin(), x.cos(), x + 1])
    backward, device = graphed(lambda a, b, grad: [a * grad, a + b], reads_last=True)
    return forward, backward, device


def step(
    forward: GraphedProgram, backward: GraphedProgram, x: Tensor
) -> tuple[Tensor, list[Tensor]]:
    """The result, which the caller keeps, and the gradients, checked."""
    result, *saved = forward([x])
    arguments = [*saved, torch.full((SIZE,), 2.0)]
    del saved
    gradients = backward(arguments)
    assert arguments == []
    assert torch.equal(result, x.sin())
    assert torch.equal(gradients[0], x.cos() * 2) and torch.equal(gradients[1], x.cos() + x + 1)
    return result, gradients


def variant(program: GraphedProgram) -> memory.Captured:
    (shape,) = program._shapes.values()
    (captured,) = shape.variants
    return captured


def test_gradients_lie_where_activations_were() -> None:
    forward, backward, device = forward_and_backward()
    for i in range(8):
        result, gradients = step(forward, backward, torch.full((SIZE,), float(i)))
        if i >= WARM_UP:
            saved = {storage.data_ptr() for storage in variant(forward).storages[1:]}
            assert {g.data_ptr() for g in gradients} == saved
            assert result.data_ptr() == variant(forward).storages[0].data_ptr()
        del result, gradients
    assert variant(backward).arena is variant(forward).arena
    stats = tensord.stats()
    assert (device.captures, stats["cuda_graphs"], stats["cuda_graphs_held"]) == (1, 2, 0)


def test_gradients_that_live_until_the_next_forward_get_memory_of_their_own() -> None:
    forward, backward, device = forward_and_backward()
    held: list[Tensor] = []
    for i in range(8):
        x = torch.full((SIZE,), float(i))
        result, *saved = forward([x])
        if held:  # the last step's, after this one's forward
            last = torch.full((SIZE,), i - 1.0)
            assert torch.equal(held[0], last.cos() * 2) and torch.equal(
                held[1], last.cos() + last + 1
            )
        held = []
        arguments = [*saved, torch.full((SIZE,), 2.0)]
        del saved, result
        held = backward(arguments)
    assert variant(backward).arena is not variant(forward).arena
    stats = tensord.stats()
    assert (device.captures, stats["cuda_graphs"], stats["cuda_graphs_held"]) == (2, 4, 1)
    assert not stats["cuda_graph_reasons"]


@pytest.mark.parametrize("first_kept", [WARM_UP, WARM_UP + 2])
def test_what_somebody_else_keeps_is_not_written_over(first_kept: int) -> None:
    """As with retain_graph, or a hook that keeps what is saved: from the capture on, or later."""
    forward, backward, device = forward_and_backward()
    for i in range(8):
        x = torch.full((SIZE,), float(i))
        result, *saved = forward([x])
        kept = list(saved) if i >= first_kept else []
        for _ in range(2 if kept else 1):
            arguments = [*saved, torch.full((SIZE,), 2.0)]
            if not kept:
                saved = []
            gradients = backward(arguments)
            assert arguments == []
            assert torch.equal(gradients[0], x.cos() * 2)
            del gradients
        assert all(map(torch.equal, kept, [x.cos(), x + 1]))
        del result, kept, saved
    assert variant(backward).reuse is None
    assert device.captures == (1 if first_kept == WARM_UP else 2)
    assert not tensord.stats()["cuda_graph_reasons"]


def test_results_that_are_arguments_keep_their_memory() -> None:
    forward, _ = graphed(lambda x: [x.exp(), x.cos()])
    backward, device = graphed(lambda a, b: [a + b, b[2:]], reads_last=True)
    for i in range(8):
        x = torch.full((SIZE,), float(i))
        total, part = backward(forward([x]))
        assert torch.equal(total, x.exp() + x.cos()) and torch.equal(part, x.cos()[2:])
        del total, part
    assert device.captures == 1
    reuse = variant(backward).reuse
    assert reuse is not None and reuse.numbers() == {0}


def test_three_graphs_in_a_row() -> None:
    """A loss apart from the model: its backward takes over the logits, the model's the rest."""
    model, _ = graphed(lambda x: [x * 2, x.cos()])
    loss, loss_device = graphed(lambda logits, grad: [logits.sin() * grad], reads_last=True)
    backward, device = graphed(lambda saved, grad: [saved * grad, saved + grad], reads_last=True)
    for i in range(10):
        x = torch.full((SIZE,), i / 7)
        logits, saved = model([x])
        arguments = [logits, torch.full((SIZE,), 3.0)]
        del logits
        arguments = [saved, *loss(arguments)]
        del saved
        expected = (x * 2).sin() * 3
        first, second = backward(arguments)
        assert torch.equal(first, x.cos() * expected) and torch.equal(second, x.cos() + expected)
        del first, second
    assert variant(model).arena is variant(loss).arena is variant(backward).arena
    assert (loss_device.captures, device.captures) == (1, 1)
    assert tensord.stats()["cuda_graphs_held"] == 0


def test_memory_that_is_taken_over_is_not_taken_twice() -> None:
    """Another program that reads the same results has memory of its own."""
    forward, backward, _ = forward_and_backward()
    other, _ = graphed(lambda a, b: [a - b], reads_last=True)
    for i in range(12):
        x = torch.full((SIZE,), float(i))
        if i % 2:
            result, *saved = forward([x])
            arguments = saved.copy()
            del saved
            assert torch.equal(other(arguments)[0], x.cos() - (x + 1))
            del result
        else:
            step(forward, backward, x)
    arenas = {id(variant(program).arena) for program in (forward, backward)}
    assert len(arenas) == 1 and id(variant(other).arena) not in arenas
    assert tensord.stats()["cuda_graphs_held"] == 0


def test_a_capture_that_fails_leaves_its_arguments() -> None:
    forward, backward, device = forward_and_backward()
    device.error = RuntimeError("operation not permitted")
    for i in range(6):
        step(forward, backward, torch.full((SIZE,), float(i)))
    assert not any(shape.variants for shape in backward._shapes.values())
    assert list(tensord.stats()["cuda_graph_reasons"].values()) == [1]


def test_a_graph_goes_with_its_arena() -> None:
    forward, backward, _ = forward_and_backward()
    for i in range(5):
        result, gradients = step(forward, backward, torch.full((SIZE,), float(i)))
        if i < 4:
            del result, gradients
    del forward, backward
    gc.collect()
    assert len(memory._GIVEN_UP) == 2 and not memory._GRAPH_MEMORY
    assert torch.equal(gradients[0], torch.full((SIZE,), 4.0).cos() * 2)
    del result, gradients
    memory.free_given_up()
    assert not memory._GIVEN_UP


class Chain:
    """Programs that read each other's results, as a model, its loss and their backward do, and all
    results that are alive, each with what it must be."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.functions = [
            lambda x: [x.sin(), x * 2, x + 1],
            lambda a, b: [a * b, a - b],
            lambda c, d, e: [c + d, e[1:], e.cos(), d * e],
        ]
        self.programs = [graphed(f, reads_last=True)[0] for f in self.functions]
        self.alive: list[tuple[Tensor, Tensor]] = []

    def call(self, number: int, given: list[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Results and what they must be, of arguments that are forgotten but for what is alive."""
        expected = self.functions[number](*(wanted for _, wanted in given))
        arguments = [value for value, _ in given]
        given.clear()
        results = self.programs[number](arguments)
        assert arguments == []
        made = [(r, e.clone()) for r, e in zip(results, expected, strict=True)]
        self.alive += [pair for pair in made if self.draw.random() < 0.1]
        return made

    def check(self) -> None:
        """Nothing that is alive has changed; some of it goes."""
        for value, wanted in self.alive:
            assert torch.equal(value, wanted)
        while self.alive and self.draw.random() < 0.7:
            self.alive.pop(self.draw.randrange(len(self.alive)))

    def flow(self) -> Iterator[None]:
        """All three, with others in between; sometimes the last twice, or not at all."""
        x = torch.full((SIZE,), self.draw.random())
        first, *saved = self.call(0, [(x, x.clone())])
        yield
        middle = self.call(1, [first, saved.pop(0)])
        del first
        yield
        if self.draw.random() < 0.1:
            return
        given = [*middle, *saved]
        del middle, saved
        if self.draw.random() < 0.1:
            self.call(2, list(given))
            yield
        self.call(2, given)


def _run_in_any_order(seed: int) -> bool:
    """True when a graph took over memory meanwhile."""
    chain = Chain(seed)
    flows: list[Iterator[None]] = []
    shared = False
    for _ in range(400):
        if not flows or chain.draw.random() < 0.02:
            flows.append(chain.flow())
        flow = chain.draw.choice(flows)
        if next(flow, flow) is flow:
            flows.remove(flow)
        del flow
        chain.check()
        shapes = [shape for program in chain.programs for shape in program._shapes.values()]
        shared |= any(captured.reuse for shape in shapes for captured in shape.variants)
    return shared


def test_any_order() -> None:
    """Whatever runs after what, and whatever is kept: nothing that is alive ever changes."""
    assert sum(map(_run_in_any_order, range(80))) > 60
    assert not tensord.stats()["cuda_graph_reasons"]


def test_memory_that_outlives_a_capture() -> None:
    """As a library's cached scratch: where results were, replays would write over it, and it over
    what is alive again."""
    forward, backward, device = forward_and_backward()
    program, read = backward._program, []

    def note(arguments: list[Tensor]) -> list[Tensor]:
        read.append({x.data_ptr() for x in arguments})
        return program(arguments)

    backward._program = note
    for i in range(8):
        if i == WARM_UP:
            shape = next(iter(forward._shapes.values()))
        x = torch.full((SIZE,), float(i))
        result, *saved = forward([x])
        device.left = [(saved[1].data_ptr() + 8, 8)] if i == WARM_UP else []
        arguments = [*saved, torch.full((SIZE,), 2.0)]
        del saved
        assert torch.equal(backward(arguments)[0], x.cos() * 2)
        del result
        if i == WARM_UP:
            (first,) = shape.variants
            assert first.arena.spoiled
            # The copies are what the program reads, and nothing of the arena.
            assert not read[-1] & {storage.data_ptr() for storage in first.storages}
            del first
    assert not variant(forward).arena.spoiled and variant(backward).reuse is None
    assert tensord.stats()["cuda_graphs_sharing"] == 0
    assert not tensord.stats()["cuda_graph_reasons"]


def test_no_memory_for_the_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, backward, _ = forward_and_backward()
    for i in range(12):
        if i == WARM_UP:  # forward is captured, backward cannot be
            result, *_ = forward([torch.ones(SIZE)])
            del result, _

            def none(*arguments: object) -> None:
                raise torch.OutOfMemoryError("CUDA out of memory")

            monkeypatch.setattr(graphed_program._WORKSPACES, "take", none)
        if i == WARM_UP + 2:
            monkeypatch.undo()
            monkeypatch.setattr(arena, "LEAST_BYTES", 1)
        step(forward, backward, torch.full((SIZE,), float(i)))
    assert variant(backward).reuse is not None
    assert "out of memory" in next(iter(tensord.stats()["cuda_graph_reasons"]))


def test_a_capture_that_fails_in_an_arena_is_made_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    forward, backward, device = forward_and_backward()
    shared, capture = [], device.capture

    def fails_once(run: object, inputs: list[object], pool: list[Tensor]) -> object:
        shared.append(pool is variant(forward).arena.pool)
        if len(shared) == 1:
            inputs.clear()
            raise RuntimeError("operation not permitted")
        return capture(run, inputs, pool)

    monkeypatch.setattr(device, "capture", fails_once)
    for i in range(6):
        step(forward, backward, torch.full((SIZE,), float(i)))
    assert shared == [True, False]
    assert variant(forward).arena.closed and variant(backward).reuse is None
    assert not tensord.stats()["cuda_graph_reasons"]


def test_an_empty_view_of_what_is_reused() -> None:
    forward, _ = graphed(lambda x: [(y := x.cos()), y[:0]])
    backward, device = graphed(lambda a, b: [a * 2, b + 1], reads_last=True)
    for i in range(6):
        x = torch.full((SIZE,), float(i))
        first, second = backward(forward([x]))
        assert torch.equal(first, x.cos() * 2) and second.shape == (0,)
        del first, second
    assert device.captures == 1 and variant(backward).reuse is not None


def test_one_replay_in_an_arena_at_a_time() -> None:
    """A thread that comes meanwhile runs its program without the graph."""
    forward, backward, _ = forward_and_backward()
    for i in range(4):
        step(forward, backward, torch.full((SIZE,), float(i)))
    before = tensord.stats()["cuda_graph_replays"]
    x = torch.full((SIZE,), 9.0)
    _, *saved = forward([x])
    with variant(forward).arena.lock:
        assert torch.equal(backward([*saved, torch.ones(SIZE)])[0], x.cos())
    assert tensord.stats()["cuda_graph_replays"] == before + 1
    del _, saved
    step(forward, backward, x)
    assert tensord.stats()["cuda_graph_replays"] == before + 3


def test_a_graph_that_goes_while_its_results_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its program is gone, and its results only the call's, which are out of the list meanwhile."""
    forward, backward, _ = forward_and_backward()
    for i in range(5):
        step(forward, backward, torch.full((SIZE,), float(i)))
    x = torch.full((SIZE,), 7.0)
    _, *saved = forward([x])
    arguments = [*saved, torch.ones(SIZE)]
    kept = saved.pop()
    del forward, _, saved
    put_back = arena.Reuse.put_back

    def late(reuse: arena.Reuse, given: list[Tensor]) -> None:
        gc.collect()
        memory.free_given_up()
        put_back(reuse, given)

    monkeypatch.setattr(arena.Reuse, "put_back", late)
    gradients = backward(arguments)
    assert torch.equal(gradients[0], x.cos()) and torch.equal(kept, x + 1)


@pytest.mark.parametrize("view", [lambda x: x[::2], lambda x: x[:1].expand(SIZE)])
def test_what_is_moved_keeps_its_strides(view: Callable[[Tensor], Tensor]) -> None:
    forward, _ = graphed(lambda x: [view(x.cos()), x.sin()])
    for i in range(4):
        arguments = None  # what is held becomes a copy
        arguments = forward([torch.full((SIZE,), float(i))])
    results = {n: memory.result_of(tensor, 1) for n, tensor in enumerate(arguments)}
    reuse = arena.candidate(arguments, results)
    assert reuse is not None and reuse.numbers() == {0, 1}
    before = [(x.clone(), x.stride(), x.data_ptr()) for x in arguments]
    reuse.move(arguments)
    for moved, (value, stride, address) in zip(arguments, before, strict=True):
        assert torch.equal(moved, value) and moved.stride() == stride
        assert moved.data_ptr() != address
