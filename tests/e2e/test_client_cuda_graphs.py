# SPDX-License-Identifier: Apache-2.0
"""CUDA graphs over programs (graphed_program.py), with a device that needs no GPU."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from typing import Any

import pytest
import tensord
import torch
from fake_graphs import FakeDevice, FakeGraph, boxed, graphed
from tensord.cuda_graphs import graphed_program, memory
from tensord.cuda_graphs.graphed_program import MAX_VARIANTS, WARM_UP, GraphedProgram
from tensord.cuda_graphs.plan import Plan, plan_of
from torch import Tensor

pytestmark = pytest.mark.usefixtures("no_graphs_yet")

PLAIN = Plan(frozenset(), frozenset())


def test_captured_after_warming_up() -> None:
    run, device = graphed(lambda x: [x * 2 + 1])
    for i in range(WARM_UP + 4):
        arguments = [torch.full((5,), float(i))]
        assert torch.equal(run(arguments)[0], torch.full((5,), 2.0 * i + 1))
        assert arguments == []
        assert device.captures == int(i >= WARM_UP)
    stats = tensord.stats()
    assert (stats["cuda_graphs"], stats["cuda_graph_replays"]) == (1, 4)


def test_parameters_are_read_where_they_lie() -> None:
    weight = torch.ones(4)
    run, device = graphed(lambda w, x: [w * x], static={0})
    for _ in range(6):
        assert torch.equal(run([weight, torch.full((4,), 3.0)])[0], weight * 3)
        weight += 1  # an optimizer's step
    assert device.captures == 1
    moved = weight.clone()
    assert torch.equal(run([moved, torch.full((4,), 3.0)])[0], moved * 3)
    assert device.captures == 2


def test_held_results_stay_and_become_copies() -> None:
    run, device = graphed(lambda x: [x + 1, x * 2])
    held = []
    for i in range(10):
        first, _ = run([torch.full((3,), float(i))])
        held.append(first)
    assert [t[0].item() for t in held] == [i + 1.0 for i in range(10)]
    assert device.captures == 2
    assert tensord.stats()["cuda_graphs_held"] == 1


def test_held_views_count_too() -> None:
    run, _ = graphed(lambda x: [x + 1])
    held = [run([torch.full((4,), float(i))])[0][1:].detach() for i in range(8)]
    assert [t[0].item() for t in held] == [i + 1.0 for i in range(8)]


def test_results_in_one_memory() -> None:
    def function(x: Tensor) -> list[Any]:
        y = x * 3
        return [y, y[2:], 7, None]

    run, _ = graphed(function)
    for i in range(6):
        whole, part, number, nothing = run([torch.arange(4.0) + i])
        assert torch.equal(whole, (torch.arange(4.0) + i) * 3)
        assert part.data_ptr() == whole[2:].data_ptr() and torch.equal(part, whole[2:])
        assert (number, nothing) == (7, None)
        del whole, part


def test_arguments_that_are_results() -> None:
    run, device = graphed(lambda x: [x, x[1:], x + 1])
    for i in range(6):
        x = torch.arange(3.0) + i
        same, part, more = run([x])
        assert same is x or same.data_ptr() == x.data_ptr()
        assert part.data_ptr() == x[1:].data_ptr()
        assert torch.equal(more, x + 1)
        del more
    assert device.captures == 1


def test_written_arguments_are_copied_back() -> None:
    def function(x: Tensor, y: Tensor) -> list[Any]:
        x.copy_(x + y)
        return [x * 2]

    run, device = graphed(function, written={0})
    x = torch.zeros(3)
    for i in range(1, 6):
        result = run([x, torch.ones(3)])[0]
        assert torch.equal(x, torch.full((3,), float(i)))
        assert torch.equal(result, x * 2)
        del result
    assert device.captures == 1


def test_results_of_one_graph_are_read_by_another_where_they_lie() -> None:
    forward, _ = graphed(lambda x: [x.sin(), x.cos()])
    backward, device = graphed(lambda saved, grad: [saved * grad])
    for i in range(8):
        x = torch.full((4,), float(i))
        result, saved = forward([x])
        del result
        assert torch.equal(backward([saved, torch.ones(4)])[0], x.cos())
        del saved
    assert device.captures == 1
    (shape,) = backward._shapes.values()
    assert shape.variants[0].fixed == [0] and list(shape.variants[0].buffers) == [1]


def test_two_forwards_then_two_backwards() -> None:
    forward, _ = graphed(lambda x: [x.exp()])
    for i in range(6):
        a, b = torch.full((3,), float(i)), torch.full((3,), i + 0.5)
        first, second = forward([a])[0], forward([b])[0]
        assert torch.equal(first, a.exp()) and torch.equal(second, b.exp())


def test_expanded_inputs() -> None:
    run, device = graphed(lambda x: [x + 1])
    for i in range(5):
        x = torch.full((1, 3), float(i)).expand(4, 3)
        assert torch.equal(run([x])[0], x + 1)
    assert device.captures == 1


def test_shapes_are_kept_under_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_CUDA_GRAPHS_LIMIT", "3")
    run, device = graphed(lambda x: [x + 1], keyed=(0,))
    for size in range(1, 1001):
        for _ in range(WARM_UP + 1):
            assert torch.equal(run([torch.ones(size)])[0], torch.full((size,), 2.0))
        assert sum(bool(shape.variants) for shape in run._shapes.values()) <= 3
    gc.collect()
    stats = tensord.stats()
    assert stats["cuda_graphs_evicted"] <= 12 and device.captures <= 15
    assert stats["cuda_graph_reasons"]
    assert len(memory._GRAPH_MEMORY) <= 3 and not memory._GIVEN_UP


def test_the_least_recently_used_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_CUDA_GRAPHS_LIMIT", "2")
    run, device = graphed(lambda x: [x + 1], keyed=(0,))
    for size in (1, 2, 1, 3, 1):
        for _ in range(WARM_UP + 1):
            run([torch.ones(size)])
    assert device.captures == 3  # 1 stayed, 2 went


def test_a_given_up_graph_lives_as_long_as_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_CUDA_GRAPHS_LIMIT", "1")
    run, _ = graphed(lambda x: [x + 1], keyed=(0,))
    for _ in range(WARM_UP + 1):
        held = run([torch.ones(5)])[0]
    for _ in range(WARM_UP + 1):
        run([torch.ones(6)])
    assert len(memory._GIVEN_UP) == 1
    assert torch.equal(held, torch.full((5,), 2.0))
    del held
    memory.free_given_up()
    assert not memory._GIVEN_UP


def test_results_outlive_their_program() -> None:
    run, _ = graphed(lambda x: [x + 1])
    for _ in range(WARM_UP + 1):
        held = run([torch.ones(5)])[0]
    assert memory._GRAPH_MEMORY
    del run
    gc.collect()
    assert len(memory._GIVEN_UP) == 1 and not memory._GRAPH_MEMORY
    assert torch.equal(held, torch.full((5,), 2.0))
    del held
    memory.free_given_up()
    assert not memory._GIVEN_UP


def test_nothing_is_freed_during_a_capture() -> None:
    run, _ = graphed(lambda x: [x + 1])
    for _ in range(WARM_UP + 1):
        run([torch.ones(5)])
    with memory.CAPTURE:
        del run
        gc.collect()
        assert len(memory._GIVEN_UP) == 1
    memory.free_given_up()
    assert not memory._GIVEN_UP


def test_resets_of_dynamo_give_up_graphs() -> None:
    run, device = graphed(lambda x: [x + 1])
    for i in range(3):
        for _ in range(WARM_UP + 1):
            held = run([torch.full((3,), 4.0)])[0]
        assert device.captures == i + 1
        graph = weakref.ref(next(iter(run._shapes.values())).variants[0])
        torch._dynamo.reset()
        assert torch.equal(held, torch.full((3,), 5.0))  # what is in use stays
        del held
        torch._dynamo.reset()  # once nothing was captured since
        graphed_program._Reset.reset()
        gc.collect()
        assert graph() is None


def test_a_reset_while_other_threads_make_programs() -> None:
    stop = threading.Event()

    def make() -> None:
        while not stop.is_set():
            graphed(lambda x: [x])

    thread = threading.Thread(target=make)
    thread.start()
    try:
        for _ in range(2000):
            graphed_program._Reset.reset()
    finally:
        stop.set()
        thread.join()


def test_a_reset_leaves_alone_what_is_called() -> None:
    def function(x: Tensor) -> list[Any]:
        graphed_program._Reset.reset()
        return [x + 1]

    run, device = graphed(function)
    for _ in range(WARM_UP + 3):
        assert torch.equal(run([torch.ones(2)])[0], torch.full((2,), 2.0))
    assert device.captures == 1


def test_one_workspace_for_all_graphs_of_a_stream() -> None:
    taken: list[Tensor] = []

    def lend(tensor: Tensor) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext(taken.append(tensor))

    small, large, other = (
        GraphedProgram(
            boxed(lambda x: [x + 1]), PLAIN, FakeDevice(), lambda arguments, n=n: (n, n), lend
        )
        for n in (100, 5 << 20, 200)
    )
    other._device.current = 2
    for _ in range(WARM_UP + 1):
        for run in (small, large, other):
            run([torch.ones(4)])
    first, second, third = (run._shapes[()].variants[0].workspace for run in (small, large, other))
    assert first is second and first.numel() == 6 << 20  # what the largest wants, from the start
    assert third is not first
    assert any(tensor is first for tensor in taken)
    alive = weakref.ref(first)
    del first, second, small, run, taken[:]
    gc.collect()
    assert alive() is not None
    del large
    gc.collect()
    assert alive() is None


def test_copies_keep_their_strides() -> None:
    run, _ = graphed(lambda x: [(x + 1).t(), torch.ones(6).as_strided((2, 2), (3, 1)) * x[0, 0]])
    held = [run([torch.full((2, 2), float(i))]) for i in range(7)]
    assert {tensor.stride() for tensor, _ in held} == {(1, 2)}
    assert [other[0, 0].item() for _, other in held] == [float(i) for i in range(7)]


def test_a_result_held_longer_each_time_ends_as_a_copy() -> None:
    run, device = graphed(lambda x: [x + n for n in range(6)])
    held = []
    for i in range(12):
        results = run([torch.full((2,), float(i))])
        held.append(results[: max(0, i - 2)])
        del results
    for i, results in enumerate(held):
        assert [r[0].item() for r in results] == [float(i + n) for n in range(len(results))]
    assert device.captures == 3
    assert not tensord.stats()["cuda_graph_reasons"]


def test_what_is_only_handed_through_is_not_copied() -> None:
    plan = Plan(frozenset(), frozenset(), unread=frozenset({1}))
    run = GraphedProgram(boxed(lambda x, y: [x + 1, y]), plan, FakeDevice())
    for i in range(5):
        y = torch.full((3,), float(i))
        more, same = run([torch.ones(3), y])
        assert same.data_ptr() == y.data_ptr() and more[0] == 2
    assert list(run._shapes[()].variants[0].buffers) == [0]


def test_graphs_that_read_a_graph_that_is_gone_go_too() -> None:
    forward, _ = graphed(lambda x: [x.exp()])
    backward, device = graphed(lambda saved: [saved * 2])
    held = []
    for i in range(8):
        saved = forward([torch.full((3,), float(i))])[0]
        backward([saved])
        if i == 4:
            held.append(saved)  # forward is captured anew and gives out copies
    (shape,) = backward._shapes.values()
    assert len(shape.variants) == 1 and shape.captures == 1 and device.captures == 2


def test_inputs_that_overlap_themselves() -> None:
    run, _ = graphed(lambda x: [x + 1])
    for _ in range(5):
        x = torch.arange(4.0).as_strided((3, 2), (1, 1))
        assert torch.equal(run([x])[0], x + 1)


def test_views_of_another_dtype() -> None:
    run, _ = graphed(lambda x: [x[2:].view(torch.int16)])
    for _ in range(5):
        x = torch.arange(6, dtype=torch.int32)[1:]
        assert torch.equal(run([x])[0], x[2:].view(torch.int16))


def test_inference_mode_may_come_and_go() -> None:
    run, device = graphed(lambda x: [x + 1])
    for i in range(8):
        with torch.inference_mode(i % 2 == 0):
            assert torch.equal(run([torch.full((2,), float(i))])[0], torch.full((2,), i + 1.0))
    assert device.captures == 1


def test_a_replay_that_fails_is_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that is lost: nothing runs a second time, for part of it may have run."""
    calls = []
    run, _ = graphed(lambda x: [calls.append(1) or x + 1])
    for _ in range(WARM_UP + 1):
        run([torch.ones(2)])

    def lost(graph: FakeGraph) -> None:
        raise RuntimeError("CUDA error: unspecified launch failure")

    monkeypatch.setattr(FakeGraph, "replay", lost)
    before = len(calls)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="launch failure"):
            run([torch.ones(2)])
    assert len(calls) == before


def test_no_memory_for_a_capture() -> None:
    """It is tried again after another warm-up, a few times, and said once."""
    run, device = graphed(lambda x: [x + 1], error=torch.OutOfMemoryError("CUDA out of memory"))
    for i in range(40):
        assert torch.equal(run([torch.ones(2)])[0], torch.full((2,), 2.0))
        if i == 30:
            device.error = None
    assert device.captures == 0  # given up
    ((reason, count),) = tensord.stats()["cuda_graph_reasons"].items()
    assert "out of memory" in reason and count == 1


def test_memory_for_a_capture_comes_later() -> None:
    run, device = graphed(lambda x: [x + 1], error=torch.OutOfMemoryError("CUDA out of memory"))
    for i in range(8):
        assert torch.equal(run([torch.ones(2)])[0], torch.full((2,), 2.0))
        if i == WARM_UP:
            device.error = None
    assert device.captures == 1


def test_a_capture_that_fails_is_said_and_not_tried_again() -> None:
    run, _ = graphed(lambda x: [x + 1], error=RuntimeError("operation not permitted"))
    for _ in range(6):
        assert torch.equal(run([torch.ones(2)])[0], torch.full((2,), 2.0))
    reasons = tensord.stats()["cuda_graph_reasons"]
    assert list(reasons.values()) == [1] and "not permitted" in next(iter(reasons))


def test_addresses_that_always_change() -> None:
    run, device = graphed(lambda w: [w + 1], static={0})
    kept = []
    for _ in range(12):
        kept.append(torch.ones(3))
        assert torch.equal(run([kept[-1]])[0], torch.full((3,), 2.0))
    assert device.captures == MAX_VARIANTS
    assert tensord.stats()["cuda_graph_reasons"]


def test_no_limit_no_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_CUDA_GRAPHS_LIMIT", "0")
    run, device = graphed(lambda x: [x + 1])
    for _ in range(5):
        run([torch.ones(2)])
    assert device.captures == 0


def _graph(device: str, extra: Any = None) -> torch.fx.GraphModule:
    from torch._subclasses import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx

    with FakeTensorMode(allow_non_fake_inputs=True):
        x, y = (torch.empty(4, device=device) for _ in range(2))

        def function(x: Tensor, y: Tensor) -> Any:
            torch.ops.aten.copy_.default(x, y + 1)
            return extra(y) if extra else y * 2

        return make_fx(function)(x, y)


def test_what_a_graph_says_of_itself() -> None:
    plan = plan_of(_graph("cuda"), {1})
    assert plan == Plan(frozenset({1}), frozenset({0}))
    assert "CPU" in plan_of(_graph("cpu"), ()).obstacle
    moved = plan_of(_graph("cuda", lambda y: y.cpu()), ())
    assert "CPU" in moved.obstacle


def test_an_obstacle_is_said_once() -> None:
    device = FakeDevice()
    run = GraphedProgram(
        boxed(lambda x: [x + 1]), Plan(frozenset(), frozenset(), obstacle="why"), device
    )
    for _ in range(5):
        run([torch.ones(2)])
    assert device.captures == 0
    assert tensord.stats()["cuda_graph_reasons"] == {"why": 1}


def test_other_streams_and_captures_of_others() -> None:
    run, device = graphed(lambda x: [x + 1])
    for stream in (1, 1, 1, 2, None, 1):
        device.current = stream
        assert torch.equal(run([torch.ones(2)])[0], torch.full((2,), 2.0))
    # Each stream has a graph of its own: memory is safe in the order of one stream only.
    assert (device.captures, tensord.stats()["cuda_graph_replays"]) == (2, 3)


def test_a_forked_child_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "_is_in_bad_fork", lambda: True)
    with pytest.raises(RuntimeError, match=r"forked after CUDA started.*'spawn'"):
        graphed_program.CudaDevice(0).stream()


def test_a_symbolic_graph_says_which_arguments_differ() -> None:
    from torch.fx.experimental.proxy_tensor import make_fx

    module = make_fx(lambda x, y: (x * 2, y + 1), tracing_mode="symbolic")(
        torch.ones(5), torch.ones(())
    )
    assert plan_of(module, ()).keyed == (0,)
