# SPDX-License-Identifier: Apache-2.0
"""The bytecode of a frame with the globals that it needs, and what is there of Dynamo's modules."""

from __future__ import annotations

import collections
import math
import operator
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.utils
from tensord.frames import bytecode, code_objects, dynamo_stand_ins, recorded_graphs
from tensord.frames.errors import UnfitError, UnrecordableError
from tensord.v1 import frame_pb2

_OWN = "___stack0"  # a name of the user's that looks like one of Dynamo's, and is no global


def _user_global(x: Any) -> Any:
    return x * 1000


class _Record(recorded_graphs.GraphRecord):
    """Of a graph that needs no program."""

    def message(self, name: str) -> frame_pb2.GraphCall:
        return frame_pb2.GraphCall(name=name, results=1)


def _graph(record: recorded_graphs.GraphRecord | None = None) -> Callable[..., Any]:
    def graph(x: Any) -> Any:
        return x + 1

    return recorded_graphs.attach(graph, record or _Record())


def _function(source: str, **made: Any) -> types.FunctionType:
    """The function f of the source, in a module of its own with these globals."""
    scope: dict[str, Any] = {
        "__name__": __name__, "__builtins__": __builtins__, "_user_global": _user_global, **made
    }  # fmt: skip
    exec(compile(source, "user.py", "exec", dont_inherit=True), scope)
    return scope["f"]


def _written(
    function: types.FunctionType,
) -> tuple[frame_pb2.Result, list[frame_pb2.GraphCall]]:
    result, graphs = bytecode.write(function.__code__, function.__globals__)
    return frame_pb2.Result.FromString(result.SerializeToString()), graphs


def _read(
    result: frame_pb2.Result,
    graphs: dict[str, Callable[..., Any]],
    prefix: str = "key",
    **more: Any,
) -> types.FunctionType:
    """As a process that never heard of Dynamo's names reads it."""
    scope = {
        "__name__": __name__,
        "__builtins__": __builtins__,
        "_user_global": _user_global,
        **more,
    }
    code = bytecode.read(result, graphs, prefix, "user.py", scope)
    return types.FunctionType(code, scope)


@pytest.mark.parametrize("prefix", ["___context_manager_0", "___prev_torch_function_mode_stack"])
def test_names_of_variables_are_the_same_in_each_process(prefix: str) -> None:
    def wrote(number: int) -> frame_pb2.Result:
        name = f"{prefix}_{number}"
        code = (lambda: None).__code__.replace(co_varnames=("x", name), co_nlocals=2)
        return bytecode.write(code, {})[0]

    assert wrote(15) == wrote(48)
    assert list(wrote(15).code.variables) == ["x", f"{prefix}_1"]


def named(code: types.CodeType, name: str) -> types.CodeType:
    """The code by that name, also qualified, which codes have since Python 3.11."""
    qualified = {"co_qualname": name} if sys.version_info >= (3, 11) else {}
    return code.replace(co_name=name, **qualified)


def test_names_of_comprehensions_are_the_same_in_each_process() -> None:
    def wrote(name: str) -> frame_pb2.FrameCode:
        inner = named((lambda: None).__code__, name)
        code = (lambda: None).__code__.replace(co_consts=(None, inner))
        return bytecode.write(code, {})[0].code

    code = wrote("__comprehension_forward_at_271_10")
    assert code == wrote("__comprehension_forward_at_280_11")
    assert code.constants.items[1].code.name == "__comprehension_forward_at_1"
    again = code_objects.read(code.constants.items[1].code, "somewhere.py")
    assert bytecode.is_comprehension(again)
    assert not bytecode.is_comprehension(wrote.__code__)
    assert wrote("mine_at_271_10") != wrote("mine_at_271_11")


def test_graphs_are_called_by_names_of_the_frame() -> None:
    function = _function(
        "def f(x): return __compiled_fn_3_ab12(x), __compiled_fn_4_cd34(x), _user_global(x)",
        __compiled_fn_3_ab12=_graph(), __compiled_fn_4_cd34=_graph(),
    )  # fmt: skip
    result, graphs = _written(function)
    assert [graph.name for graph in graphs] == ["tensord:0", "tensord:1"]
    assert not result.globals
    assert "_user_global" in result.code.names
    assert not any("compiled_fn" in name for name in result.code.names)
    again = _read(result, {"tensord:0": operator.neg, "tensord:1": operator.pos})
    assert again(5) == (-5, 5, 5000)
    made = {name for name in again.__globals__ if name.startswith("__key_")}
    assert made == {"__key_0", "__key_1"}


def test_the_same_code_under_other_numbers_gives_the_same_bytes() -> None:
    source = "def f(x): return __compiled_fn_{}(x) + __import_math.floor(x)"
    written = [
        _written(
            _function(source.format(number), **{f"__compiled_fn_{number}": _graph()},
                      __import_math=math)
        )[0].SerializeToString()
        for number in ("10_aa", "77_ff")
    ]  # fmt: skip
    assert written[0] == written[1]


def test_modules_builtins_and_objects_are_found_again() -> None:
    scope = {
        "__import_torch": torch,
        "___builtins": torch.nn.functional.relu,
        "__builtins_dict___7": vars(sys.modules["builtins"]),
    }
    function = _function(
        "def f(x): return __import_torch.neg(x), ___builtins(x), __builtins_dict___7['len'](x)",
        **scope,
    )
    result, graphs = _written(function)
    assert not graphs
    kinds = {one.name: one.WhichOneof("value") for one in result.globals}
    assert kinds == {"tensord:0": "module", "tensord:1": "object", "tensord:2": "builtins"}
    x = torch.tensor([-1.0, 2.0])
    for one, other in zip(_read(result, {})(x), function(x), strict=True):
        assert torch.equal(torch.as_tensor(one), torch.as_tensor(other))


def test_two_frames_of_one_module_have_names_of_their_own() -> None:
    result, _ = _written(_function("def f(x): return __compiled_fn_1(x)", __compiled_fn_1=_graph()))
    scope: dict[str, Any] = {"__name__": __name__, "__builtins__": __builtins__}
    codes = [
        bytecode.read(result, {"tensord:0": graph}, prefix, "user.py", scope)
        for prefix, graph in (("one", operator.neg), ("two", abs))
    ]
    assert [types.FunctionType(code, scope)(-3) for code in codes] == [3, 3]
    assert types.FunctionType(codes[0], scope)(4) == -4


def test_names_that_are_no_globals_stay() -> None:
    function = _function(f"def f(x):\n    {_OWN} = x + 1\n    return {_OWN}")
    result, graphs = _written(function)
    assert not graphs and not result.globals
    assert _read(result, {})(1) == 2


def test_a_continuation_is_a_function_of_the_module() -> None:
    def behind(x: Any, y: Any) -> Any:
        return _user_global(x) + y

    behind = types.FunctionType(behind.__code__, globals(), "behind")
    function = _function("def f(x): return __resume_at_30_1(x, 7)", __resume_at_30_1=behind)
    result, _ = _written(function)
    (one,) = result.globals
    assert one.continuation.of.module == __name__
    assert one.continuation.code.name == "behind"
    assert _read(result, {})(2) == 2007
    other = _read(result, {}, _user_global=lambda x: -x)
    assert other(2) == 5  # it has the globals of the function that it is served to


def test_a_comprehension_behind_a_break_is_a_function_of_the_module() -> None:
    def wrote(number: int) -> frame_pb2.Result:
        name = f"__comprehension_f_at_7_{number}"
        comprehension = _function("def f(x): return [x + i for i in range(3)]")
        code = named(comprehension.__code__, name)
        made = types.FunctionType(code, comprehension.__globals__, name)
        return _written(_function(f"def f(x): return {name}(x)", **{name: made}))[0]

    result = wrote(3)
    assert result == wrote(5)
    assert [one.WhichOneof("value") for one in result.globals] == ["continuation"]
    assert _read(result, {})(4) == [4, 5, 6]


def test_a_continuation_of_a_closure_is_made_of_cells() -> None:
    def outer() -> Any:
        held = [5]

        def behind(x: Any) -> Any:
            return x + held[0]

        return behind

    behind = outer()
    code, f_globals, name = behind.__code__, globals(), "behind"

    def make(closure: Any) -> Any:
        return types.FunctionType(code, f_globals, name, None, closure)

    function = _function("def f(cells): return __resume_at_9_2(cells)(1)", __resume_at_9_2=make)
    result, _ = _written(function)
    assert _read(result, {})(behind.__closure__) == 6 == function(behind.__closure__)


def test_a_continuation_that_was_changed_is_not_taken() -> None:
    def behind(x: Any) -> Any:
        return x + 1

    behind = types.FunctionType(behind.__code__, globals(), "behind")
    result, _ = _written(_function("def f(x): return __resume_at_1(x)", __resume_at_1=behind))
    result.globals[0].continuation.code.names.append("more")
    with pytest.raises(UnfitError, match="other code than was recorded"):
        _read(result, {})


def test_what_no_process_could_find_is_no_frame() -> None:
    class Refused(recorded_graphs.GraphRecord):
        def message(self, name: str) -> frame_pb2.GraphCall:
            raise UnrecordableError("for a reason")

    def with_defaults(x: int = 3) -> int:
        return x

    refused = {
        "a graph runs in eager": {"__compiled_fn_1": lambda x: x},
        "for a reason": {"__compiled_fn_1": _graph(Refused())},
        "no plain function": {"__resume_at_1": with_defaults},
        r"needs an object \(key\): no module has a name": {"___key_7": object()},
    }
    for reason, scope in refused.items():
        (name,) = scope
        function = _function(f"def f(x): return {name}(x)", **scope)
        with pytest.raises(UnrecordableError, match=reason):
            bytecode.write(function.__code__, function.__globals__)


def test_a_constant_without_a_form_is_no_frame() -> None:
    code = _user_global.__code__.replace(co_consts=(None, object()))
    with pytest.raises(UnrecordableError, match="the bytecode has"):
        bytecode.write(code, globals())


def test_what_this_process_lacks_is_unfit() -> None:
    result, _ = _written(_function("def f(x): return __import_torch.neg(x)", __import_torch=torch))
    result.globals[0].module = "no_such_module_at_all"
    with pytest.raises(UnfitError, match="no_such_module_at_all is not loaded"):
        _read(result, {})
    result.globals[0].object.module = "torch"
    result.globals[0].object.qualified_name = "no_such_function"
    with pytest.raises(UnfitError, match="no_such_function"):
        _read(result, {})
    result.globals[0].ClearField("object")
    with pytest.raises(UnfitError, match="is of no kind"):
        _read(result, {})


def test_a_module_of_dynamo_has_a_stand_in_where_it_is_not_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    name = "__import_torch_dot__dynamo_dot_utils"
    function = _function(
        f"def f(x): return {name}.dict_getitem(x, 'a')", **{name: torch._dynamo.utils}
    )
    result, _ = _written(function)
    with monkeypatch.context() as without:
        without.delitem(sys.modules, "torch._dynamo.utils")
        again = _read(result, {})
        assert again({"a": 3}) == 3
        assert "torch._dynamo.utils" not in sys.modules
    assert type(again.__globals__["__key_0"]).__name__ == "_StandIn"
    assert _read(result, {}).__globals__["__key_0"] is torch._dynamo.utils


_STAND_IN = dynamo_stand_ins.stand_in("torch._dynamo.utils")


class _Told:
    """Whose attributes are told to a list before they are set."""

    def __init__(self) -> None:
        object.__setattr__(self, "told", [])

    def __setattr__(self, name: str, value: Any) -> None:
        self.told.append(name)

    @property
    def size(self) -> int:
        return 1


class _Slots:
    __slots__ = ("a",)


class _Dictionary(dict[Any, Any]):
    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("the class's own")


class _List(list[Any]):
    def __getitem__(self, key: Any) -> Any:
        raise AssertionError("the class's own")


@pytest.mark.parametrize("utils", [_STAND_IN, torch._dynamo.utils], ids=["ours", "dynamos"])
class TestStandIns:
    def test_an_attribute_is_set_past_the_class(self, utils: Any) -> None:
        one = _Told()
        utils.object_setattr_ignore_descriptor(one, "a", 3)
        utils.object_setattr_ignore_descriptor(one, "size", 7)
        assert one.a == 3 and one.told == []  # type: ignore[attr-defined]
        assert one.size == 1 and vars(one)["size"] == 7

    def test_an_attribute_of_a_thread(self, utils: Any) -> None:
        one = threading.local()
        if utils is not _STAND_IN and torch.__version__.startswith(("2.11", "2.12")):
            pytest.skip("Dynamo cannot")
        utils.object_setattr_ignore_descriptor(one, "a", 3)
        assert one.a == 3

    def test_no_dictionary_to_set_it_in(self, utils: Any) -> None:
        with pytest.raises(AttributeError):
            utils.object_setattr_ignore_descriptor(_Slots(), "a", 3)

    def test_items_past_the_class(self, utils: Any) -> None:
        assert utils.dict_getitem(_Dictionary(a=1), "a") == 1
        assert utils.dict_getitem(collections.OrderedDict(a=2), "a") == 2
        assert utils.list_getitem(_List([5, 6]), -1) == 6
        with pytest.raises(KeyError):
            utils.dict_getitem({}, "a")
        with pytest.raises(IndexError):
            utils.list_getitem([], 0)

    def test_items_that_an_iterator_has_left(self, utils: Any) -> None:
        iterator = iter((10, 20, 30))
        assert utils.tuple_iterator_getitem(iterator, 2) == 30
        next(iterator)
        assert utils.tuple_iterator_getitem(iterator, 0) == 20
        assert list(iterator) == [20, 30]

    def test_the_marks_around_a_graph(self, utils: Any) -> None:
        utils.record_pregraph_bytecode_exit(utils.record_pregraph_bytecode_enter())


def test_dynamo_has_all_that_has_a_stand_in() -> None:
    for name, functions in dynamo_stand_ins.MODULES.items():
        for function in functions:
            assert callable(getattr(sys.modules[name], function)), f"{name}.{function}"


def test_other_names_are_the_modules() -> None:
    assert _STAND_IN.counters is torch._dynamo.utils.counters
    with pytest.raises(AttributeError):
        _STAND_IN.no_such_name  # noqa: B018
