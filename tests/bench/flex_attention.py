# SPDX-License-Identifier: Apache-2.0
"""FlexAttention alone: kernels of tiles, TorchInductor's and tensord's.

    flex_attention.py [--device cuda|cpu] [--rounds N] [--only REGEX]

Milliseconds of a call, forward alone and with backward, medians of rounds in which both take turns,
and the most memory while it runs in MiB, arguments included. bfloat16; --device cpu tries small
shapes in float32, forward alone, since torch has no backward there. Exit status: 1 where results
differ, or a backend failed.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import re
import sys
from collections.abc import Callable
from typing import Any

import gpu_device
import results
import torch
from gpu_report import first_line
from private_daemon import PrivateDaemon
from timing import compare
from torch import Tensor
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

BACKENDS = ("inductor", "tensord")
WINDOW = 256
# Of the largest value: weights of 8 bits of mantissa, summed in another order.
TOLERANCE = 2e-2


def _causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return query >= key


def _window(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return (query >= key) & (query - key <= WINDOW)


def _alibi(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return score - torch.exp2(-(head + 1) * 0.5) * (query - key)


def _soft_cap(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
    return 20 * torch.tanh(score / 20)


@dataclasses.dataclass(frozen=True)
class Case:
    """heads_of_keys: fewer than heads where several share theirs."""

    name: str
    mask: Callable[..., Tensor] | None
    score: Callable[..., Tensor] | None
    batch: int = 4
    heads: int = 16
    heads_of_keys: int = 16
    length: int = 2048
    width: int = 64

    @property
    def shape(self) -> str:
        """batch x heads (of keys) x length x width."""
        heads = str(self.heads)
        if self.heads_of_keys != self.heads:
            heads += f"({self.heads_of_keys})"
        return f"{self.batch}x{heads}x{self.length}x{self.width}"


CASES = (
    Case("causal", _causal, None),
    Case("window", _window, None),
    Case("alibi", None, _alibi),
    Case("soft cap, causal", _causal, _soft_cap),
    Case("causal, grouped", _causal, None, 2, 32, 8, 2048, 128),
    Case("causal, long", _causal, None, 1, 16, 16, 8192, 64),
)


def _arguments(case: Case, device: gpu_device.CpuDevice) -> tuple[list[Tensor], Any]:
    """Query, key and value, and the mask's blocks."""
    dtype = torch.float32 if device.small else torch.bfloat16
    tensors = [
        torch.randn(case.batch, heads, case.length, case.width, device=device.name, dtype=dtype)
        for heads in (case.heads, case.heads_of_keys, case.heads_of_keys)
    ]
    if case.mask is None:
        return tensors, None
    sizes = (None, None, case.length, case.length)
    return tensors, create_block_mask(case.mask, *sizes, device=device.name)


def _run(
    function: Callable[..., Tensor], tensors: list[Tensor], blocks: Any, training: bool
) -> tuple[Tensor, ...]:
    """The weighted values, with the gradients of their sum's square."""
    if not training:
        with torch.no_grad():
            return (function(*tensors, block_mask=blocks),)
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    out = function(*leaves, block_mask=blocks)
    return out.detach(), *torch.autograd.grad(out, leaves, out.detach())


def measure(case: Case, device: gpu_device.CpuDevice, rounds: int) -> list[str]:
    """Prints a line of forward and one of training; gives what is wrong."""
    problems = []
    tensors, blocks = _arguments(case, device)
    for training in (False,) if device.small else (False, True):
        torch._dynamo.reset()
        runs: dict[str, Callable[[], Any]] = {}
        wanted = None
        for backend in BACKENDS:
            of_scores = functools.partial(
                flex_attention,
                score_mod=case.score,
                enable_gqa=case.heads != case.heads_of_keys,
            )
            compiled = torch.compile(of_scores, backend=backend, dynamic=False)
            run = functools.partial(_run, compiled, tensors, blocks, training)
            try:
                got = run()
                runs[backend] = run
                if wanted is not None:
                    results.check(got, wanted, TOLERANCE)
                wanted = got
            except Exception as error:
                problems.append(f"{case.name}, {backend}: {first_line(error)}")
        got = wanted = None  # no part of the peaks
        if not runs:
            continue
        times = compare(runs, rounds, 0.05, device.step_seconds)
        peaks = {backend: device.peak_memory(run) >> 20 for backend, run in runs.items()}
        cells = [
            f"{backend} {times[backend]['median'] * 1e3:8.3f} ms {peaks[backend]:6} MiB"
            for backend in runs
        ]
        ratio = times["ratios"].get("tensord/inductor")
        cells.append(f"ratio {ratio:.2f}" if ratio is not None else "")
        kind = "training" if training else "forward"
        print(f"{case.name:17} {case.shape:18} {kind:8}  {'   '.join(cells)}", flush=True)
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    device = gpu_device.make(args.device)
    problems = []
    with PrivateDaemon():
        for case in CASES:
            if re.search(args.only, case.name):
                if device.small:
                    case = dataclasses.replace(case, batch=1, length=256)
                problems += measure(case, device, args.rounds)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
