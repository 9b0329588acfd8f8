# SPDX-License-Identifier: Apache-2.0
"""What a program gives back before its end, through both bridges."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch
from runtime_artifacts import Builder, expr, meta
from tensord.bridge import runtime
from torch.utils._python_dispatch import TorchDispatchMode

pytest_plugins = ["runtime_fixtures"]

SIZE = 8
seen: list[bool] = []
watched: list[weakref.ref] = []


@pytest.fixture(scope="module")
def probe():
    """An operator that notes whether the watched memory is still there."""

    @torch.library.custom_op("tensord_test::probe", mutates_args=())
    def probe(x: torch.Tensor) -> torch.Tensor:
        gc.collect()
        seen.append(watched[0]() is not None)
        if x[0] < 0:
            raise ValueError("a negative number")
        return x.clone()

    return probe


def with_steps(b, x, t, operator):
    """t = x + 1; out = operator(t) + 1."""
    u = b.buffer(meta=meta([SIZE]), extern_result=True)
    out = b.buffer(meta=meta([SIZE]), owned=True)
    b.launch("plus1", [x, t], [SIZE])
    b.call(operator, [t], [u])
    b.launch("plus1", [u, out], [SIZE])
    b.output(out)
    return b.a


def plan(store, probe, parameter=False):
    """out = probe(x + 1) + 1."""
    b = Builder(store)
    x = b.input(meta([SIZE]))
    b.a.inputs[0].is_parameter = parameter
    return with_steps(b, x, b.buffer(meta=meta([SIZE]), owned=True), "tensord_test::probe")


def made(value=1.0):
    """A list of one tensor, of which the memory is watched."""
    memory = torch.full((SIZE,), value).numpy()
    watched[:] = [weakref.ref(memory)]
    seen.clear()
    return [torch.from_numpy(memory)]


def test_what_only_the_list_held_goes(load, store, probe):
    program = load(plan(store, probe))
    for _ in range(3):
        arguments = made()
        (out,) = program(arguments)
        assert arguments == [] and seen == [False]
        torch.testing.assert_close(out, torch.full((SIZE,), 3.0))
    assert watched[0]() is None


def test_what_others_hold_stays(load, store, probe):
    arguments = made()
    kept = arguments[0]
    load(plan(store, probe))(arguments)
    assert arguments == [] and seen == [True]
    assert torch.equal(kept, torch.ones(SIZE))
    (out,) = load(plan(store, probe))(kept)  # not in a list: borrowed
    assert torch.equal(kept, torch.ones(SIZE)) and out[0] == 3


def test_parameters_stay(load, store, probe):
    load(plan(store, probe, parameter=True))(made())
    assert seen == [True]


def test_a_failure_in_the_middle_leaks_nothing(load, store, probe):
    arguments = made(-5.0)
    with pytest.raises(runtime.TensordRuntimeError, match="a negative number") as caught:
        load(plan(store, probe))(arguments)
    assert caught.value.code == runtime.OPERATOR
    del caught
    gc.collect()
    assert arguments == [] and seen == [False] and watched[0]() is None


def test_a_call_that_does_not_begin_leaves_its_list(load, store, probe):
    program = load(plan(store, probe))
    arguments = [torch.arange(SIZE + 1.0)]
    with pytest.raises(runtime.TensordRuntimeError) as caught:
        program(arguments)
    assert caught.value.code == runtime.INVALID
    (tensor,) = arguments
    torch.testing.assert_close(tensor, torch.arange(SIZE + 1.0))


# ---- What is given away


@pytest.fixture(scope="module")
def address():
    """An operator that notes where its argument lies."""

    @torch.library.custom_op("tensord_test::address", mutates_args=())
    def address(x: torch.Tensor) -> torch.Tensor:
        addresses.append(x.data_ptr())
        return x.clone()

    return address


addresses: list[int] = []


def donated_plan(store):
    """out = address(x + 1) + 1, where x + 1 may lie in x's memory."""
    b = Builder(store)
    x = b.input(meta([SIZE]))
    b.a.inputs[0].is_donated = True
    b.a.workspace_bytes.CopyFrom(expr(64))
    b.a.standalone_bytes.CopyFrom(expr(64))
    block = b.buffer(
        meta=meta([64], [1], torch.uint8), workspace=expr(64), standalone=True, donor=0
    )
    t = b.buffer(meta=meta([SIZE]), view_of=block.number)
    return with_steps(b, x, t, "tensord_test::address")


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (lambda: torch.ones(SIZE), True),
        (lambda: torch.ones(2 * SIZE)[:SIZE], True),
        (lambda: torch.ones(2 * SIZE)[SIZE:], False),
        (lambda: torch.from_numpy(torch.ones(SIZE).numpy()), False),
    ],
    ids=["its own memory", "the beginning of a larger one", "its end", "NumPy's memory"],
)
def test_a_result_takes_the_memory_of_what_nobody_else_has(load, store, address, given, taken):
    program = load(donated_plan(store))
    addresses.clear()
    arguments = [given()]
    at = arguments[0].data_ptr()
    (out,) = program(arguments)
    assert torch.equal(out, torch.full((SIZE,), 3.0))
    assert (addresses == [at]) == taken


@pytest.mark.parametrize("hold", [lambda x: x, lambda x: x[2:4], lambda x: x.untyped_storage()])
def test_what_others_see_is_not_overwritten(load, store, address, hold):
    program = load(donated_plan(store))
    arguments = [torch.ones(SIZE)]
    held = hold(arguments[0])
    (out,) = program(arguments)
    assert torch.equal(out, torch.full((SIZE,), 3.0))
    others = held if isinstance(held, torch.Tensor) else torch.tensor([]).set_(held)
    assert others.numel() > 0 and bool((others == 1).all())


class Keeping(TorchDispatchMode):
    """Keeps all results of operators, as recorders do."""

    def __init__(self) -> None:
        super().__init__()
        self.kept = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.kept.append(func(*args, **(kwargs or {})))
        return self.kept[-1]


def test_what_a_mode_may_keep_is_not_overwritten(load, store, address):
    """The bridge in Python makes tensors that it sees; the native one makes none."""
    program = load(donated_plan(store))
    addresses.clear()
    arguments = [torch.ones(SIZE)]
    at = arguments[0].data_ptr()
    with Keeping():
        (out,) = program(arguments)
    assert torch.equal(out, torch.full((SIZE,), 3.0))
    assert (addresses == [at]) == (load.name == "native")


def test_an_operators_view_of_what_is_given_away_survives(load, store):
    b = Builder(store)
    x = b.input(meta([SIZE]))
    b.a.inputs[0].is_donated = True
    b.a.standalone_bytes.CopyFrom(expr(64))
    block = b.buffer(
        meta=meta([64], [1], torch.uint8), workspace=expr(0), standalone=True, donor=0
    )  # fmt: skip
    view = b.buffer(meta=meta([2, SIZE // 2]), extern_result=True)
    b.call("aten::view", [x, [2, SIZE // 2]], [view])
    t = b.buffer(meta=meta([SIZE]), view_of=block.number)
    b.launch("plus1", [x, t], [SIZE])
    out = b.buffer(meta=meta([SIZE]), owned=True)
    b.launch("plus1", [t, out], [SIZE])
    b.output(view, out)
    view, out = load(b.a)([torch.ones(SIZE)])
    assert torch.equal(view, torch.ones(2, SIZE // 2))
    assert torch.equal(out, torch.full((SIZE,), 3.0))
