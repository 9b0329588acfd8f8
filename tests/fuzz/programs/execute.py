# SPDX-License-Identifier: Apache-2.0
"""Runs a program compiled and in eager, and judges the difference."""

from __future__ import annotations

import re
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .program import Program, functions

sys.path.append(str(Path(__file__).resolve().parents[2] / "e2e"))

import compare

# Runs of eager with every value rounded at random, which say how much rounding matters.
SHAKEN_RUNS = 6
Backend = str | Callable[..., Any]


@dataclass
class Outcome:
    """What came of a program.

    kind: "right"; "wrong" (another value, stride, alias or dtype than eager's), "failed" (an
    exception); "upstream" (the same happens with torch's own backend aot_eager); "invalid" (eager
    does not run it); "crash", "hang". cause: the message without what differs from one program to
    the next; programs of one kind and cause are taken for one failure.
    """

    kind: str
    cause: str = ""
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        return self.kind in ("wrong", "failed", "crash", "hang")


def gradients_of(outputs: Sequence[Tensor], arguments: Sequence[Tensor]) -> list[Tensor | None]:
    """Gradients of the weighted sum of all outputs; of no use when nothing requires any."""
    total = torch.zeros((), dtype=torch.float64)
    for output in outputs:
        if output.requires_grad and output.is_floating_point():
            weight = torch.arange(output.numel(), dtype=torch.float64) % 7 - 2.5
            total = total + (output.double() * weight.reshape(output.shape)).sum()
    if total.requires_grad:
        total.backward()
    return [argument.grad for argument in arguments if argument.requires_grad]


def totals(found: Sequence[Tensor | None]) -> float:
    """The largest magnitude."""
    present = [g for g in found if g is not None and g.numel()]
    return max((g.double().abs().max().item() for g in present), default=0.0)


@dataclass
class _Results:
    """Of one run: outputs, arguments after it, gradients, and which of them share memory."""

    outputs: list[Tensor]
    arguments: list[Tensor]
    gradients: list[Tensor | None]
    shared: list[tuple[int, int]]


def _run(function: Callable[..., Any], arguments: list[Tensor]) -> _Results:
    outputs = list(function(*arguments))
    tensors = [*outputs, *arguments]
    places = [t.untyped_storage()._cdata if t.numel() else -i - 1 for i, t in enumerate(tensors)]
    shared = [(i, j) for j, b in enumerate(places) for i in range(j) if places[i] == b]
    found = gradients_of(outputs, arguments)
    detached = [[t.detach() for t in group] for group in (outputs, arguments)]
    return _Results(*detached, found, shared)


def _map_storages(arguments: list[Tensor], change: Callable[[Tensor], Tensor]) -> list[Tensor]:
    """Copies whose floating-point storages are changed; layouts and aliases stay."""
    bases: dict[int, Tensor] = {}
    result = []
    for old in arguments:
        storage = old.untyped_storage()
        if storage._cdata not in bases:
            whole = torch.empty(0, dtype=old.dtype).set_(storage)
            bases[storage._cdata] = change(whole) if old.is_floating_point() else whole.clone()
        base = bases[storage._cdata]
        new = base.as_strided(old.shape, old.stride(), old.storage_offset())
        result.append(new.detach().requires_grad_(old.requires_grad))
    return result


class _Shake(torch.utils._python_dispatch.TorchDispatchMode):
    """Rounds every new floating-point result of an operator at random."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(result, Tensor) and result.is_floating_point():
            schema = func._schema
            if schema.returns and schema.returns[0].alias_info is None and result.is_contiguous():
                with torch.utils._python_dispatch._disable_current_modes():
                    noise = torch.rand_like(result, dtype=torch.float64) * 2 - 1
                    scale = 1 + noise * torch.finfo(result.dtype).eps
                    result.copy_(result.double() * scale)
        return result


class _Judge:
    """Compares with eager; where that differs asks float64, and eager with shaken roundings."""

    def __init__(self, program: Program, sizes: dict[str, int]) -> None:
        self.program, self.sizes = program, sizes
        self.plain = functions(program)
        self.eager = _run(self.plain.program, self._arguments())

    def _arguments(self) -> list[Tensor]:
        return self.plain.inputs(**self.sizes)

    def compiled(self, function: Callable[..., Any]) -> _Results:
        return _run(function, self._arguments())

    def check(self, ours: _Results) -> None:
        """Raises compare.Mismatch."""
        if ours.shared != self.eager.shared:
            raise compare.Mismatch(f"aliases: {ours.shared}, eager has {self.eager.shared}")
        try:
            self._check(ours, None)
        except compare.Mismatch:
            reference = self._reference()
            if reference is not None:
                try:
                    return self._check(ours, reference)
                except compare.Mismatch:
                    pass
            if not self._excused(ours, reference):
                raise

    def _check(self, ours: _Results, exact: _Results | None) -> None:
        for what in ("outputs", "arguments", "gradients"):
            groups = [getattr(r, what) for r in (ours, self.eager, exact or self.eager)]
            for number, (mine, theirs, truth) in enumerate(zip(*groups, strict=True)):
                name = f"{what.removesuffix('s')} {number}"
                if mine is None or theirs is None:
                    if mine is not theirs and (totals([mine]) or totals([theirs])):
                        raise compare.Mismatch(f"{name}: {mine}, eager has {theirs}")
                    continue
                magnitude = max(1.0, totals([theirs])) if theirs.is_floating_point() else 1.0
                compare.check(
                    name, mine, theirs, truth, magnitude=magnitude, strides=what == "outputs"
                )

    def _reference(self) -> _Results | None:
        """In float64; None where float64 gives other shapes or dtypes or does not run."""
        try:
            arguments = _map_storages(self._arguments(), lambda whole: whole.double())
            result = _run(functions(self.program, wide=True).program, arguments)
        except (RuntimeError, IndexError):
            return None
        pairs = zip(result.outputs, self.eager.outputs, strict=True)
        return result if all(a.shape == b.shape for a, b in pairs) else None

    def _excused(self, ours: _Results, reference: _Results | None) -> bool:
        """True where eager's own results, rounded otherwise, are as far away, tensor by tensor."""
        others = [reference] if reference is not None else []
        for number in range(SHAKEN_RUNS):
            torch.manual_seed(number)
            arguments = self._arguments()
            with _Shake():
                others.append(_run(self.plain.program, arguments))
        for what in ("outputs", "arguments", "gradients"):
            groups = [getattr(r, what) for r in (ours, self.eager, *others)]
            for mine, theirs, *shaken in zip(*groups, strict=True):
                if mine is None or theirs is None:
                    continue
                if (mine.shape, mine.dtype, mine.stride()) != (
                    theirs.shape, theirs.dtype, theirs.stride()
                ) and what == "outputs":  # fmt: skip
                    return False
                allowed = max((_distance(s, theirs) for s in shaken if s is not None), default=0.0)
                least = 0.0
                if theirs.is_floating_point():
                    relative, absolute = compare.TOLERANCE[theirs.dtype]
                    least = absolute + relative * max(1.0, totals([theirs]))
                if not _distance(mine, theirs) <= max(2.0 * allowed, least):
                    return False
        return True


def _distance(a: Tensor, b: Tensor) -> float:
    difference = (a.double() - b.double()).abs()
    return difference.max().item() if difference.numel() else 0.0


def _cause(error: BaseException) -> str:
    """The innermost message, without numbers and names."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = f"{type(error).__name__}: {getattr(error, 'msg', None) or error}"
    text = text.split("raised:\n", 1)[-1].strip().split("\n")[0]
    text = text.removeprefix("BackendFailedError: ")  # what it holds says more
    text = re.sub(r" \(the graph was kept as [^)]*\)", "", text)
    return re.sub(r"\d+", "N", re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text))[:200]


def _attempt(program: Program, backend: Backend, judges: list[_Judge]) -> Outcome:
    torch._dynamo.reset()
    compiled = torch.compile(
        judges[0].plain.program, backend=backend, fullgraph=True, dynamic=program.dynamic
    )
    try:
        for judge in judges:
            judge.check(judge.compiled(compiled))
    except compare.Mismatch as problem:
        what = str(problem)
        cause = "value"
        for word in ("aliases", "strides", "torch."):
            if word in what.split("eager has")[0]:
                cause = {"torch.": "dtype or shape"}.get(word, word)
        if cause == "value":
            cause = f"value of {what.split(' ')[0].removesuffix(':')}"
        return Outcome("wrong", cause, what)
    except Exception as error:
        return Outcome("failed", _cause(error), "".join(traceback.format_exception(error))[-3000:])
    return Outcome("right")


def run(program: Program, backend: Backend = "tensord") -> Outcome:
    """Compiles and calls the program, and compares all that it gives with eager."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            calls = [program.sizes, *([program.other_sizes] if program.other_sizes else [])]
            judges = [_Judge(program, sizes) for sizes in calls]
        except Exception as error:
            return Outcome("invalid", _cause(error))
        outcome = _attempt(program, backend, judges)
        if outcome.bad:
            upstream = _attempt(program, "aot_eager", judges)
            if (upstream.kind, upstream.cause) == (outcome.kind, outcome.cause):
                outcome.kind = "upstream"
        torch._dynamo.reset()
    return outcome
