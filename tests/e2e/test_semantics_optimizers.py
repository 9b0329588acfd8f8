# SPDX-License-Identifier: Apache-2.0
"""Every optimizer of torch.optim, compiled; schedules of learning rates that compile once."""

from __future__ import annotations

from typing import Any

import pytest
import tensord
import torch
from both_ways import compiled
from compare import check
from torch import nn, optim

pytestmark = pytest.mark.usefixtures("tensord_daemon")

OPTIMIZERS: dict[str, Any] = {
    "Adadelta": {}, "Adafactor": {}, "Adagrad": {"lr_decay": 0.1}, "Adam": {"amsgrad": True},
    "AdamW": {"weight_decay": 0.1}, "Adamax": {}, "ASGD": {}, "LBFGS": {"max_iter": 3},
    "Muon": {}, "NAdam": {}, "RAdam": {}, "RMSprop": {"momentum": 0.9, "centered": True},
    "Rprop": {}, "SGD": {"momentum": 0.9, "dampening": 0.1}, "SparseAdam": {},
}  # fmt: skip
# Dynamo leaves their steps to eager, whatever the backend: they read a number, or sparse gradients.
LEFT = ("Adafactor", "LBFGS", "SparseAdam")
# Muon orthogonalises in bfloat16.
ROUGH = {"Muon": 1e4}


def test_the_table_has_all() -> None:
    known = {n for n, c in vars(optim).items() if isinstance(c, type) and n != "Optimizer"}
    assert known - set(OPTIMIZERS) == set()


def _parameters() -> list[nn.Parameter]:
    torch.manual_seed(0)
    return [nn.Parameter(torch.randn(6, 4)), nn.Parameter(torch.randn(3, 5))]


def _gradients(parameters: list[nn.Parameter], sparse: bool) -> None:
    for parameter in parameters:
        gradient = torch.randn_like(parameter)
        parameter.grad = gradient.to_sparse(1) if sparse else gradient


def _steps(name: str, steps: int, wrap: Any) -> list[nn.Parameter]:
    """The parameters after some steps, of which the compiled function is one each."""
    make = getattr(optim, name)
    parameters = _parameters()
    optimizer = make(parameters, lr=torch.tensor(0.01) if name == "AdamW" else 0.01,
                     **OPTIMIZERS[name])  # fmt: skip

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        total = sum((p.sin().square().sum() for p in parameters), torch.zeros(()))
        total.backward()
        return total

    step = wrap(lambda: optimizer.step(loss if name == "LBFGS" else None))
    for number in range(steps):
        torch.manual_seed(number)
        _gradients(parameters, name == "SparseAdam")
        step()
    return [p.detach() for p in parameters]


@pytest.mark.parametrize("name", [n for n in OPTIMIZERS if hasattr(optim, n)])
def test_steps(name: str) -> None:
    mine = _steps(name, 3, compiled)
    assert (tensord.stats()["graphs"] > 0) == (name not in LEFT)
    check(name, mine, _steps(name, 3, lambda f: f), magnitude=ROUGH.get(name, 1.0))


SCHEDULES: dict[str, Any] = {
    "exponential": lambda o: optim.lr_scheduler.ExponentialLR(o, 0.9),
    "one cycle": lambda o: optim.lr_scheduler.OneCycleLR(
        o, 0.1, total_steps=12, cycle_momentum=False
    ),
    "cosine after a warm-up": lambda o: optim.lr_scheduler.SequentialLR(
        o, [optim.lr_scheduler.LinearLR(o, 0.1, total_iters=3),
            optim.lr_scheduler.CosineAnnealingLR(o, 6)], [3]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_compiles_nothing_anew(name: str) -> None:
    results = []
    for wrap in (compiled, lambda f: f):
        parameters = _parameters()
        optimizer = optim.Adam(parameters, lr=torch.tensor(0.05), foreach=False)
        schedule = SCHEDULES[name](optimizer)
        step = wrap(optimizer.step)
        rates, graphs = [], []
        for number in range(10):
            torch.manual_seed(number)
            _gradients(parameters, sparse=False)
            step()
            schedule.step()
            rates.append(float(optimizer.param_groups[0]["lr"]))
            graphs.append(tensord.stats()["graphs"])
        results.append([*(p.detach() for p in parameters), rates])
        if wrap is compiled:
            assert graphs[2] == graphs[-1] > 0  # the first step makes the state
            assert len(set(rates)) > 5
    check(name, *results, magnitude=10.0)


def test_a_schedule_and_the_gradients_in_one_function() -> None:
    """As in a training loop whose step is compiled as a whole."""
    curves = []
    for wrap in (compiled, lambda f: f):
        torch.manual_seed(0)
        model = nn.Linear(4, 2)
        optimizer = optim.SGD(model.parameters(), lr=torch.tensor(0.1), momentum=0.9)
        schedule = optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
        x = torch.randn(8, 4)

        def train(optimizer: Any = optimizer, model: Any = model, x: Any = x) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = wrap(train)
        losses = []
        for _ in range(6):
            losses.append(run().item())
            schedule.step()
        curves.append(torch.tensor(losses))
    check("losses", *curves)
    assert curves[0][-1] < curves[0][0]
