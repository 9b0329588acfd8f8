# SPDX-License-Identifier: Apache-2.0
"""Whole training steps through CUDA graphs, on a stand-in for the device: no GPU is needed.

From torch.compile to replays everything is real but the device, so graphs run on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import tensord
import torch
from fake_graphs import FakeDevice
from tensord.cuda_graphs import arena, graphed_program, plan
from tensord.wire import export, target
from torch import nn

pytestmark = pytest.mark.usefixtures("tensord_daemon")


@pytest.fixture
def devices(monkeypatch: pytest.MonkeyPatch) -> list[FakeDevice]:
    """Programs on the CPU are captured as if they were on CUDA; their devices, as they come."""
    made: list[FakeDevice] = []

    def device(index: int) -> FakeDevice:
        made.append(FakeDevice())
        return made[-1]

    exporting, detect = export.export, target.detect

    def on_cuda(*arguments: Any) -> Any:
        exported = exporting(*arguments)
        exported.cuda_index = 0
        return exported

    monkeypatch.setattr(export, "export", on_cuda)
    monkeypatch.setattr(target, "detect", lambda index: detect(None))
    monkeypatch.setattr(plan, "obstacle", lambda node: "")
    monkeypatch.setattr(graphed_program, "CudaDevice", device)
    tensord.reset_stats()
    return made


def _model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(12, 24), nn.BatchNorm1d(24), nn.GELU(), nn.LayerNorm(24), nn.Linear(24, 3)
    )


def _zero_late(loss: Callable[[int], Any], optimizer: Any, i: int) -> float:
    value = loss(i)
    optimizer.zero_grad()
    value.backward()
    optimizer.step()
    return value.item()


def _zero_early(loss: Callable[[int], Any], optimizer: Any, i: int) -> float:
    optimizer.zero_grad()
    value = loss(i)
    value.backward()
    optimizer.step()
    return value.item()


def _accumulate(loss: Callable[[int], Any], optimizer: Any, i: int) -> float:
    value = loss(i)
    value.backward()
    if i % 3 == 2:
        optimizer.step()
        optimizer.zero_grad()
    return value.item()


def _two_then_two(loss: Callable[[int], Any], optimizer: Any, i: int) -> float:
    optimizer.zero_grad()
    first, second = loss(2 * i), loss(2 * i + 1)
    second.backward()
    first.backward()
    optimizer.step()
    return first.item() + second.item()


def _keep_zeros(loss: Callable[[int], Any], optimizer: Any, i: int) -> float:
    optimizer.zero_grad(set_to_none=False)
    value = loss(i)
    value.backward()
    optimizer.step()
    return value.item()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("step", "captures", "more"),
    [
        (_zero_late, 2, 2),  # gradients live until the next forward call
        (_zero_early, 2, 0),
        (_accumulate, 3, 2),  # backward once more, for gradients that are held
        (_two_then_two, 4, 0),  # both once more, for what the first forward saved
        (_keep_zeros, 2, 0),  # gradients are added to memory of their own
    ],
)
def test_loops(
    devices: list[FakeDevice],
    monkeypatch: pytest.MonkeyPatch,
    step: Callable[..., float],
    captures: int,
    more: int,
    shared: bool,
) -> None:
    """more: captures where backward takes over what forward saved, until it is known that it had
    better not."""
    monkeypatch.setattr(arena, "LEAST_BYTES", 1 if shared else 1 << 40)
    captures += more if shared else 0
    sharing = 1 if shared and step is not _two_then_two else 0
    data = torch.randn(40, 16, 12)
    curves = []
    for graphs in (True, False):
        model = _model()
        run = torch.compile(model, backend="tensord", mode="reduce-overhead") if graphs else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        losses = [
            step(lambda i, run=run: run(data[i]).square().mean(), optimizer, i) for i in range(15)
        ]
        state = torch.cat([t.flatten().float() for t in model.state_dict().values()])
        curves.append((torch.tensor(losses), state.clone()))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-4)
    stats = tensord.stats()
    assert (stats["cuda_graphs"], stats["cuda_graphs_sharing"]) == (captures, sharing), stats
    assert not stats["cuda_graph_reasons"]
    assert sum(device.captures for device in devices) == captures


def test_results_beside_the_loss(devices: list[FakeDevice]) -> None:
    """Backward with and without the gradients of the logits: each is a program with a graph."""

    def classify(model: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        logits = model(x)
        return logits.logsumexp(-1).mean(), logits

    data = torch.randn(24, 16, 12)
    curves = []
    for graphs in (True, False):
        model, losses = _model(), []
        run = classify
        if graphs:
            run = torch.compile(classify, backend="tensord", mode="reduce-overhead", dynamic=False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for i, x in enumerate(data):
            optimizer.zero_grad()
            loss, logits = run(model, x)
            if i // 6 % 2:
                loss = loss + 0.1 * logits.square().mean()
            loss.backward()
            losses.append(loss.item())
            optimizer.step()
            del loss, logits  # what is held is captured anew
        curves.append((torch.tensor(losses), *(p.detach().clone() for p in model.parameters())))
    torch.testing.assert_close(*curves, rtol=1e-3, atol=1e-4)
    stats = tensord.stats()
    assert (stats["graphs"], stats["gradients_absent"], stats["cuda_graphs"]) == (3, 1, 3), stats
    assert not stats["cuda_graph_reasons"]


def test_shapes_come_and_go(devices: list[FakeDevice]) -> None:
    run = torch.compile(
        lambda x: x.softmax(-1).cumsum(0) * 2, backend="tensord", mode="reduce-overhead",
        dynamic=True,
    )  # fmt: skip
    for size in (3, 5, 9, 5, 3, 7, 9):
        for _ in range(4):
            x = torch.randn(size, 6)
            torch.testing.assert_close(run(x), x.softmax(-1).cumsum(0) * 2)
    assert tensord.stats()["cuda_graphs"] == 4


def test_slices_at_any_offset(devices: list[FakeDevice]) -> None:
    """An offset that nothing reads is no part of a shape."""
    run = torch.compile(
        lambda x: (x.sin() * 2).cos(), backend="tensord", mode="reduce-overhead", dynamic=True
    )
    numbers = torch.randn(4096)
    for i in range(40):
        x = numbers[37 * i :][: 8 + 8 * (i % 2)]
        torch.testing.assert_close(run(x), (x.sin() * 2).cos())
    stats = tensord.stats()
    assert stats["cuda_graphs"] == 2 and stats["cuda_graph_replays"] > 30, stats
