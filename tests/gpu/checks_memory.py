# SPDX-License-Identifier: Apache-2.0
"""Donated inputs: a gradient in the memory of what forward saved, where nobody else has that."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from peak import peak_bytes
from torch import nn

CALLS = 5
ROWS, WIDTH, VOCABULARY = 2048, 256, 16384
ODD = VOCABULARY - 6  # saved by padded rows
LOGITS_BYTES = 2 * ROWS * VOCABULARY


class _Head(nn.Module):
    """Logits in bfloat16 and their loss, as at the end of a language model."""

    def __init__(self, returns_logits: bool, words: int) -> None:
        super().__init__()
        self.returns_logits = returns_logits
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, words, bias=False)

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> Any:
        logits = self.head(self.norm(x))
        loss = F.cross_entropy(logits.float(), labels)
        return (loss, logits) if self.returns_logits else loss


class _Case:
    """A head, what it takes, and eager's gradients of it."""

    def __init__(
        self, mode: str | None = None, returns_logits: bool = False, words: int = VOCABULARY
    ) -> None:
        torch.manual_seed(0)
        self.model = _Head(returns_logits, words).to(torch.bfloat16)
        self.run = torch.compile(self.model, backend="tensord", mode=mode)
        self.x = torch.randn(ROWS, WIDTH, dtype=torch.bfloat16)
        self.labels = torch.randint(words, (ROWS,))
        self.model(self.x, self.labels)  # eager's own workspaces are there
        loss = self.model(self.x, self.labels)
        (loss[0] if returns_logits else loss).backward()
        self.expected = [p.grad.float() for p in self.model.parameters()]
        self.model.zero_grad()

    def forward(self) -> Any:
        self.model.zero_grad()
        return self.run(self.x, self.labels)

    def check(self, times: int = 1) -> None:
        found = [p.grad.float() for p in self.model.parameters()]
        for gradient, expected in zip(found, self.expected, strict=True):
            error = (gradient - times * expected).norm() / (times * expected).norm()
            assert error < 1e-2, error


def _the_logits_gradient_takes_their_place(mode: str | None, words: int) -> None:
    case = _Case(mode, words=words)
    peaks = []
    for _ in range(CALLS):
        loss = case.forward()
        peaks.append(peak_bytes(loss.backward))
        case.check()
        del loss
    # The head's gradient and little else; not another set of logits.
    assert peaks[-1] < LOGITS_BYTES // 2, (peaks, LOGITS_BYTES)


def _backward_twice(mode: str | None) -> None:
    case = _Case(mode)
    for i in range(3 * CALLS):
        loss = case.forward()
        if i % 3 != 2:
            loss.backward()
            case.check()
            continue
        loss.backward(retain_graph=True)
        case.check()
        loss.backward()
        case.check(2)


def _returned_logits_stay(dropped: bool) -> None:
    """Also where the job has dropped them, and only another stream still reads them."""
    case = _Case(returns_logits=True)
    cuda = torch.get_default_device().type == "cuda"
    side = torch.cuda.Stream() if cuda else None
    for _ in range(CALLS):
        loss, logits = case.forward()
        expected = logits.detach().clone()
        if side is None:
            copy = logits.detach()
        else:
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                torch.cuda._sleep(50_000_000)
                copy = logits.detach().clone()
            logits.record_stream(side)
        if dropped:
            del logits
        loss.backward()
        case.check()
        if side is not None:
            torch.cuda.current_stream().wait_stream(side)
        assert torch.equal(copy, expected)
        if not dropped:
            assert torch.equal(logits, expected)


def checks() -> list[tuple[str, Callable[[], None]]]:
    """In both modes, but for what the user holds."""
    found: list[tuple[str, Callable[[], None]]] = [
        ("returned logits stay", functools.partial(_returned_logits_stay, False)),
        ("so do dropped ones", functools.partial(_returned_logits_stay, True)),
    ]
    for mode in (None, "reduce-overhead"):
        of_mode = f" ({mode or 'default'})"
        found += [
            *(
                (f"a gradient takes the place of logits of {words} words" + of_mode,
                 functools.partial(_the_logits_gradient_takes_their_place, mode, words))
                for words in (VOCABULARY, ODD)
            ),
            ("backward twice" + of_mode, functools.partial(_backward_twice, mode)),
        ]  # fmt: skip
    return found
