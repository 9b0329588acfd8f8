# SPDX-License-Identifier: Apache-2.0
"""torch.func and NumPy inside of what is compiled; as in eager."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensord
import torch
import torch.nn.functional as F
from both_ways import both_ways, compiled
from torch import Tensor, func, nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


def energy(x: Tensor) -> Tensor:
    return (x.sin() * x.square()).sum()


def field(x: Tensor) -> Tensor:
    return torch.stack([x[0] * x[1], x[1].exp(), x[2] - x[0]])


# -- torch.func -----------------------------------------------------------------------------------

TRANSFORMED: dict[str, Any] = {
    "vmap": lambda x: func.vmap(lambda row: row.softmax(0) * row.max())(x),
    "vmap of vmap": lambda x: func.vmap(func.vmap(lambda a, b: a * b + 1), (0, None))(x, x[0]),
    "vmap, other dimensions": lambda x: func.vmap(torch.dot, in_dims=(1, 1))(x, x),
    "vmap in chunks": lambda x: func.vmap(energy, chunk_size=2)(x),
    "grad": lambda x: func.grad(energy)(x),
    "grad and value": lambda x: func.grad_and_value(energy)(x),
    "gradient of a gradient": lambda x: func.grad(lambda y: func.grad(energy)(y).sum())(x),
    "a gradient a row": lambda x: func.vmap(func.grad(energy))(x),
    "jvp": lambda x: func.jvp(field, (x,), (torch.ones_like(x),)),
    "vjp": lambda x: func.vjp(field, x)[1](torch.ones(3, 3))[0],
    "jacrev": lambda x: func.jacrev(field)(x[0]),
    "jacfwd": lambda x: func.jacfwd(field)(x[0]),
    "hessian": lambda x: func.hessian(energy)(x[0]),
}


@pytest.mark.parametrize("name", TRANSFORMED)
def test_transforms(name: str) -> None:
    both_ways(TRANSFORMED[name], torch.randn(3, 3), fullgraph=False)


def test_a_transform_within_training() -> None:
    """Outer gradients go through an inner one."""
    torch.manual_seed(0)  # where tanh comes near 1, few digits of its slope are left

    def function(x: Tensor, w: Tensor) -> Tensor:
        inner = func.grad(lambda y: (y * w).tanh().sum())(x)
        return (inner - 1).square().sum()

    both_ways(function, torch.randn(5), torch.randn(5, requires_grad=True))


def test_functional_call_and_a_gradient_a_sample() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    parameters = {name: p.detach() for name, p in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Tensor:
        out = func.functional_call(model, parameters, (x.unsqueeze(0),))
        return F.cross_entropy(out, y.unsqueeze(0))

    def function(parameters: dict[str, Tensor], x: Tensor, y: Tensor) -> Any:
        return func.vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)

    both_ways(function, parameters, torch.randn(5, 4), torch.arange(5) % 3)


def test_an_ensemble_of_models() -> None:
    torch.manual_seed(0)
    models = [nn.Linear(4, 3) for _ in range(3)]
    parameters, buffers = func.stack_module_state(models)
    parameters = {name: p.detach().requires_grad_() for name, p in parameters.items()}

    def function(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        call = lambda p, b, x: func.functional_call(models[0], (p, b), (x,)).relu()  # noqa: E731
        return func.vmap(call, in_dims=(0, 0, None))(parameters, buffers, x)

    both_ways(function, parameters, torch.randn(5, 4))


def test_random_numbers_under_vmap_differ_or_not_as_is_said() -> None:
    def function(x: Tensor, randomness: str) -> Tensor:
        return func.vmap(lambda row: row + torch.rand(4), randomness=randomness)(x)

    run = compiled(function)
    same, different = (run(torch.zeros(3, 4), how) for how in ("same", "different"))
    assert torch.equal(same[0], same[1]) and not torch.equal(same[0], same[0].roll(1))
    assert not torch.equal(different[0], different[1])


def test_transforms_of_a_compiled_function() -> None:
    """Dynamo leaves a function that is first called under a transform of the caller's to eager."""
    run = compiled(lambda x: x.sin() * 2)
    x = torch.randn(3, 4)
    torch.testing.assert_close(func.vmap(run)(x), x.sin() * 2)
    torch.testing.assert_close(func.grad(lambda y: run(y).sum())(x), x.cos() * 2)
    torch.testing.assert_close(run(x), x.sin() * 2)
    assert tensord.stats()["graphs"] == 0


# -- NumPy ----------------------------------------------------------------------------------------


def arrays(x: np.ndarray, y: np.ndarray) -> tuple[Any, ...]:
    z = np.sin(x) @ y.T
    return z, np.where(z > 0, z, -1.0), z.sum(axis=0), np.sort(z, axis=1), z.astype(np.float32)


def test_arrays_go_in_and_come_out() -> None:
    x, y = np.random.default_rng(0).normal(size=(2, 4, 5))
    ours, eager = compiled(arrays, fullgraph=True)(x, y), arrays(x, y)
    for mine, theirs in zip(ours, eager, strict=True):
        assert isinstance(mine, np.ndarray)
        assert mine.dtype == theirs.dtype
        np.testing.assert_allclose(mine, theirs, rtol=1e-6)


def test_an_array_that_changes() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        x[1:3] *= 2
        x[0] = np.arange(5)
        return x.mean(axis=1)

    x = np.ones((4, 5))
    y = x.copy()
    np.testing.assert_allclose(compiled(function, fullgraph=True)(x), function(y))
    np.testing.assert_array_equal(x, y)


def between(x: Tensor) -> Tensor:
    a = x.numpy()
    b = np.concatenate([np.exp(a), np.clip(a, -1, 1)], axis=0)
    return torch.from_numpy(b * np.float32(2)) + torch.as_tensor(np.linspace(0, 1, 3)).float()


def whole_numbers(x: Tensor) -> tuple[Any, ...]:
    a = x.numpy().astype(np.int64)
    counted = np.cumsum(np.abs(a), axis=0)
    return torch.from_numpy(counted), torch.from_numpy(a // 2 % 3), torch.from_numpy(a == 1)


@pytest.mark.parametrize("function", [between, whole_numbers], ids=lambda f: f.__name__)
def test_between_tensors_and_arrays(function: Any) -> None:
    both_ways(function, torch.randn(4, 3) * 3)


def test_shapes_of_arrays_may_change() -> None:
    def function(x: np.ndarray) -> np.ndarray:
        return (x - x.mean(axis=0)) / np.sqrt(x.shape[0])

    run = compiled(function, dynamic=True, fullgraph=True)
    for rows in (4, 7, 20):
        x = np.random.default_rng(rows).normal(size=(rows, 3))
        np.testing.assert_allclose(run(x), function(x), rtol=1e-6, atol=1e-12)
