# SPDX-License-Identifier: Apache-2.0
"""Profiles: times of a GPU's steps that fit together, and nothing that they leave behind."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import tensord
import torch
from tensord.profiles import numbers
from torch import nn

CALLS = 5


def _is_gpu() -> bool:
    return torch.get_default_device().type == "cuda"


def _fits_together(profile: Any) -> None:
    message = profile.message
    assert message.on_gpu == _is_gpu() and not message.dropped_runs, str(profile)
    assert len(message.calls) == CALLS and message.copy_rate > 1e9, str(profile)
    for call, whole in enumerate(message.calls):
        within = sum(row.nanoseconds[call] for row in message.rows) + message.gaps[call]
        # Events are rounded one by one.
        assert 0 < within <= 1.02 * whole + 20_000, (call, within, whole, str(profile))
    for row in message.rows:
        if row.kind != row.MEMORY:
            assert row.runs % CALLS == 0 and all(row.nanoseconds), (row.name, str(profile))


def _a_large_kernel_is_near_the_limit() -> None:
    count = (1 << 26) if _is_gpu() else (1 << 22)
    run = torch.compile(lambda x, y: torch.tanh(x) * 0.5 + y, backend="tensord")
    profile = tensord.profile(run, torch.randn(count), torch.randn(count), steps=CALLS)
    _fits_together(profile)
    (kernel,) = [row for row in profile.message.rows if row.kind == row.KERNEL]
    assert (kernel.bytes_read, kernel.bytes_written) == (8 * count, 4 * count)
    limit = numbers.limit(profile.message, kernel)
    # Bytes by this time would be wrong by a factor if events were of other steps.
    assert limit is not None and (0.5 if _is_gpu() else 0.02) < limit < 1.3, str(profile)


def _a_training_step(mode: str | None) -> None:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.LayerNorm(2048), nn.Linear(2048, 512))
    run = torch.compile(net, backend="tensord", mode=mode)
    x = torch.randn(256, 512)

    def step() -> torch.Tensor:
        net.zero_grad()
        loss = run(x).square().mean()
        loss.backward()
        return loss.detach()

    before = [step().item() for _ in range(6)]  # CUDA graphs are captured by then
    gradients = [parameter.grad.clone() for parameter in net.parameters()]
    profile = tensord.profile(step, steps=CALLS)
    _fits_together(profile)
    labels = sorted(program.label for program in profile.message.programs)
    assert labels == ["backward", "forward"], labels
    assert any(row.flops for row in profile.message.rows), str(profile)
    after = [step().item() for _ in range(6)]
    assert before == after, (before, after)
    for parameter, gradient in zip(net.parameters(), gradients, strict=True):
        torch.testing.assert_close(parameter.grad, gradient)


def _eager_parts_are_outside() -> None:
    size = 4096 if _is_gpu() else 512
    run = torch.compile(lambda x: torch.softmax(x, -1), backend="tensord")

    def step(x: torch.Tensor) -> torch.Tensor:
        y = run(x)
        return run(y @ y @ y)

    profile = tensord.profile(step, torch.randn(size, size), steps=CALLS)
    _fits_together(profile)
    outside = dict(numbers.parts(profile.message))[numbers.OUTSIDE]
    assert min(outside) > 0.3 * min(profile.message.calls), str(profile)


def _calls_that_end_on_another_stream() -> None:
    run = torch.compile(lambda x: torch.tanh(x) * 3, backend="tensord")
    streams = [torch.cuda.current_stream(), torch.cuda.Stream()] if _is_gpu() else []

    def step(x: torch.Tensor) -> None:
        if streams:
            before, after = streams
            streams.reverse()
            after.wait_stream(before)
            torch.cuda.set_stream(after)
        run(x)

    original = streams[0] if streams else None
    try:
        _fits_together(tensord.profile(step, torch.randn(1 << 22), steps=CALLS))
    finally:
        if original is not None:
            torch.cuda.set_stream(original)


def checks() -> list[tuple[str, Callable[[], None]]]:
    """Of kernels, training in both modes, eager parts, and streams."""
    return [
        ("a large kernel", _a_large_kernel_is_near_the_limit),
        ("training", functools.partial(_a_training_step, None)),
        ("training with CUDA graphs", functools.partial(_a_training_step, "reduce-overhead")),
        ("eager parts", _eager_parts_are_outside),
        ("calls that end on another stream", _calls_that_end_on_another_stream),
    ]
