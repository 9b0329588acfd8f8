# SPDX-License-Identifier: Apache-2.0
"""What cannot be recorded, and what is not loaded: malformed and foreign guards."""

from __future__ import annotations

import copy
import functools
import os
import random
import subprocess
import sys
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import warm_python
from frame_guards import capture, why_not
from tensord import torch_compat
from tensord.frames import constants, guard_checks, inlined, relations, words
from tensord.frames.errors import UnfitError, UnrecordableError
from tensord.v1 import frame_pb2

pytestmark = pytest.mark.usefixtures("native_guards")
Step = frame_pb2.FrameSource


class _Opaque:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.parametrize(
    "value",
    [
        None, True, False, 3, -(10**30), 0.5, float("inf"), 1 + 2j, "text", "\u00e9",
        b"\0\xff", (), (1, (2,)), [1, [2]], frozenset({1, "a"}), {1, 2}, torch.Size((2, 3)),
        slice(1, None, 2), range(1, 9, 2), torch.float8_e4m3fn, torch.device("cpu"),
        torch.device("meta"), torch.strided,
        torch.channels_last, Ellipsis, {"a": [1], 2: None}, int, torch.nn.Linear, len, torch.relu,
        torch.nn.functional.gelu, torch.Tensor.add, functools.partial, sys, torch.nn.functional,
        torch.ops.aten.relu.default, torch.ops.aten.relu, torch.nn.attention.SDPBackend.MATH,
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_constants_come_back(value: Any) -> None:
    data = constants.write(value).SerializeToString()
    back = constants.read(frame_pb2.FrameConstant.FromString(data))
    assert type(back) is type(value)
    assert back == value


def test_numbers_of_numpy_come_back() -> None:
    numpy = pytest.importorskip("numpy")
    for value in (numpy.float32(1.5), numpy.int8(-3), numpy.uint64(2**63), numpy.bool_(True)):
        back = constants.read(constants.write(value))
        assert type(back) is type(value)
        assert back == value


@pytest.mark.parametrize(
    "value", [object(), _Opaque(), lambda x: x, torch.ones(2), [object()], "\ud800", iter(())]
)
def test_what_another_process_cannot_make_is_no_constant(value: object) -> None:
    with pytest.raises(UnrecordableError):
        constants.write(value)


@pytest.mark.parametrize(
    ("expression", "values", "holds"),
    [
        ("2 <= s0 and s0 <= 9", (5,), True),
        ("2 <= s0 and s0 <= 9", (10,), False),
        ("(s0 % 8) == 0", (16,), True),
        ("s0 // 2 * 2 != s0", (7,), True),
        ("max(1, s0) == s0", (0,), False),
        ("not math.isnan(s0)", (0.5,), True),
        ("s0**2 < 100", (9,), True),
        ("math.trunc(s0) == 3", (3.5,), True),
    ],
)
def test_relations_are_compiled(expression: str, values: tuple[Any, ...], holds: bool) -> None:
    relation = frame_pb2.Relation(expression=expression, symbols=["s0"], sources=[1])
    assert relations.compile_relation(relation)(*values) is holds


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os').system('true')", "s0.__class__", "(lambda: 1)()", "[s0 for s0 in (1,)]",
        "open('x')", "s1", "s0 if s0 else exit()", "math.floor.__self__", "'a' * 10**9", "s0**s0",
        "2**10**10", "max(*s0)", "max(s0, key=print)", "f'{s0}'", "(s0 := 3)", "", "s0 ==",
        "s0; s0", "abs", "s0[0]", "yield s0", "(" * 500 + "s0" + ")" * 500,
    ],
)  # fmt: skip
def test_other_text_is_no_relation(expression: str) -> None:
    relation = frame_pb2.Relation(expression=expression, symbols=["s0"], sources=[1])
    with pytest.raises(UnfitError):
        relations.compile_relation(relation)


@pytest.mark.parametrize("symbols", [["s 0"], ["s0", "s0"], ["s0=3, *_"], ["lambda"]])
def test_symbols_are_names(symbols: list[str]) -> None:
    relation = frame_pb2.Relation(expression="s0 == 1", symbols=symbols)
    with pytest.raises(UnfitError):
        relations.compile_relation(relation)


def test_functions_within_pythons_own_program_are_of_its_version() -> None:
    if sys.version_info >= (3, 11):  # which has such modules
        # Nobody else finds this one: the function around it is gone from its module.
        code = os.environ.encodekey.__code__  # type: ignore[attr-defined]
        assert code.co_filename == "<frozen os>"
        assert inlined.write([code], set()) == []
    exec(compile("def f(): pass", "<frozen no_such_module>", "exec"), made := {})
    with pytest.raises(UnrecordableError, match="no module has the function f"):
        inlined.write([made["f"].__code__], set())


def _helper(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softmax(x, -1)


def _frame() -> frame_pb2.Frame:
    def function(x: torch.Tensor, y: torch.Tensor, table: dict[str, float]) -> torch.Tensor:
        for value in table.values():
            x = _helper(x * value)
        return x + y

    return capture(function, torch.ones(2, 3), torch.ones(2, 3), {"a": 1.0}).frame()


def _unknown_module(frame: frame_pb2.Frame) -> None:
    frame.sources.add(step=Step.MODULE, name="no_such_module")


def _module_of_dynamo(frame: frame_pb2.Frame) -> None:
    frame.sources.add(step=Step.MODULE, name="torch._dynamo.not_there")


def _unknown_function(frame: frame_pb2.Frame) -> None:
    function = frame.inlined.add(path=["nothing"])
    function.code.module, function.code.qualified_name = "torch", "nothing"


def _another_function(frame: frame_pb2.Frame) -> None:
    frame.inlined[0].code.digest = b"x" * 32


def _base_of_nothing(frame: frame_pb2.Frame) -> None:
    frame.sources[0].base = 77


def _a_cell(frame: frame_pb2.Frame) -> None:
    frame.sources.add(step=Step.CELL, name="x")


def _no_check(frame: frame_pb2.Frame) -> None:
    frame.guards.add(source=1)


def _no_source(frame: frame_pb2.Frame) -> None:
    frame.guards.add(source=999, length=1)


def _unknown_object(frame: frame_pb2.Frame) -> None:
    frame.guards.add(source=1).same_object.module = "no_such_module"


def _no_tensor_class(frame: frame_pb2.Frame) -> None:
    tensor = frame.guards.add(source=1).tensor
    tensor.type.module, tensor.type.qualified_name = "builtins", "int"
    tensor.dtype, tensor.device = "float32", "cpu"


def _no_data_type(frame: frame_pb2.Frame) -> None:
    next(g for g in frame.guards if g.HasField("tensor")).tensor.dtype = "nn"


def _unhashable_key(frame: frame_pb2.Frame) -> None:
    frame.guards.add(source=1).keys_unordered.items.add().list.items.add().none = True


def _huge_number(frame: frame_pb2.Frame) -> None:
    frame.guards.add(source=1).equals.integer = "9" * 10_000


@pytest.mark.parametrize(
    "spoil",
    [
        _unknown_module, _module_of_dynamo, _unknown_function, _another_function, _base_of_nothing,
        _a_cell, _no_check, _no_source, _unknown_object, _no_tensor_class, _no_data_type,
        _unhashable_key, _huge_number,
    ],
)  # fmt: skip
def test_foreign_guards_are_unfit(spoil: Callable[[frame_pb2.Frame], None]) -> None:
    frame = _frame()
    guard_checks.load(frame, globals())
    spoil(frame)
    with pytest.raises(UnfitError):
        guard_checks.load(frame, globals())


def test_mutated_guards_are_unfit_or_checked() -> None:
    """Whatever the bytes, nothing but an UnfitError comes of loading, and checking ends."""
    whole = _frame().SerializeToString()
    chance = random.Random(0)
    call = {"x": torch.ones(2, 3), "y": torch.ones(2, 3), "table": {"a": 1.0}}
    for _ in range(2000):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        try:
            frame = frame_pb2.Frame.FromString(bytes(data))
        except Exception:  # no message at all
            continue
        try:
            tree = guard_checks.load(frame, globals())
        except UnfitError:
            continue
        tree(call)


def test_what_2_11_says_of_absent_keys_is_understood() -> None:
    def guard(**named: object) -> Any:
        return types.SimpleNamespace(
            create_fn=functools.partial(print, key="a", **named),
            create_fn_name=lambda: "DICT_CONTAINS",
        )

    assert torch_compat.check_name(guard()) == "DICT_CONTAINS"
    assert torch_compat.check_name(guard(invert=False)) == "DICT_CONTAINS"
    assert torch_compat.check_name(guard(invert=True)) == "DICT_NOT_CONTAINS"


def test_guards_are_said_in_words() -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.ModuleList([torch.nn.Linear(2, 2)])

        def forward(self, x: torch.Tensor) -> Any:
            return self.layers[0](x)

    def function(model: Any, x: torch.Tensor) -> Any:
        return model(x)

    model, x = Model(), torch.ones(2, 2)
    recorded = capture(function, model, x)
    frame = recorded.frame()
    said = {words.source(frame, number) for number in range(len(frame.sources))}
    assert "model._modules['layers']._modules['0']._parameters['weight']" in said
    assert any(
        guard.text.endswith("is a Tensor of float32 [2, 2], strides [2, 1], on cpu")
        for guard in frame.guards
    )
    assert "type(L['model']) is" in why_not(recorded, function, (torch.nn.ReLU(), x))
    del model.layers[0]._parameters["weight"]
    assert "there is no model._modules['layers']._modules['0']._parameters['weight']" in why_not(
        recorded, function, (model, x)
    )


def test_a_module_known_by_its_address_alone_is_not_recorded() -> None:
    class Holder:
        def __init__(self) -> None:
            self.opaque = object()

    holder = Holder()

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + (id(holder.opaque) % 7)

    recorded = capture(function, torch.ones(2))
    if torch.__version__.startswith("2.12."):  # guards no address of a plain object
        assert "id(), which answers otherwise in another process" in recorded.reason
    else:
        assert "ID_MATCH" in recorded.reason
        assert "known by its address alone" in recorded.reason


@pytest.mark.parametrize("value", [None, len, torch.nn.ReLU, "text", torch.nn.ReLU()])
@pytest.mark.parametrize("number", [id, hash])
def test_what_is_made_of_an_address_is_not_recorded(number: Any, value: Any) -> None:
    """Of most of these Dynamo has no guard but the class's, which holds in another process too."""

    def function(x: torch.Tensor) -> torch.Tensor:
        return x + number(value) % 7

    try:
        recorded = capture(function, torch.ones(2))
    except torch._dynamo.exc.Unsupported:  # 2.12 traces no hash()
        assert number is hash
    else:
        assert recorded.reason


def test_an_address_that_is_asked_for_behind_a_copy_is_not_recorded() -> None:
    """Both share the guard of `id` that copy.deepcopy made."""
    settings = {"scale": [2.0]}

    def copies(x: torch.Tensor) -> torch.Tensor:
        return x * copy.deepcopy(settings)["scale"][0]

    def asks(x: torch.Tensor) -> torch.Tensor:
        return copies(x) + id(None) % 7

    class Holder:
        id = 3

    def reads(x: torch.Tensor) -> torch.Tensor:
        return copies(x) + Holder.id

    assert not capture(copies, torch.ones(2)).reason
    assert not capture(reads, torch.ones(2)).reason
    assert "id(), which answers otherwise" in capture(asks, torch.ones(2)).reason


def test_neither_loading_nor_checking_imports_dynamo(tmp_path: Any) -> None:
    path = tmp_path / "frame"
    frame = frame_pb2.Frame()
    source = _frame()
    frame.guards.extend(g for g in source.guards if g.HasField("state"))
    relation = frame.guards.add().relation
    frame.sources.add(step=Step.LOCAL, name="n")
    relation.expression, relation.symbols[:], relation.sources[:] = "s0 > 2", ["s0"], [1]
    tensor = frame.guards.add(source=2)
    frame.sources.add(step=Step.LOCAL, name="x")
    tensor.CopyFrom(next(g for g in source.guards if g.HasField("tensor")))
    tensor.source = 2
    path.write_bytes(frame.SerializeToString())
    program = f"""
import sys, torch
from tensord.frames import guard_checks
from tensord.v1 import frame_pb2
frame = frame_pb2.Frame.FromString(open({str(path)!r}, "rb").read())
tree = guard_checks.load(frame, {{}})
print(tree.failure({{"n": 3, "x": torch.ones(2, 3)}}), tree({{"n": 1, "x": torch.ones(2, 3)}}))
for name in ("torch._dynamo", "torch._inductor", "torch.fx.experimental.symbolic_shapes", "sympy"):
    assert name not in sys.modules, name
"""
    command = [*warm_python.command(), "-c", program]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["None", "False"]
