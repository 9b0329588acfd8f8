# SPDX-License-Identifier: Apache-2.0
"""What becomes of graphs that passes change, of passes that fail, and the table of them all.

Passes of the tests' own work on small graphs; at the end the backend runs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import client_passes
import pytest
import tensord
import torch
import torch.utils.checkpoint
from tensord import backend, passes, torch_compat
from tensord import options as known_options
from tensord.counters import STATS
from tensord.errors import BackendFailedError
from tensord.fallback import TensordWarning
from tensord.passes import runner
from tensord.passes.captured import dynamo
from torch import Tensor, fx
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten
STAGES: tuple[passes.Stage, ...] = ("captured", "joint", "partitioned")

pytestmark = pytest.mark.usefixtures("clean")


# -- passes of the tests' own ----------------------------------------------------------------------


def _graph() -> fx.GraphModule:
    """exp(sin(x)) with fake values, under the names of both kinds of graph."""
    module = make_fx(lambda x: x.sin().exp(), tracing_mode="fake")(torch.zeros(2, 3))
    for node in module.graph.nodes:
        if "val" in node.meta:
            node.meta["example_value"] = node.meta["val"]
    return module


def _targets(module: fx.GraphModule) -> list[Any]:
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def _swap(module: fx.GraphModule, old: Any, new: Any) -> int:
    """Calls `new` where `old` was called, as a node of its own."""
    nodes = module.graph.find_nodes(op="call_function", target=old)
    for node in nodes:
        with module.graph.inserting_before(node):
            other = module.graph.call_function(new, node.args)
        other.meta = dict(node.meta)
        node.replace_all_uses_with(other)
        module.graph.erase_node(node)
    return len(nodes)


def _sin_to_cos(module: fx.GraphModule) -> int:
    return _swap(module, aten.sin.default, aten.cos.default)


def _cos_to_tanh(module: fx.GraphModule) -> int:
    return _swap(module, aten.cos.default, aten.tanh.default)


def _exp_to_log(module: fx.GraphModule) -> int:
    return _swap(module, aten.exp.default, aten.log.default)


def _raises(module: fx.GraphModule) -> int:
    _exp_to_log(module)  # half of its work is done
    raise RuntimeError("broken")


def _misplaces(module: fx.GraphModule) -> int:
    """The last node comes before what it reads."""
    last = module.graph.output_node().prev
    module.graph.find_nodes(op="placeholder")[-1].append(last)
    return 1


def _leaves_no_value(module: fx.GraphModule) -> int:
    last = module.graph.output_node().prev
    with module.graph.inserting_after(last):
        new = module.graph.call_function(aten.neg.default, (last,))
    module.graph.output_node().replace_input_with(last, new)
    return 1


def _changes_result(value: Callable[[Tensor], Any]) -> Callable[[fx.GraphModule], int]:
    def run(module: fx.GraphModule) -> int:
        last = module.graph.output_node().prev
        for key in ("val", "example_value"):
            last.meta[key] = value(last.meta[key])
        return 1

    return run


def _adds_argument(module: fx.GraphModule) -> int:
    (argument,) = module.graph.find_nodes(op="placeholder")
    with module.graph.inserting_after(argument):
        module.graph.placeholder("y").meta = dict(argument.meta)
    return 1


def _pass(
    run: Callable[[fx.GraphModule], int | None], stage: passes.Stage = "joint", **more: Any
) -> passes.Pass:
    return passes.Pass(run.__name__, stage, run, **more)


# -- order, counters, and what a pass is for -------------------------------------------------------


@pytest.mark.parametrize("stage", STAGES)
def test_passes_of_a_stage_run_in_the_tables_order(stage: passes.Stage) -> None:
    others = [_pass(_exp_to_log, other) for other in STAGES if other != stage]
    forwards = [*others, _pass(_sin_to_cos, stage), _pass(_cos_to_tanh, stage)]
    module = _graph()
    assert runner.run(forwards, stage, module).changes == {"_sin_to_cos": 1, "_cos_to_tanh": 1}
    assert _targets(module) == [aten.tanh.default, aten.exp.default]
    x = torch.randn(2, 3)
    torch.testing.assert_close(module(x), x.tanh().exp())  # its code is new too
    module = _graph()
    assert runner.run(forwards[::-1], stage, module).changes == {
        "_cos_to_tanh": 0,
        "_sin_to_cos": 1,
    }
    assert _targets(module) == [aten.cos.default, aten.exp.default]


def test_changes_are_counted() -> None:
    table = [_pass(_sin_to_cos, counter="channels_last"), _pass(_exp_to_log)]
    runner.run(table, "joint", _graph())
    runner.run(table, "joint", _graph())
    assert tensord.stats()["channels_last"] == 2


def test_a_pass_that_is_switched_off_does_not_run() -> None:
    table = [_pass(_sin_to_cos, switch="attention"), _pass(_exp_to_log)]
    module = _graph()
    outcome = runner.run(table, "joint", module, off={"attention"})
    assert outcome.changes == {"_exp_to_log": 1}
    assert _targets(module) == [aten.sin.default, aten.log.default]


@pytest.mark.parametrize(
    ("fields", "runs"),
    [
        ({"devices": ("cuda",)}, False),
        ({"devices": ("cpu", "cuda")}, True),
        ({"operators": {aten.cos.default}}, False),
        ({"operators": {aten.cos.default, aten.sin.default}}, True),
        ({"graphs": ("inference",)}, False),
        ({"graphs": ("backward", "inference")}, True),
    ],
)
def test_a_pass_runs_on_the_graphs_that_it_is_for(fields: dict[str, Any], runs: bool) -> None:
    module = _graph()
    table = [_pass(_sin_to_cos, "partitioned", **fields)]
    outcome = runner.run(table, "partitioned", module, label="backward")
    assert outcome.changes == ({"_sin_to_cos": 1} if runs else {})


def test_a_pass_finds_what_the_one_before_left() -> None:
    table = [_pass(_sin_to_cos), _pass(_cos_to_tanh, operators={aten.cos.default})]
    assert runner.run(table, "joint", _graph()).changes["_cos_to_tanh"] == 1


def test_a_pass_may_leave_a_graph_to_torch() -> None:
    assert runner.run([_pass(lambda module: None)], "joint", _graph()).changes == {}


def test_the_way_back() -> None:
    module = _graph()
    code, nodes = module.code, [n.name for n in module.graph.nodes]
    outcome = runner.run([_pass(_sin_to_cos), _pass(_exp_to_log)], "captured", module)
    assert not outcome.changes  # of another stage
    outcome = runner.run([_pass(_sin_to_cos, "captured")], "captured", module)
    assert module.code != code
    outcome.before.restore()
    assert (module.code, [n.name for n in module.graph.nodes]) == (code, nodes)


# -- what fails ------------------------------------------------------------------------------------

FAILING = {
    "raises": (_raises, "broken"),
    "misplaces": (_misplaces, "used before it has been defined"),
    "leaves no value": (_leaves_no_value, "has no fake value"),
    "changes the dtype": (_changes_result(lambda v: v.double()), "result 0 was torch.float32"),
    "changes the strides": (_changes_result(lambda v: v.t().contiguous().t()), "result 0 was"),
    "changes the sizes": (_changes_result(lambda v: v[:1]), "result 0 was"),
    "adds an argument": (_adds_argument, "its arguments were"),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("kind", FAILING)
def test_what_fails_is_undone_as_a_whole(kind: str, stage: passes.Stage) -> None:
    """The others do their work, before and behind it."""
    failing, message = FAILING[kind]
    bad = passes.Pass("bad", stage, failing, counter="heads_grouped")
    table = [_pass(_sin_to_cos, stage, counter="channels_last"), bad, _pass(_cos_to_tanh, stage)]
    module = _graph()
    with pytest.warns(TensordWarning, match=f"the pass bad over the {stage} graph") as warned:
        outcome = runner.run(table, stage, module)
    assert message in str(warned[0].message)
    assert outcome.changes == {"_sin_to_cos": 1, "_cos_to_tanh": 1}
    assert _targets(module) == [aten.tanh.default, aten.exp.default]
    module.graph.lint()
    x = torch.randn(2, 3)
    torch.testing.assert_close(module(x), x.tanh().exp())
    stats = tensord.stats()
    assert (stats["fallbacks"], stats["channels_last"], stats["heads_grouped"]) == (1, 1, 0)


def test_a_failure_is_said_once_and_counted_each_time() -> None:
    with pytest.warns(TensordWarning) as warned:
        for _ in range(3):
            runner.run([_pass(_raises)], "joint", _graph())
    assert len(warned) == 1
    assert tensord.stats()["fallback_reasons"] == {BackendFailedError.reason: 3}


def test_all_of_several_that_fail_are_left_out() -> None:
    module = _graph()
    table = [_pass(_raises), _pass(_sin_to_cos), _pass(_misplaces)]
    with pytest.warns(TensordWarning):
        assert runner.run(table, "joint", module).changes == {"_sin_to_cos": 1}
    assert tensord.stats()["fallbacks"] == 2


def test_a_failure_is_an_error_in_strict_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TENSORD_STRICT", "1")
    module = _graph()
    code = module.code
    with pytest.raises(BackendFailedError, match="broken"):
        runner.run([_pass(_sin_to_cos), _pass(_raises)], "joint", module)
    assert module.code == code


def test_gradients_may_lie_otherwise() -> None:
    turned = passes.Pass("turned", "partitioned", _changes_result(lambda v: v.t().contiguous().t()))
    wider = passes.Pass("wider", "partitioned", _changes_result(lambda v: v.double()))
    with pytest.warns(TensordWarning, match="result 0 was torch.float32"):
        outcome = runner.run([turned, wider], "partitioned", _graph(), label="backward")
    assert outcome.changes == {"turned": 1}


def test_sizes_may_be_written_otherwise() -> None:
    """And strides of what has no elements be any."""

    def halves(module: fx.GraphModule) -> int:
        (result,) = module.graph.output_node().args[0]
        value = result.meta["val"]
        result.meta["val"] = value.view(-1, 2).view(value.shape[0] // 2, 2, -1).view(-1)
        return 1

    def doubles(module: fx.GraphModule) -> int:
        (result,) = module.graph.output_node().args[0]
        result.meta["val"] = torch.cat([result.meta["val"]] * 2)
        return 1

    module = make_fx(lambda x: (x.sin(),), tracing_mode="symbolic")(torch.zeros(6))
    assert runner.run([_pass(halves)], "joint", module).changes == {"halves": 1}
    with pytest.warns(TensordWarning, match="result 0 was"):
        assert runner.run([_pass(doubles)], "joint", module).changes == {}

    def spreads(module: fx.GraphModule) -> int:
        (result,) = module.graph.output_node().args[0]
        result.meta["val"] = result.meta["val"].new_empty_strided((0, 3), (7, 2))
        return 1

    empty = make_fx(lambda x: (x.sin(),), tracing_mode="fake")(torch.zeros(0, 3))
    assert runner.run([_pass(spreads)], "joint", empty).changes == {"spreads": 1}


def test_a_symbol_may_have_become_a_constant() -> None:
    """Strides of a dimension of size 1 say nothing, however the 1 is written."""
    n, m = _sizes(torch.zeros(1, 6), specialize_zero_one=False)
    module = _graph()
    result = module.graph.output_node().args[0]
    result.meta["val"] = torch.empty_strided((n, m), (m, 1), device="meta")
    assert n == 1 and not isinstance(result.meta["val"].shape[0], int)

    def writes_a_number(module: fx.GraphModule) -> int:
        result.meta["val"] = torch.empty_strided((1, m), (7, 1), device="meta")
        return 1

    outcome = runner.run([_pass(writes_a_number)], "joint", module)
    assert outcome.changes == {"writes_a_number": 1}


def _sizes(tensor: Tensor, **settings: bool) -> torch.Size:
    """Its sizes, each a symbol of a ShapeEnv with `settings`."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
    from torch.fx.experimental.symbolic_shapes import StatelessSymbolicContext as Context

    mode = FakeTensorMode(shape_env=ShapeEnv(**settings))
    sizes = Context(dynamic_sizes=[DimDynamic.DYNAMIC] * tensor.dim())
    return mode.from_tensor(tensor, symbolic_context=sizes).shape


def test_what_different_sizes_are_for_example() -> None:
    n, m = _sizes(torch.zeros(4, 4))
    sample_of = torch_compat.sample_of
    assert sample_of(n) != sample_of(m)
    assert sample_of(n * m) != sample_of(n * n)
    assert sample_of(n // 2 * ((2 * m * (n // 2)) // n)) == sample_of(m * (n // 2))
    assert sample_of(n + 1) != sample_of(n)
    assert sample_of(torch.sym_max(n, 2 * m)) != sample_of(n)
    assert sample_of(7) == 7


def test_guards_say_what_different_sizes_may_be_for_example() -> None:
    n, m, k = _sizes(torch.zeros(33, 32, 5))
    sample_of = torch_compat.sample_of
    assert sample_of(n * (1056 // n)) != sample_of(n * m)
    assert n * m == 1056  # a guard
    assert sample_of(n * (1056 // n)) == sample_of(n * m)
    assert sample_of(n * k) != sample_of(n * m)
    assert sample_of(k) != sample_of(n)


def test_none_may_stand_for_an_effect_token() -> None:
    """And for nothing else."""

    def drops(module: fx.GraphModule) -> int:
        module.graph.output_node().args = ((None,),)
        return 1

    empty = make_fx(lambda x: (x[:0].view(-1),), tracing_mode="fake")(torch.zeros(2))
    assert runner.run([_pass(drops)], "joint", empty).changes == {"drops": 1}
    with pytest.warns(TensordWarning, match="result 0 was"):
        assert runner.run([_pass(drops)], "joint", _graph()).changes == {}


def test_what_dynamo_keeps_on_inputs_comes_back() -> None:
    seen = []

    def compile_graph(module: fx.GraphModule, inputs: Any) -> Any:
        def values() -> list[Any]:
            return [
                (n.name, id(n.meta.get("example_value")), getattr(n, "_dynamo_source", None))
                for n in module.graph.nodes
            ]

        before = module.code, values()
        with pytest.warns(TensordWarning, match="broken"):
            runner.run([_pass(_broken_sines, "captured")], "captured", module)
        seen.append((module.code, values()) == before)
        return module.forward

    torch._dynamo.reset()
    torch.compile(_plain, backend=compile_graph)(torch.randn(3))
    assert seen == [True]


# -- the table -------------------------------------------------------------------------------------


def test_each_pass_is_named_as_its_function_and_its_file() -> None:
    for one in passes.TABLE:
        assert one.run.__name__ == one.name
        folders = {f"tensord.passes.{stage}.{one.name}" for stage in STAGES}
        assert one.run.__module__ in folders


def test_each_switch_is_an_option_and_each_counter_a_statistic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switches = {one.switch for one in passes.TABLE} - {None}
    for switch in switches:
        otherwise = not getattr(known_options.Options(), switch)
        off = known_options.switched_off(known_options.parse(None, {switch: otherwise}, {}))
        assert off == {switch}
        with monkeypatch.context() as patch:
            patch.setenv(f"TENSORD_{switch.upper()}", str(int(otherwise)))
            assert known_options.switched_off(known_options.Options()) == {switch}
    assert {one.counter for one in passes.TABLE} - {None} <= STATS.snapshot().keys()


# -- as part of the backend ------------------------------------------------------------------------


def _sines(module: fx.GraphModule) -> list[fx.Node]:
    return [n for n in module.graph.nodes if dynamo.name_of(n) == "sin"]


def _sines_to_cosines(module: fx.GraphModule) -> int:
    """A pass that does not keep results."""
    sines = _sines(module)
    for node in sines:
        node.target = "cos" if node.op == "call_method" else torch.cos
    return len(sines)


def _misplaced_sines(module: fx.GraphModule) -> int:
    """A pass that leaves nodes before what they read: eager would fail too."""
    sines = _sines(module)
    for node in sines:
        module.graph.find_nodes(op="placeholder")[-1].append(node)
    return len(sines)


def _broken_sines(module: fx.GraphModule) -> int:
    _sines_to_cosines(module)
    raise RuntimeError("broken")


def _checkpointed(x: Tensor) -> Tensor:
    body = lambda x: (x + 1).sin()  # noqa: E731
    return torch.utils.checkpoint.checkpoint(body, (x * 2).sin(), use_reentrant=False).exp()


def _plain(x: Tensor) -> Tensor:
    return (x * 2).sin().exp()


def _one_pass(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    one = passes.Pass("one", "captured", run, counter="attention_fused")
    monkeypatch.setattr(passes, "TABLE", (one,))
    monkeypatch.setenv("TENSORD_STRICT", "0")


def _like_eager(function: Callable[[Tensor], Tensor]) -> None:
    def results(call: Any) -> list[Tensor]:
        x = torch.linspace(-1, 1, 12).requires_grad_()
        result = call(x)
        result.sum().backward()
        assert x.grad is not None
        return [result.detach(), x.grad]

    for ours, eager in zip(
        results(torch.compile(function, backend="tensord")), results(function), strict=True
    ):
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("function", [_plain, _checkpointed])
def test_what_fails_behind_a_pass_runs_as_before_it(
    daemon: object, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    def autograd(*arguments: Any) -> Any:
        raise RuntimeError("broken")

    _one_pass(monkeypatch, _sines_to_cosines)
    monkeypatch.setattr(backend, "autograd", lambda *arguments: autograd)
    with pytest.warns(TensordWarning, match="broken"):
        _like_eager(function)
    assert tensord.stats()["attention_fused"] == (2 if function is _checkpointed else 1)


@pytest.mark.parametrize("function", [_plain, _checkpointed])
def test_a_pass_that_leaves_no_sound_graph_is_undone(
    daemon: object, monkeypatch: pytest.MonkeyPatch, function: Any
) -> None:
    """The job's graph is compiled all the same."""
    _one_pass(monkeypatch, _misplaced_sines)
    with pytest.warns(TensordWarning, match="the pass one over the captured graph"):
        _like_eager(function)
    stats = tensord.stats()
    assert (stats["attention_fused"], stats["calls_in_eager"]) == (0, 0)
    assert (stats["fallbacks"], stats["graphs"]) == (1, 2)


@pytest.mark.parametrize("name", [one.name for one in passes.TABLE])
def test_a_pass_of_the_table_that_fails_is_left_out(
    daemon: object, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """It is noted, and the graphs go on."""

    def broken(module: fx.GraphModule) -> int:
        raise RuntimeError("broken")

    monkeypatch.setenv("TENSORD_STRICT", "0")
    client_passes.change(monkeypatch, name, run=broken, devices=(), operators=(), graphs=())
    with pytest.warns(TensordWarning, match=f"the pass {name} over the"):
        _like_eager(_plain)
    failures = {"captured": 1, "joint": 1, "partitioned": 2}  # forward and backward
    stats = tensord.stats()
    expected = sum(failures[one.stage] for one in passes.TABLE if one.name == name)
    assert (stats["fallbacks"], stats["graphs"], stats["calls_in_eager"]) == (expected, 2, 0)
