# SPDX-License-Identifier: Apache-2.0
"""Guards on modules: what they hold, what they are, and the hooks they have."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import frame_guard_cases
import pytest
import torch
from frame_guard_cases import Case, parametrised
from torch import nn

pytestmark = pytest.mark.usefixtures("native_guards")
here = sys.modules[__name__]
Patch = pytest.MonkeyPatch


class Block(nn.Module):
    """A layer of a test's model."""

    scale = 1.0

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.norm = nn.LayerNorm(4)
        self.drop = nn.Dropout(0.5)
        self.flag = True
        self.register_buffer("bias", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.drop(self.norm(self.first(x))) * self.scale + self.bias
        return self.after(x) if self.flag else x

    def after(self, x: torch.Tensor) -> torch.Tensor:
        return x + 1


class Inherits(Block):
    """Overrides nothing."""


class Model(nn.Module):
    """Layers in a list, with a weight that two of them may share."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Inherits()])
        self.one = nn.Linear(4, 4, bias=False)
        self.two = nn.Linear(4, 4, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = x
        for block in self.blocks:
            out = block(x)
        return self.two(self.one(out))  # type: ignore[no-any-return]


def call(model: nn.Module, x: torch.Tensor) -> Any:
    return model(x)


def tensor() -> torch.Tensor:
    return torch.ones(2, 3)


def training_of_the_model(patch: Patch) -> Iterator[Any]:
    model = Model().eval()
    yield call, (model, tensor())
    patch.setattr(model.blocks[0], "training", True)
    patch.setattr(model.blocks[0].drop, "training", True)


def training_of_one_layer(patch: Patch) -> Iterator[Any]:
    model = Model().eval()
    yield call, (model, tensor())
    patch.setattr(model.blocks[1].drop, "training", True)


def flag_of_a_module(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(model.blocks[0], "flag", False)


def number_of_a_layer(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(model.blocks[0].drop, "p", 0.25)


def epsilon_of_a_layer(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(model.blocks[0].norm, "eps", 0.25)


def attribute_of_the_class(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(Block, "scale", 2.0)


def attribute_of_a_subclass(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(Inherits, "scale", 2.0, raising=False)


def forward_replaced(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(Block, "forward", lambda self, x: self.first(x))


def forward_of_a_subclass(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(Inherits, "forward", lambda self, x: self.first(x), raising=False)


def forward_of_one_module(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(model.blocks[0], "forward", lambda x: x)


def method_of_the_class(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(Block, "after", lambda self, x: x)


def method_of_one_module(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(model.blocks[0], "after", lambda x: x)


def forward_of_torch_s_own(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(nn.Linear, "forward", lambda self, x: x @ self.weight.t())


def call_of_all_modules(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(nn.Module, "_call_impl", lambda self, *args, **named: self.forward(*args))


def module_replaced(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.blocks[0]._modules, "norm", nn.Identity())


def module_of_another_size(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model._modules, "two", nn.Linear(4, 5, bias=False))


def module_added(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.blocks._modules, "2", Block())


def module_removed(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.delitem(model.blocks._modules, "1")


def module_set_to_none(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model._modules, "one", None)


def module_of_another_class(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.blocks._modules, "1", Block())


def order_of_modules(patch: Patch) -> Iterator[Any]:
    def function(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        for layer in model.children():
            x = layer(x)
        return x

    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    yield function, (model, tensor())
    patch.setattr(model, "_modules", {"1": model[1], "0": model[0]})


def data_type_of_a_parameter(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    weight = nn.Parameter(model.one.weight.detach().double())
    patch.setitem(model.one._parameters, "weight", weight)


def shape_of_a_parameter(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.one._parameters, "weight", nn.Parameter(torch.zeros(5, 4)))


def strides_of_a_parameter(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    weight = nn.Parameter(model.one.weight.detach().t().contiguous().t())
    patch.setitem(model.one._parameters, "weight", weight)


def gradient_of_a_parameter(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setattr(model.one.weight, "requires_grad", False)


def parameter_as_a_tensor(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    weight = model.one.weight.detach().clone().requires_grad_()
    patch.setitem(model.one._parameters, "weight", weight)


def parameter_set_to_none(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.blocks[0].first._parameters, "bias", None)


def buffer_of_another_type(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.blocks[0]._buffers, "bias", torch.zeros(4, dtype=torch.float64))


def weights_untied(patch: Patch) -> Iterator[Any]:
    model = Model()
    model.two.weight = model.one.weight
    yield call, (model, tensor())
    patch.setitem(model.two._parameters, "weight", nn.Parameter(torch.zeros(4, 4)))


def forward_hook(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.one._forward_hooks, 1, lambda module, given, result: result * 2)


def forward_pre_hook(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.blocks[0]._forward_pre_hooks, 1, lambda module, given: given)


def backward_hook(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    patch.setitem(model.one._backward_hooks, 1, lambda module, given, result: None)


def hook_of_all_modules(patch: Patch) -> Iterator[Any]:
    model = Model()
    yield call, (model, tensor())
    hooks = torch.nn.modules.module._global_forward_hooks
    patch.setitem(hooks, 1, lambda module, given, result: result * 2)


def another_model(patch: Patch) -> Iterator[Any]:
    yield call, (Model(), tensor())
    yield nn.Linear(3, 3), tensor()


CASES: list[Case] = [
    training_of_the_model, training_of_one_layer, flag_of_a_module, number_of_a_layer,
    epsilon_of_a_layer, attribute_of_the_class, attribute_of_a_subclass, forward_replaced,
    forward_of_a_subclass, forward_of_one_module, method_of_the_class, method_of_one_module,
    forward_of_torch_s_own, call_of_all_modules, module_replaced, module_of_another_size,
    module_added, module_removed, module_set_to_none, module_of_another_class, order_of_modules,
    data_type_of_a_parameter, shape_of_a_parameter, strides_of_a_parameter,
    gradient_of_a_parameter, parameter_as_a_tensor, parameter_set_to_none, buffer_of_another_type,
    weights_untied, forward_hook, forward_pre_hook, backward_hook, hook_of_all_modules,
    another_model,
]  # fmt: skip


@parametrised(CASES)
def test_a_change_is_seen(case: Case, monkeypatch: Patch) -> None:
    frame_guard_cases.check(case, monkeypatch)


def test_another_model_of_the_same_making_is_served() -> None:
    from frame_guards import capture, why_not

    recorded = capture(call, Model(), tensor())
    assert why_not(recorded, call, (Model(), tensor() * 3)) == ""
