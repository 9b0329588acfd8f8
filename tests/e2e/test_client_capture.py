# SPDX-License-Identifier: Apache-2.0
"""What the client adds to the time of capture, and what it keeps away from it."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Iterator

import client_passes
import pytest
import torch
import warm_python
from tensord import torch_compat
from tensord.capture import garbage_collection
from tensord.passes.joint import common_subexpressions
from torch import fx
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def thresholds() -> Iterator[tuple[int, int, int]]:
    """As they are left by whatever a test does."""
    before = gc.get_threshold()
    yield before
    gc.set_threshold(*before)


def _full_collections() -> int:
    return gc.get_stats()[2]["collections"]


def _make_garbage(objects: int = 300_000) -> list[list[int]]:
    """Enough that lives on for Python to walk everything, several times in a process as small."""
    return [[i] for i in range(objects)]


# -- garbage collection ----------------------------------------------------------------------------


def test_full_collections_wait_and_younger_ones_do_not(thresholds):
    gc.set_threshold(700, 10, 10)
    gc.collect()
    stats = [generation["collections"] for generation in gc.get_stats()]
    with garbage_collection.waits():
        kept = _make_garbage(len(gc.get_objects()))
    after = [generation["collections"] for generation in gc.get_stats()]
    assert after[2] == stats[2]
    assert after[0] > stats[0]
    assert after[1] > stats[1]
    assert gc.get_threshold() == (700, 10, 10)
    del kept


def test_the_next_full_collection_is_not_due_at_once():
    with garbage_collection.waits():
        kept = _make_garbage()
    assert gc.get_count()[2] == 0
    assert gc.get_freeze_count() == 0
    del kept


def test_what_the_user_froze_stays_frozen():
    gc.freeze()
    try:
        frozen = gc.get_freeze_count()
        with garbage_collection.waits():
            pass
        # What was frozen is still freed when nothing refers to it.
        assert gc.get_freeze_count() > frozen / 2 > 0
    finally:
        gc.unfreeze()


def test_a_collector_that_is_off_stays_off():
    gc.disable()
    try:
        with garbage_collection.waits():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_thresholds_that_were_set_meanwhile_stay():
    with garbage_collection.waits():
        gc.set_threshold(500, 5, 5)
    assert gc.get_threshold() == (500, 5, 5)


def test_the_last_holder_ends_it_whatever_fails(thresholds):
    with garbage_collection.waits():
        with pytest.raises(ValueError), garbage_collection.waits():
            raise ValueError
        assert gc.get_threshold() != thresholds
    assert gc.get_threshold() == thresholds


def test_a_forked_child_collects_as_ever(thresholds):
    with garbage_collection.waits():
        child = os.fork()
        if child == 0:
            os._exit(0 if gc.get_threshold() == thresholds else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_dynamo_itself_is_covered_also_after_a_reset(daemon, thresholds):
    seen = []

    @torch._dynamo.disable
    def note() -> None:
        seen.append(gc.get_threshold())

    # Called by Dynamo itself, before there is a graph to call a backend with.
    torch_compat.around_compiles(_begins := lambda *_: None, lambda *_: None)
    assert _begins in torch._dynamo.callback_handler.start_callbacks
    for _ in range(2):
        torch._dynamo.reset()  # drops what watches Dynamo
        torch.compile(lambda x: x + 1, backend="tensord")(torch.ones(3))
        assert garbage_collection._dynamo_begins in torch._dynamo.callback_handler.start_callbacks
        torch._dynamo.callback_handler.register_start_callback(lambda *_: note())
        torch.compile(lambda x: x + 2, backend="tensord")(torch.ones(3))
    assert len(seen) == 2
    assert all(one != thresholds for one in seen)
    assert gc.get_threshold() == thresholds


def test_a_compile_whose_end_is_not_told_holds_nothing(thresholds):
    garbage_collection._dynamo_begins()
    assert gc.get_threshold() != thresholds
    handler = torch._dynamo.callback_handler
    handler.start_callbacks.clear()  # as torch._dynamo.reset() from another thread does
    handler.end_callbacks.clear()
    garbage_collection.watch_dynamo()
    assert gc.get_threshold() == thresholds


def test_it_is_watched_once():
    for _ in range(3):
        garbage_collection.watch_dynamo()
    handler = torch._dynamo.callback_handler
    assert handler.start_callbacks.count(garbage_collection._dynamo_begins) == 1
    assert handler.end_callbacks.count(garbage_collection._dynamo_ends) == 1


# -- common subexpressions -------------------------------------------------------------------------


def _merged(function, *inputs) -> tuple[int | None, fx.GraphModule]:
    graph = make_fx(function, tracing_mode="fake")(*inputs)
    count = common_subexpressions.common_subexpressions(graph)
    graph.recompile()
    return count, graph


def _count(graph: fx.GraphModule, op) -> int:
    return sum(node.target is op for node in graph.graph.nodes)


def test_equal_calls_become_one_in_a_chain():
    x = torch.randn(4, 5)
    count, graph = _merged(lambda x: (x.exp().sin() * x.exp().sin()).sum(), x)
    assert count == 2
    assert _count(graph, aten.exp.default) == _count(graph, aten.sin.default) == 1
    graph.graph.lint()
    torch.testing.assert_close(graph(x), (x.exp().sin() ** 2).sum())


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.add(1).sin() + x.add(1.0).cos(),
        lambda x: x.div(0.0).sin() + x.div(-0.0).cos(),
        lambda x: x.sum(0).sin() + x.sum(-1).cos(),
        lambda x: x.to(torch.float64).sum() + x.to(torch.float16).sum(),
        lambda x: torch.rand_like(x).sum() + torch.rand_like(x).sum() * 2,
        lambda x: torch.empty_like(x).sum() + torch.empty_like(x).sum() * 2,
    ],
    ids=["1 and 1.0", "0.0 and -0.0", "dimensions", "dtypes", "random", "uninitialised"],
)
def test_calls_that_differ_stay(function):
    count, _ = _merged(function, torch.randn(4, 4))
    assert count == 0


def test_sizes_that_depend_on_data_stay_apart():
    """Each has a symbol of its own, which what follows is described by."""

    def function(x):
        return x.nonzero().float().exp().sum() + x.nonzero().float().sin().sum()

    graph = make_fx(function, tracing_mode="symbolic")(torch.tensor([0.0, 2.0, 0.0, 3.0]))
    common_subexpressions.common_subexpressions(graph)
    assert _count(graph, aten.nonzero.default) == 2


def test_equal_results_stay_tensors_apart():
    count, graph = _merged(lambda x: (x.exp(), x.exp().view(-1)), torch.randn(4, 5))
    assert count == 0
    a, b = graph(torch.randn(4, 5))
    assert a.data_ptr() != b.data_ptr()


def test_a_write_lies_between():
    def function(x, y):
        before = x.exp().sum()
        x.copy_(y)
        return before + x.exp().sum()

    x, y = torch.zeros(3), torch.ones(3)
    count, graph = _merged(function, x, y)
    assert count == 0
    torch.testing.assert_close(graph(x, y), torch.tensor(3 + 3 * torch.e))


def test_what_no_schema_describes_is_left_to_torch():
    graph = fx.Graph()
    x = graph.placeholder("x")
    twice = [graph.call_function(torch.relu, (x,)) for _ in range(2)]
    graph.output(tuple(twice))
    for node in graph.nodes:
        node.meta["val"] = torch.zeros(3)
    assert common_subexpressions.common_subexpressions(fx.GraphModule({}, graph)) is None
    assert len(graph.find_nodes(op="call_function", target=torch.relu)) == 2


@pytest.mark.parametrize("merging", [True, False])
def test_the_users_setting_rules(daemon, monkeypatch, merging):
    from torch._functorch import config

    ran = []
    run = common_subexpressions.common_subexpressions
    noting = lambda joint: ran.append(run(joint)) or ran[-1]  # noqa: E731
    client_passes.change(monkeypatch, "common_subexpressions", run=noting)
    x = torch.randn(4, requires_grad=True)
    with config.patch(cse=merging):
        torch.compile(lambda x: (x.exp() * x.exp().sin()).sum(), backend="tensord")(x).backward()
    assert len(ran) == 1 and (ran[0] is not None) == merging


def test_joint_graphs_are_what_torch_would_make_of_them(daemon, monkeypatch):
    from torch._functorch.compile_utils import fx_graph_cse

    def calls(graph: fx.Graph) -> list[tuple]:
        numbers = {node: i for i, node in enumerate(graph.nodes)}
        return [
            (n.target if n.op == "call_function" else n.op, *map(numbers.get, n.all_input_nodes))
            for n in graph.nodes
        ]

    compared = []
    run = common_subexpressions.common_subexpressions

    def both(joint: fx.GraphModule) -> int | None:
        theirs = calls(fx_graph_cse(joint.graph))
        count = run(joint)
        assert calls(joint.graph) == theirs
        compared.append(count)
        return count

    client_passes.change(monkeypatch, "common_subexpressions", run=both)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.GELU(), torch.nn.Dropout(0.5)
    )
    x = torch.randn(2, 3, 8, 8)

    def loss(x):
        y = model(x)
        return (y.softmax(1) * y.softmax(1) + y.exp() * y.exp()).sum()

    torch.compile(loss, backend="tensord")(x).backward()
    assert len(compared) == 1
    assert compared[0] >= 2


# -- torch's own modules ---------------------------------------------------------------------------

_TRAINING = """
import sys
sys.path.insert(0, {here!r})
import torch
from fake_daemon import FakeBridge, FakeDaemon
fake = FakeDaemon({socket!r})
import tensord
sys.modules["tensord.bridge.runtime"] = FakeBridge(fake)
model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.GELU())
torch.compile(model, backend="tensord")(torch.randn(2, 4)).sum().backward()
wanted = {{"torch._inductor.lowering", "torch._inductor.scheduler", "torch._inductor.ir"}}
assert tensord.stats()["graphs"] == 2, tensord.stats()
assert not tensord.stats()["fallbacks"]
print(*sorted(wanted & set(sys.modules)))
fake.stop()
"""


def test_a_training_step_does_not_load_torchinductors_compiler(clean):
    here, socket = os.path.dirname(__file__), str(clean / "s")
    script = _TRAINING.format(here=here, socket=socket)
    command = [*warm_python.command(warm_python.CAPTURE), "-c", script]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == []


def test_autograd_counts_and_raises_as_torchs_does():
    from torch._dynamo.utils import counters

    def fails(module, inputs):
        raise RuntimeError("this compiler fails")

    counters.clear()
    graph = fx.symbolic_trace(lambda x: x.sin())
    backend = torch_compat.autograd(fw_compiler=fails, bw_compiler=fails, inference_compiler=fails)
    with pytest.raises(RuntimeError, match="this compiler fails"):
        torch.compile(graph, backend=backend)(torch.ones(3))
    assert counters["aot_autograd"] == {"total": 1, "not_ok": 1}
