# SPDX-License-Identifier: Apache-2.0
"""Guards that held are remembered: what changes afterwards is seen all the same."""

from __future__ import annotations

import gc
import sys
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tensord.frames import native
from tensord.v1 import frame_pb2

Step = frame_pb2.FrameSource.Step

# The numbers of guard_checks.h.
_, OBJECT, EQUALS, LENGTH, KEYS = range(5)
LACKS, HAS_ATTRIBUTE, LACKS_OWN, TENSOR, DISTINCT, OF_CLASS = 7, 8, 10, 11, 14, 17

pytestmark = pytest.mark.usefixtures("native_guards")

# Which does not tell who watches a dictionary of attributes: they are looked at in each call.
attributes_are_told = pytest.mark.skipif(
    sys.version_info[:3] == (3, 13, 0), reason="Python 3.13.0 tells nobody of attributes"
)


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 3)
        self.scale = 2
        self.names = ["a"]


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(), Block()


def facts_of(tensor: torch.Tensor) -> tuple[Any, ...]:
    keys = native.module().dispatch_keys(tensor)
    return (
        type(tensor), tensor.dtype, -1, tensor.requires_grad, keys, tuple(tensor.shape),
        tensor.stride(), {},
    )  # fmt: skip


def guards_of(model: Model) -> Any:
    """Of the local `self`: classes, numbers, dictionaries and parameters of its blocks."""
    tree = native.module().GuardTree({})
    weights: list[int] = []

    def add(step: int, base: int, argument: object) -> int:
        return int(tree.add_source(step, base, argument))

    def check(check: int, source: int, argument: object, text: str) -> None:
        tree.add_check(check, source, argument, text)

    root = add(Step.LOCAL, -1, "self")
    check(OF_CLASS, root, lambda cls: cls is Model, "class of self")
    modules = add(Step.ATTRIBUTE, root, "_modules")
    check(KEYS, modules, ("first", "second"), "blocks")
    for name in ("first", "second"):
        block = add(Step.DICTIONARY_ITEM, modules, name)
        check(OF_CLASS, block, lambda cls: cls is Block, f"class of {name}")
        check(LACKS_OWN, block, "forward", f"forward of {name}")
        own = add(Step.ATTRIBUTE, block, "__dict__")
        check(EQUALS, add(Step.DICTIONARY_ITEM, own, "scale"), 2, f"scale of {name}")
        check(EQUALS, add(Step.ATTRIBUTE, block, "training"), True, f"training of {name}")
        names = add(Step.ATTRIBUTE, block, "names")
        check(LENGTH, names, 1, f"names of {name}")
        check(EQUALS, add(Step.ITEM, names, 0), "a", f"name of {name}")
        inner = add(Step.DICTIONARY_ITEM, add(Step.ATTRIBUTE, block, "_modules"), "linear")
        check(OF_CLASS, inner, lambda cls: cls is torch.nn.Linear, f"class of {name}.linear")
        hooks = add(Step.ATTRIBUTE, inner, "_forward_hooks")
        check(LENGTH, hooks, 0, f"hooks of {name}")
        parameters = add(Step.ATTRIBUTE, inner, "_parameters")
        check(KEYS, parameters, ("weight", "bias"), f"parameters of {name}")
        weight = add(Step.DICTIONARY_ITEM, parameters, "weight")
        check(TENSOR, weight, facts_of(model.first.linear.weight), f"weight of {name}")
        weights.append(weight)
    check(DISTINCT, -1, tuple(weights), "two weights")
    return tree


def replace_dictionary(model: Model) -> None:
    model.first.__dict__ = {**model.first.__dict__, "scale": 3}


def refill(model: Model) -> None:
    items = list(model.first.linear._parameters.items())
    model.first.linear._parameters.clear()
    model.first.linear._parameters.update(reversed(items))


def add_to_class(model: Model) -> None:
    del model.first.__dict__["scale"]
    Block.scale = 2  # type: ignore[misc]


CHANGES: dict[str, Callable[[Model], object]] = {
    "scale of first": lambda model: setattr(model.first, "scale", 3),
    "scale of second": lambda model: model.second.__dict__.update(scale=True),
    "training of first": lambda model: model.first.train(False),
    "training of second": lambda model: model.second.eval(),
    "names of first": lambda model: model.first.names.append("b"),
    "name of second": lambda model: model.second.names.__setitem__(0, "c"),
    "hooks of first": lambda model: model.first.linear.register_forward_hook(lambda *_: None),
    "class of self": lambda model: setattr(model, "__class__", type("M", (Model,), {})),
    "class of second": lambda model: setattr(model.second, "__class__", type("B", (Block,), {})),
    "class of first": lambda model: setattr(model, "first", torch.nn.Linear(2, 3)),
    "forward of first": lambda model: setattr(model.first, "forward", print),
    "blocks": lambda model: setattr(model, "third", Block()),
    "parameters of first": refill,
    "weight of first": lambda model: model.first.linear.weight.requires_grad_(False),
    "weight of second": lambda model: setattr(
        model.second.linear, "weight", torch.nn.Parameter(torch.zeros(3, 4))
    ),
    "two weights": lambda model: setattr(model.second.linear, "weight", model.first.linear.weight),
}


@pytest.mark.parametrize("text", CHANGES)
@pytest.mark.parametrize("calls", [1, 2, 50])
def test_a_change_after_calls_that_held_is_seen(text: str, calls: int) -> None:
    model = Model()
    tree, call = guards_of(model), {"self": model}
    assert all(tree(call) for _ in range(calls))
    CHANGES[text](model)
    assert not tree(call)
    assert tree.failure(call) == text
    assert not tree(call)


@attributes_are_told
def test_an_unchanged_model_is_looked_at_where_it_could_change_unseen() -> None:
    model = Model()
    tree = guards_of(model)
    assert tree.looked_at() is None
    assert tree({"self": model})
    looked_at = [text for text in tree.looked_at() if not text.startswith("source")]
    assert looked_at == [
        "weight of first", "weight of second",
        "names of first", "name of first", "names of second", "name of second",
    ]  # fmt: skip


def bare(weight: torch.nn.Parameter) -> None:
    assert not weight.__dict__


def noted(weight: torch.nn.Parameter) -> None:
    weight.note = 1  # as Dynamo does; no mark


def mark(weight: torch.nn.Parameter) -> None:
    torch._dynamo.mark_dynamic(weight, 0)


def transpose(weight: torch.nn.Parameter) -> None:
    weight.data = weight.detach().t().contiguous()


def swap(weight: torch.nn.Parameter) -> None:
    torch.utils.swap_tensors(weight, torch.nn.Parameter(torch.zeros(5, 5)))


def note_more(weight: torch.nn.Parameter) -> None:
    weight.more = 2


def freeze(weight: torch.nn.Parameter) -> None:
    weight.requires_grad_(False)


@pytest.mark.parametrize("begin", [bare, noted])
@pytest.mark.parametrize(
    ("change", "holds"),
    [(mark, False), (transpose, False), (swap, False), (freeze, False), (note_more, True)],
)
def test_a_change_of_a_weight_in_place_is_seen(
    begin: Callable[[torch.nn.Parameter], None],
    change: Callable[[torch.nn.Parameter], None],
    holds: bool,
) -> None:
    model = Model()
    begin(model.first.linear.weight)
    tree, call = guards_of(model), {"self": model}
    assert all(tree(call) for _ in range(3))
    change(model.first.linear.weight)
    assert [tree(call) for _ in range(3)] == [holds] * 3
    assert (tree.failure(call) is None) == holds


def test_tensors_are_compared_in_the_present_grad_mode() -> None:
    model = Model()
    tree, call = guards_of(model), {"self": model}
    assert tree(call) and tree(call)
    with torch.no_grad():
        assert not tree(call)
    assert tree(call)


def test_a_sparse_weight_has_no_strides_to_compare() -> None:
    model = Model()
    weight = torch.eye(3).to_sparse()
    model.first.linear.kernel = weight
    tree = native.module().GuardTree({})
    base = tree.add_source(Step.LOCAL, -1, "self")
    for step, name in (
        (Step.ATTRIBUTE, "first"), (Step.DICTIONARY_ITEM, "linear"), (Step.ATTRIBUTE, "kernel"),
    ):  # fmt: skip
        if name == "linear":
            base = tree.add_source(Step.ATTRIBUTE, base, "_modules")
        base = tree.add_source(step, base, name)
    keys = native.module().dispatch_keys(weight)
    facts = (torch.Tensor, weight.dtype, -1, False, keys, (3, 3), (None, None), {})
    tree.add_check(TENSOR, base, facts, "kernel")
    assert all(tree({"self": model}) for _ in range(3))
    assert "kernel" in tree.looked_at()
    model.first.linear.kernel = torch.eye(4).to_sparse()
    assert not tree({"self": model})


class Holder:
    """Of what is asked for by an attribute."""


def holder_tree(facts: tuple[Any, ...]) -> Any:
    tree = native.module().GuardTree({})
    base = tree.add_source(Step.LOCAL, -1, "h")
    tree.add_check(TENSOR, tree.add_source(Step.ATTRIBUTE, base, "w"), facts, "w")
    return tree


def test_what_took_the_place_of_a_tensor_may_raise_when_it_is_asked() -> None:
    holder: Any = Holder()
    holder.w = torch.ones(2)
    tree, call = holder_tree(facts_of(holder.w)), {"h": holder}
    assert all(tree(call) for _ in range(3))
    gone = Holder()
    holder.w = weakref.proxy(gone)
    del gone
    assert not tree(call) and not tree(call)


class Sized(torch.Tensor):
    """Whose sizes Python says."""

    asked = 0

    @staticmethod
    def __new__(cls, like: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(
            cls, like.shape, dtype=like.dtype, dispatch_sizes_strides_policy="sizes"
        )

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        Sized.asked += 1
        said = {"dim": 1, "sym_size": (2,), "size": (2,), "sym_stride": (1,), "stride": (1,)}
        return said[func.__name__.split(".")[0]]


def test_a_tensor_whose_sizes_python_says_is_looked_at_by_itself() -> None:
    holder: Any = Holder()
    holder.w = Sized(torch.ones(2))
    keys = native.module().dispatch_keys(holder.w)
    tree = holder_tree((Sized, torch.float32, -1, False, keys, (2,), (1,), {}))
    before = Sized.asked
    assert all(tree({"h": holder}) for _ in range(3))
    assert Sized.asked > before, "its class was asked"


def test_attributes_that_change_with_each_call() -> None:
    model = Model()
    weight: Any = model.first.linear.weight
    tree, call = guards_of(model), {"self": model}
    for i in range(100):
        weight.seen = i
        assert tree(call)
    assert tree.looked_at() is not None, "it is remembered all the same"
    mark(weight)
    assert not tree(call)


def test_what_is_as_it_was_holds_again() -> None:
    model = Model()
    tree, call = guards_of(model), {"self": model}
    for _ in range(3):
        assert tree(call)
        model.first.__dict__ = dict(model.first.__dict__)
        assert tree(call)
        replace_dictionary(model)
        assert tree.failure(call) == "scale of first" and not tree(call)
        model.first.scale = 2
        assert tree(call)
        items = dict(model._modules)
        model._modules.clear()
        assert not tree(call)
        model._modules.update(items)
        assert tree(call)


def test_another_object_at_the_same_address_is_another() -> None:
    tree = guards_of(Model())
    for i in range(200):
        model = Model()
        if i % 2:
            model.first.scale = 3
        call = {"self": model}
        assert [tree(call) for _ in range(3)] == [i % 2 == 0] * 3
        del model, call


def test_a_block_that_moved_to_another_model() -> None:
    one, other = Model(), Model()
    tree = guards_of(one)
    other.second.scale = 3
    for _ in range(3):
        assert tree({"self": one})
        assert not tree({"self": other})
    one.first, other.second = other.second, one.first
    assert not tree({"self": one})
    assert tree({"self": other})


def test_many_models_are_remembered_side_by_side() -> None:
    models = [Model() for _ in range(12)]
    tree = guards_of(models[0])
    for _ in range(5):
        assert all(tree({"self": model}) for model in models)
    models[7].second.scale = 3
    assert [tree({"self": model}) for model in models] == [i != 7 for i in range(12)]


def test_a_number_that_changes_with_each_call() -> None:
    model = Model()
    tree, call = guards_of(model), {"self": model}
    for i in range(100):
        model.first.calls = i
        assert tree(call)
    model.first.scale = 3
    assert not tree(call)


def test_the_class_gets_what_its_instance_had() -> None:
    model = Model()
    tree = native.module().GuardTree({})
    root = tree.add_source(Step.LOCAL, -1, "self")
    block = tree.add_source(Step.ATTRIBUTE, root, "first")
    scale = tree.add_source(Step.ATTRIBUTE, block, "scale")
    tree.add_check(EQUALS, scale, 2, "scale")
    call = {"self": model}
    assert tree(call) and tree(call)
    try:
        add_to_class(model)
        assert tree(call) and tree(call)
        Block.scale = 3  # type: ignore[misc]
        assert not tree(call)
        Block.scale = property(lambda self: self.seen)  # type: ignore[assignment,misc]
        model.first.seen = 2
        assert tree(call) and tree(call)
        model.first.seen = 4
        assert not tree(call)
    finally:
        del Block.scale  # type: ignore[misc]


@attributes_are_told
def test_an_attribute_that_is_there_and_goes() -> None:
    model = Model()
    tree = native.module().GuardTree({})
    root = tree.add_source(Step.LOCAL, -1, "self")
    tree.add_check(HAS_ATTRIBUTE, root, "own", "own")
    tree.add_check(HAS_ATTRIBUTE, root, "first", "first")
    model.own = 1
    call = {"self": model}
    assert tree(call)
    assert tree.looked_at() == ["first"]  # which code of the class finds
    model.own = 2
    assert tree(call) and tree(call)
    del model.own
    assert not tree(call)
    model.own = 1
    assert tree(call) and tree(call)
    del model.first
    assert not tree(call)


def test_an_attribute_that_code_finds_is_asked_for_each_time() -> None:
    class Asked:
        def __init__(self) -> None:
            self.own = 1

        def __getattribute__(self, name: str) -> Any:
            return answer[0] if name == "own" else object.__getattribute__(self, name)

    answer = [1]
    tree = native.module().GuardTree({})
    root = tree.add_source(Step.LOCAL, -1, "x")
    tree.add_check(EQUALS, tree.add_source(Step.ATTRIBUTE, root, "own"), 1, "own")
    call = {"x": Asked()}
    assert tree(call) and tree(call)
    answer[0] = 2
    assert not tree(call)


def test_code_put_into_a_function() -> None:
    def function() -> int:
        return 1

    class Holder:
        pass

    holder = Holder()
    holder.function = function  # type: ignore[attr-defined]
    tree = native.module().GuardTree({})
    root = tree.add_source(Step.LOCAL, -1, "x")
    found = tree.add_source(Step.OWN_ATTRIBUTE, root, "function")
    code = tree.add_source(Step.CODE, found, None)
    tree.add_check(OBJECT, code, function.__code__, "code")
    assert tree({"x": holder}) and tree({"x": holder})
    function.__code__ = (lambda: 2).__code__
    assert not tree({"x": holder})


def test_keys_of_dictionaries_and_what_is_not_in_them() -> None:
    tree = native.module().GuardTree({})
    root = tree.add_source(Step.LOCAL, -1, "x")
    tree.add_check(LACKS, root, "b", "b")
    tree.add_check(EQUALS, tree.add_source(Step.ITEM, root, "a"), 1, "a")
    tree.add_check(EQUALS, tree.add_source(Step.KEY, root, 0), "a", "first")
    for kind in (dict, OrderedDict):
        x = kind(a=1)
        assert tree({"x": x}) and tree({"x": x})
        x["b"] = 1
        assert not tree({"x": x})
        del x["b"]
        assert tree({"x": x}) and tree({"x": x})
        x["a"] = 2
        assert not tree({"x": x})


def test_nothing_is_kept_alive() -> None:
    model = Model()
    tree = guards_of(model)
    assert all(tree({"self": model}) for _ in range(3))
    gone = [weakref.ref(one) for one in (model, model.first, model.first.linear.weight)]
    del model
    gc.collect()
    assert [one() for one in gone] == [None] * 3
    assert not tree({"self": 3})
