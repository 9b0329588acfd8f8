# SPDX-License-Identifier: Apache-2.0
"""tensord.compile without a daemon: what it takes, and how a compiled module behaves as its own."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest
import tensord
import torch
from tensord import backend, torch_compat
from tensord.errors import FrameMismatchError
from tensord.frames import graph_calls, hook, recorded_graphs, verify
from tensord.frames.capture_recorder import CaptureRecorder
from tensord.frames.entered import Entered
from tensord.frames.errors import UnrecordableError
from tensord.torch_compat.settings import compile_keywords
from tensord.v1 import frame_pb2
from torch import nn
from torch._dynamo.eval_frame import innermost_fn
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy


def _double(x: Any) -> Any:
    """Twice the argument."""
    return 2 * x


class _Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 3)
        self.dropout = nn.Dropout()
        self.scale = 4

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x) * self.scale


def test_a_function_keeps_its_name_and_text() -> None:
    compiled = tensord.compile(_double)
    assert (compiled.__name__, compiled.__doc__) == ("_double", "Twice the argument.")
    assert compiled.__wrapped__ is _double


@pytest.fixture(params=["0", "1"], autouse=True)
def _frames(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without and with frames: by torch.compile's function from the start, or once it is needed."""
    monkeypatch.setenv("TENSORD_FRAMES", request.param)


def test_without_a_target_it_decorates() -> None:
    @tensord.compile(fullgraph=True, dynamic=False, options={"deterministic": True})
    def function(x: Any) -> Any:
        return x

    assert function.__name__ == "function"


@pytest.mark.parametrize(("error", "told"), [
    (ValueError, {"mode": "no-such-mode"}),
    (ValueError, {"options": {"no_such_option": True}}),
    (TypeError, {"options": {"deterministic": 1}}),
    (TypeError, {"backend": "inductor"}),
    (RuntimeError, {"mode": "default", "options": {"deterministic": True}}),
])  # fmt: skip
def test_what_it_does_not_know_is_refused_at_once(
    error: type[Exception], told: dict[str, Any]
) -> None:
    with pytest.raises(error):
        tensord.compile(_double, **told)


def test_other_keywords_are_torch_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}
    known = compile_keywords()
    assert {"fullgraph", "dynamic", "mode", "options", "disable"} <= known

    def torch_compile(target: Any, **given: Any) -> Any:
        told.update(given)
        return target

    monkeypatch.setattr(torch, "compile", torch_compile)
    more = {"recompile_limit": 3, "name": "region"} if "recompile_limit" in known else {}
    compiled = tensord.compile(_double, dynamic=False, **more)
    with torch.compiler.set_stance("force_eager"):
        compiled(3)
    assert told.pop("backend") is backend.compile_fx
    assert told == {"fullgraph": False, "dynamic": False, "mode": None, "options": None, **more}


def test_what_torch_compile_does_not_take_is_refused() -> None:
    with pytest.raises(TypeError, match="takes no keyword 'no_such'"):
        tensord.compile(_double, no_such=1)


def test_it_can_be_turned_off() -> None:
    assert tensord.compile(_double, disable=True) is _double
    assert tensord.compile(disable=True)(_double) is _double


def test_torch_finds_what_it_stands_for() -> None:
    model = _Model()
    assert innermost_fn(tensord.compile(_double)) is _double
    assert innermost_fn(tensord.compile(model)) == model.forward
    method = model.forward
    assert innermost_fn(tensord.compile(method)) is method


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(TypeError, match="a function or a module, not 3"):
        tensord.compile(3)


class TestCompiledModule:
    def test_it_has_what_the_module_has(self) -> None:
        model = _Model()
        compiled: Any = tensord.compile(model)
        assert isinstance(compiled, nn.Module)
        assert compiled.scale == 4 and compiled.linear is model.linear
        compiled.scale = 5
        assert model.scale == 5
        compiled.extra = nn.Linear(1, 1)
        assert isinstance(model.extra, nn.Linear)
        del compiled.extra
        assert not hasattr(model, "extra")
        with pytest.raises(AttributeError):
            compiled.no_such_attribute  # noqa: B018

    def test_its_parameters_have_the_names_of_torch_compile(self) -> None:
        model = _Model()
        ours, torchs = tensord.compile(model), torch.compile(model, backend="tensord")
        assert list(ours.state_dict()) == list(torchs.state_dict())
        assert [id(one) for one in ours.parameters()] == [id(one) for one in model.parameters()]

    def test_training_is_the_modules(self) -> None:
        model = _Model()
        compiled: Any = tensord.compile(model)
        assert compiled.eval() is compiled
        assert not model.training and not model.dropout.training and not compiled.training
        compiled.train()
        assert model.training and model.dropout.training and compiled.training

    def test_it_moves_with_the_module(self) -> None:
        model = _Model()
        tensord.compile(model).to(torch.float64)
        assert model.linear.weight.dtype == torch.float64

    def test_a_sequence_has_its_length(self) -> None:
        compiled: Any = tensord.compile(nn.Sequential(nn.ReLU(), nn.ReLU()))
        assert len(compiled) == 2


@pytest.mark.parametrize(("value", "on"), [("0", False), ("1", True), ("verify", True)])
def test_the_variable_turns_frames_off(
    monkeypatch: pytest.MonkeyPatch, value: str, on: bool
) -> None:
    monkeypatch.setenv("TENSORD_FRAMES", value)
    assert hook.is_on() == on
    monkeypatch.delenv("TENSORD_FRAMES")
    assert hook.is_on()


def test_the_first_reason_why_a_graph_is_not_recorded_is_kept() -> None:
    with recorded_graphs.wanted(), recorded_graphs.recording() as record:
        recorded_graphs.refuse("the first")
        with recorded_graphs.recording() as inner:
            recorded_graphs.refuse("of another graph")
        recorded_graphs.refuse("the second")
    recorded_graphs.refuse("of nobody")
    assert recorded_graphs.current() is None
    for one, reason in ((record, "the first"), (inner, "of another graph")):
        assert one is not None
        with pytest.raises(UnrecordableError, match=reason):
            one.message("tensord:0")


def test_nothing_is_recorded_that_no_frame_wants() -> None:
    with recorded_graphs.recording() as record:
        assert record is None and recorded_graphs.current() is None
    with recorded_graphs.wanted(), recorded_graphs.recording() as record:
        assert record is not None
    with recorded_graphs.recording() as record:
        assert record is None


def test_a_graph_without_a_program_is_not_recorded() -> None:
    with pytest.raises(UnrecordableError, match="no program of its own"):
        recorded_graphs.GraphRecord().message("tensord:0")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (["inference"], "4294967295 results are more than its inference program gives"),
        (["forward"], "a program of forward and backward has not the other"),
        (["backward"], "a program of forward and backward has not the other"),
        (["forward", "backward"], "4294967295 results are more than its forward program gives"),
        ([], "neither an inference nor a forward program"),
    ],
)
def test_numbers_that_programs_do_not_have_are_refused(fields: list[str], text: str) -> None:
    """Turns 2668 and 7406 of tests/faults/reader.py: before room is made for so many."""
    call = frame_pb2.GraphCall(name="tensord:0", results=0xFFFFFFFF)
    for name in fields:
        getattr(call, name).graph.outputs.add()
    with pytest.raises(ValueError, match=text):
        graph_calls.Starting(call)


def _frame(change: str = "") -> frame_pb2.Frame:
    frame = frame_pb2.Frame()
    graph = frame.graphs.add(name="tensord:0", results=1, result_is_argument=[0])
    graph.inference.arguments = 1
    graph.inference.inputs.append(0)
    graph.inference.graph.inputs.add(name="x").tensor.SetInParent()
    frame.result.code.names.append("tensord:0")
    behind, comprehension = (frame.result.code.constants.items.add().code for _ in range(2))
    behind.name, comprehension.name = "torch_dynamo_resume_in_forward_at_8", "<listcomp>"
    if change == "input":
        graph.inference.inputs[0] = 1
    elif change == "program":
        graph.inference.graph.inputs.add(name="y")
    elif change == "name in the program":
        graph.inference.graph.inputs[0].name = "renamed"
    elif change == "result":
        graph.result_is_argument[0] = 1
    elif change == "graphs":
        frame.graphs.add(name="tensord:1")
    elif change == "names of another class":
        frame.result.code.qualified_name = "Other.forward"
        comprehension.qualified_name = "Other.forward.<locals>.<listcomp>"
    elif change == "bytecode":
        frame.result.code.bytecode = b"\0"
    elif change == "code behind a break":
        behind.variables.append("__is_tracing_resume_prologue")
    elif change == "code of a comprehension":
        comprehension.variables.append("x")
    elif change == "guards":
        frame.guards.add(text="only in one")
    elif change == "sizes":
        graph.inference.graph.symbols.add()
    return frame


class _Captured(CaptureRecorder):
    """A capture that gave this frame."""

    def __init__(self, frame: frame_pb2.Frame) -> None:
        self._given = frame

    def frame(self) -> frame_pb2.Frame:
        return self._given


@pytest.mark.parametrize(("served", "others", "fresh", "differs"), [
    ("", [], "", False),
    ("", [], "bytecode", True),
    ("sizes", [""], "", False),  # another frame of the code is for this size alone
    ("sizes", [], "bytecode", False),  # nobody has recorded this size alone
    ("sizes", [""], "bytecode", True),
    ("sizes", ["sizes"], "bytecode", False),
    ("sizes", [], "graphs", True),  # no capture of the same for fewer sizes
    ("", ["sizes"], "sizes", True),  # more sizes than what served
])  # fmt: skip
def test_a_capture_for_fewer_sizes_is_verified_by_frames_for_as_few(
    served: str, others: list[str], fresh: str, differs: bool
) -> None:
    entered = Entered(_verified.__code__, globals(), {})
    found = [_frame(other) for other in others]
    with pytest.raises(FrameMismatchError) if differs else nullcontext():
        verify.verify(_frame(served), found, entered, _Captured(_frame(fresh)))


def _verified() -> None:
    """What is entered."""


class _SkippedBy211:
    """What Dynamo of 2.11 returns for what it leaves to Python, which does not say why."""

    guarded_code = None

    def __init__(self, action: object = FrameAction.SKIP, code: bool = True) -> None:
        self.frame_exec_strategy = FrameExecStrategy(action, FrameAction.DEFAULT)
        self.apply_to_code = code


def _skipped_for(reason: str) -> ConvertFrameReturn:
    """What Dynamo of 2.13 returns for what it leaves to Python."""
    returned = ConvertFrameReturn()
    returned.skip_reason = reason  # 2.11 has no such field
    return returned


def test_what_dynamo_found_nothing_in() -> None:
    says_why = _skipped_for("Dynamo decided to skip the frame while tracing: x")
    assert torch_compat.found_nothing(says_why, False)
    assert not torch_compat.found_nothing(_skipped_for(""), True)
    assert not torch_compat.found_nothing(_skipped_for("in a skipfile"), True)
    assert torch_compat.found_nothing(_SkippedBy211(), True)
    assert not torch_compat.found_nothing(_SkippedBy211(), False)
    assert not torch_compat.found_nothing(_SkippedBy211(code=False), True)
    assert not torch_compat.found_nothing(_SkippedBy211(FrameAction.RUN_ONLY), True)


@pytest.mark.parametrize(("change", "said"), [
    ("", None),
    ("name in the program", None),
    ("guards", None),
    ("names of another class", None),
    ("input", "inference of tensord:0"),
    ("program", "inference of tensord:0"),
    ("result", "result_is_argument of tensord:0"),
    ("graphs", "2 graphs instead of 1"),
    ("bytecode", "code"),
    ("code behind a break", None),
    ("code of a comprehension", "constant 1"),
])  # fmt: skip
def test_what_verify_takes_for_a_difference(change: str, said: str | None) -> None:
    found = next(verify._differences(_frame(), _frame(change)), None)
    assert found == said if said is None else said in (found or "")
