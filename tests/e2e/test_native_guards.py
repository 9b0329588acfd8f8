# SPDX-License-Identifier: Apache-2.0
"""The guard tree, native and in Python: what each check holds for, and what not."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from tensord import _native
from tensord._native import build as native_build
from tensord.bridge import runtime
from tensord.bridge.call_backs import run_step
from tensord.frames import in_python
from tensord.v1 import frame_pb2

Step = frame_pb2.FrameSource.Step

# The numbers of guard_checks.h.
(
    TYPE, OBJECT, EQUALS, LENGTH, KEYS, KEYS_UNORDERED, CONTAINS, LACKS, HAS_ATTRIBUTE,
    LACKS_ATTRIBUTE, LACKS_OWN, TENSOR, SAME_AS, NOT_NONE, DISTINCT, HOLDS, NAN, OF_CLASS, CLASS,
    ACCEPTED, LEFT, STATE,
) = range(22)  # fmt: skip


@pytest.fixture(scope="module", params=["native", "python"])
def native(request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "python":
        yield in_python
        return
    if not native_build.can_build():
        pytest.skip("no compiler or headers for the native bridge")
    native_build.build()
    module = _native.load(runtime.find_runtime_library(), runtime.runtime_error, run_step)
    assert module is not None
    yield module


def of_x(native: Any, check: int, argument: object) -> Callable[[object], bool]:
    """One check of the local x."""
    tree = native.GuardTree({})
    tree.add_check(check, tree.add_source(Step.LOCAL, -1, "x"), argument, "the check")
    return lambda x: tree({"x": x})


class _Thing:
    def __init__(self) -> None:
        self.own = 1


class _Other:
    own = 1  # its class's


_key = object()
_nan = float("nan")


@pytest.mark.parametrize(
    ("check", "argument", "right", "wrong"),
    [
        (TYPE, int, 3, True),
        (OBJECT, _Thing, _Thing, dict),
        (EQUALS, 2, 2, 2.0),
        (EQUALS, "ab", "a" + "b", "abc"),
        (LENGTH, 2, [1, 2], [1]),
        (LENGTH, 0, {}, {1: 1}),
        (KEYS, ("a", "b"), {"a": 1, "b": 2}, {"b": 2, "a": 1}),
        (KEYS, ("a", "b"), {"a": 1, "b": 2}, {"a": 1}),
        (KEYS_UNORDERED, frozenset("ab"), {"b": 2, "a": 1}, {"b": 2, "c": 1}),
        (CONTAINS, _key, {_key: 1}, {}),
        (LACKS, "a", {"b": 1}, {"a": 1}),
        (HAS_ATTRIBUTE, "own", _Thing(), 1),
        (LACKS_ATTRIBUTE, "own", 1, _Thing()),
        (LACKS_OWN, "own", _Other(), _Thing()),
        (NOT_NONE, True, 0, None),
        (NAN, True, _nan, 1.0),
    ],
)  # fmt: skip
def test_a_check_tells_one_value_from_another(
    native: Any, check: int, argument: object, right: object, wrong: object
) -> None:
    holds = of_x(native, check, argument)
    assert holds(right)
    assert not holds(wrong)


def test_sources_are_found_from_the_frame(native: Any) -> None:
    def function(a: int = 5, *, b: int = 7) -> int:
        return a + b + thing.own

    thing = _Thing()
    module = torch.nn.Sequential(torch.nn.Linear(2, 3))
    tree = native.GuardTree({"thing": thing, "function": function})

    def source(step: int, base: int, argument: object) -> int:
        return int(tree.add_source(step, base, argument))

    x = source(Step.LOCAL, -1, "x")
    layers = source(Step.ATTRIBUTE, x, "_modules")
    layer = source(Step.DICTIONARY_ITEM, layers, "0")
    weight = source(Step.ITEM, source(Step.ATTRIBUTE, layer, "_parameters"), "weight")
    found = source(Step.GLOBAL, -1, "function")
    cell = source(Step.ITEM, source(Step.CLOSURE, found, None), 0)
    expected: list[tuple[int, object]] = [
        (source(Step.TYPE, x, None), torch.nn.Sequential),
        (source(Step.SIZE, weight, 1), 2),
        (source(Step.STRIDE, weight, 0), 2),
        (source(Step.STORAGE_OFFSET, weight, None), 0),
        (source(Step.KEY, layers, 0), "0"),
        (source(Step.ITEM_OF_KEY, layers, 0), module[0]),
        (source(Step.ATTRIBUTE, source(Step.GLOBAL, -1, "thing"), "own"), 1),
        (source(Step.OWN_ATTRIBUTE, source(Step.MODULE, -1, thing), "own"), 1),
        (source(Step.CODE, found, None), function.__code__),
        (source(Step.DEFAULT, found, 0), 5),
        (source(Step.KEYWORD_DEFAULT, found, "b"), 7),
        (source(Step.ATTRIBUTE, cell, "cell_contents"), thing),
        (source(Step.GRADIENT, weight, None), None),
        (source(Step.CALL, source(Step.MODULE, -1, weakref.ref(thing)), None), thing),
        (source(Step.ITEM, source(Step.METHOD_ORDER, source(Step.TYPE, x, None), None), 1),
         torch.nn.Module),
        (source(Step.DICTIONARY_ITEM,
                source(Step.TYPE_DICTIONARY, source(Step.MODULE, -1, _Thing), None), "__init__"),
         _Thing.__init__),
    ]  # fmt: skip
    for number, value in expected:
        check = EQUALS if isinstance(value, (int, str)) and not isinstance(value, bool) else OBJECT
        tree.add_check(check, number, value, f"source {number}")
    assert tree.failure({"x": module}) is None
    module[0].weight = torch.nn.Parameter(torch.zeros(3, 4))
    assert tree.failure({"x": module}) == f"source {expected[1][0]}"
    assert not tree({"x": 3})
    assert not tree({})


def tensor_facts(native: Any, x: torch.Tensor, sizes: Any, strides: Any, marks: Any) -> Any:
    keys = native.dispatch_keys(x)
    return (type(x), x.dtype, -1, x.requires_grad, keys, sizes, strides, marks)


def test_a_tensor_is_known_by_all_that_a_program_depends_on(native: Any) -> None:
    x = torch.zeros(2, 3, requires_grad=True)
    facts = tensor_facts(native, x, (None, 3), (3, 1), {"_dynamo_dynamic_indices": {0, 1}})
    holds = of_x(native, TENSOR, facts)
    assert holds(x)
    assert holds(torch.ones(9, 3, requires_grad=True))
    marked = torch.ones(9, 3, requires_grad=True)
    torch._dynamo.mark_dynamic(marked, 0)
    assert holds(marked)
    torch._dynamo.maybe_mark_dynamic(marked, 1)
    wrong = [
        marked,
        torch.zeros(2, 3),
        torch.zeros(2, 3, dtype=torch.float64, requires_grad=True),
        torch.zeros(2, 4, requires_grad=True),
        torch.zeros(3, requires_grad=True),
        torch.zeros(3, 2).t().requires_grad_(),
        torch.nn.Parameter(torch.zeros(2, 3)),
        torch.zeros(2, 3, requires_grad=True, device="meta"),
        torch.zeros(2, 3).to_sparse().requires_grad_(),
        3,
    ]
    assert [holds(tensor) for tensor in wrong] == [False] * len(wrong)
    with torch.no_grad():
        assert not holds(x)
    with torch.inference_mode():
        assert not holds(torch.zeros(2, 3))


def test_checks_of_several_sources(native: Any) -> None:
    tree = native.GuardTree({})
    a, b, c = (tree.add_source(Step.LOCAL, -1, name) for name in "abc")
    tree.add_check(SAME_AS, b, a, "b is a")
    tree.add_check(DISTINCT, -1, (a, c), "a and c are two")
    tree.add_check(HOLDS, -1, (lambda a, c: len(a) < len(c), (a, c)), "a is shorter")
    one, two = [1], [1, 2]
    assert tree.failure({"a": one, "b": one, "c": two}) is None
    assert tree.failure({"a": one, "b": [1], "c": two}) == "b is a"
    assert tree.failure({"a": two, "b": two, "c": two}) == "a and c are two"
    assert tree.failure({"a": two, "b": two, "c": one}) == "a is shorter"


def test_a_class_is_asked_about_again_when_it_or_a_base_changes(native: Any) -> None:
    class Base:
        pass

    class Derived(Base):
        pass

    asked: list[type] = []
    for check, value in ((OF_CLASS, Derived()), (CLASS, Derived)):
        asked.clear()
        holds = of_x(native, check, lambda cls: asked.append(cls) or cls is Derived)
        assert holds(value)
        assert holds(value)
        assert asked == [Derived]
        for changed in (Derived, Base):
            version = native.type_version(Derived)
            changed.attribute = check  # type: ignore[attr-defined]
            assert native.type_version(Derived) != version
            assert holds(value)
            assert holds(value)
        assert asked == [Derived] * 3
        assert not holds(Base() if check == OF_CLASS else Base)
    assert not of_x(native, CLASS, lambda cls: True)(3)


def test_an_object_is_asked_about_once(native: Any) -> None:
    asked: list[object] = []
    holds = of_x(native, ACCEPTED, lambda value: asked.append(value) or value != 3)
    assert [holds(value) for value in (1, 1, 3, 3, 2, 2)] == [True, True, False, False, True, True]
    assert asked == [1, 3, 3, 2]


def test_what_an_iterator_has_left(native: Any) -> None:
    tree = native.GuardTree({})
    x = tree.add_source(Step.LOCAL, -1, "x")
    tree.add_check(LEFT, x, 2, "two are left")
    second = tree.add_source(Step.TUPLE_ITEM_OF_ITERATOR, x, 1)
    tree.add_check(EQUALS, second, 3, "the last is 3")
    numbers = iter((1, 2, 3))
    assert tree.failure({"x": numbers}) == "two are left"
    next(numbers)
    assert tree({"x": numbers})
    assert tree.failure({"x": iter((3, 2))}) == "the last is 3"
    assert not tree({"x": iter([2, 3])})
    assert not tree({"x": 3})


def test_the_thread_s_state(native: Any) -> None:
    tree = native.GuardTree({})
    tree.add_check(STATE, -1, 0, "nothing beside")
    assert tree({})
    with torch.inference_mode():
        assert native.thread_state() == 1
        assert not tree({})
    with torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x):
        assert native.thread_state() == 2
    with torch.device("meta"):
        assert native.thread_state() == 8


def test_no_function_is_called_but_a_weak_reference(native: Any) -> None:
    called: list[int] = []
    tree = native.GuardTree({})
    tree.add_source(Step.CALL, tree.add_source(Step.LOCAL, -1, "x"), None)
    assert not tree({"x": lambda: called.append(1)})
    assert not called


def test_what_raises_does_not_hold(native: Any) -> None:
    class Raises:
        def __eq__(self, other: object) -> bool:
            raise RuntimeError("compared")

        def __len__(self) -> int:
            raise RuntimeError("measured")

        @property
        def attribute(self) -> int:
            raise RuntimeError("read")

    raises = Raises()
    assert not of_x(native, EQUALS, Raises())(raises)
    assert not of_x(native, LENGTH, 0)(raises)
    tree = native.GuardTree({})
    base = tree.add_source(Step.LOCAL, -1, "x")
    tree.add_source(Step.ATTRIBUTE, base, "attribute")
    assert tree.failure({"x": raises}) == "source 1 is not there"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda tree: tree.add_source(Step.ATTRIBUTE, -1, "x"),
        lambda tree: tree.add_source(Step.ATTRIBUTE, 7, "x"),
        lambda tree: tree.add_source(Step.LOCAL, 0, "x"),
        lambda tree: tree.add_source(99, 0, "x"),
        lambda tree: tree.add_check(99, 0, None, ""),
        lambda tree: tree.add_check(TYPE, 5, int, ""),
        lambda tree: tree.add_check(TYPE, -1, int, ""),
        lambda tree: tree.add_check(SAME_AS, 0, 9, ""),
        lambda tree: tree.add_check(DISTINCT, -1, (0, 9), ""),
        lambda tree: tree.add_check(HOLDS, -1, (len, (9,)), ""),
        lambda tree: tree.add_check(HOLDS, -1, (len,), ""),
        lambda tree: tree.add_check(HOLDS, -1, 3, ""),
        lambda tree: tree.add_check(KEYS, 0, ["a"], ""),
        lambda tree: tree.add_check(TENSOR, 0, (1, 2), ""),
        lambda tree: tree.add_check(LENGTH, 0, "two", ""),
    ],
)
def test_a_tree_of_nonsense_is_refused(native: Any, wrong: Callable[[Any], object]) -> None:
    tree = native.GuardTree({})
    tree.add_source(Step.LOCAL, -1, "x")
    with pytest.raises((ValueError, TypeError, IndexError)):
        wrong(tree)


def test_a_tree_goes_with_what_holds_it(native: Any) -> None:
    holder = _Thing()
    tree = native.GuardTree({"holder": holder})
    tree.add_check(OBJECT, tree.add_source(Step.GLOBAL, -1, "holder"), holder, "")
    holder.tree = tree  # type: ignore[attr-defined]
    gone = weakref.ref(holder)
    del holder, tree
    gc.collect()
    assert gone() is None
