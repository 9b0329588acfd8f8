# SPDX-License-Identifier: Apache-2.0
"""Runs a program compiled and in eager, and judges the difference.

A program is a function of tensors that returns a sequence of results; a function makes its
arguments, the same ones each time. Compared are the results, which tensors share memory, the
arguments after the call, and gradients. Eager is right; where roundings matter, float64 is.
"""

from __future__ import annotations

import contextlib
import math
import re
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_map

from . import compare
from .case import whole_of
from .declarations import DeclaredStrides

# Runs of eager with every value rounded at random, which say how much rounding matters.
SHAKEN_RUNS = 6
Backend = str | Callable[..., Any]
Program = Callable[..., Sequence[Any]]
_NARROW = (torch.float16, torch.bfloat16, torch.float32)


@dataclass
class Outcome:
    """What came of a program.

    kind: "right"; "wrong" (another value, stride, alias or dtype than eager's), "failed" (an
    exception); "upstream" (the same happens with torch's own backend aot_eager); "invalid" (eager
    does not run it); "crash", "hang" (of the process). cause: the message without what differs from
    one program to the next; programs of one kind and cause are taken for one failure.
    """

    kind: str
    cause: str = ""
    message: str = ""
    stats: dict[str, Any] = field(default_factory=dict)

    @property
    def bad(self) -> bool:
        return self.kind in ("wrong", "failed", "crash", "hang")

    def is_like(self, other: Outcome) -> bool:
        """True for the same failure."""
        return (self.kind, self.cause) == (other.kind, other.cause)


@dataclass
class Results:
    """Of one run: outputs, arguments after it, gradients, and which of them share memory."""

    outputs: list[Any]
    arguments: list[Any]
    gradients: list[Tensor | None]
    shared: list[tuple[int, int]]


class Judge:
    """Compares with eager; where that differs asks float64, and eager with shaken roundings."""

    def __init__(
        self,
        program: Program,
        inputs: Callable[[], list[Any]],
        wide: Program | None = None,
    ) -> None:
        """wide: the program in float64, of the same arguments in float64; without it, the program
        itself under a mode that widens. Raises what eager raises."""
        self._program, self._inputs, self._wide = program, inputs, wide
        self.eager = _run(program, inputs())

    def compiled(self, function: Program) -> Results:
        """What the compiled program gives."""
        return _run(function, self._inputs())

    def is_random(self) -> bool:
        """True where eager itself gives something else with another seed."""
        seen: list[Results] = []
        for seed in (1, 2):
            arguments = self._inputs()
            torch.manual_seed(seed)
            seen.append(_run(self._program, arguments))
        try:
            self._check(seen[0], seen[1], None)
        except compare.Mismatch:
            return True
        return False

    def is_misdeclared(self) -> bool:
        """True where torch's fake tensors, by which every backend compiles, have other strides for
        a result than eager."""
        with FakeTensorMode(shape_env=ShapeEnv()) as mode:
            fakes = [
                mode.from_tensor(a, static_shapes=True) if isinstance(a, Tensor) else a
                for a in self._inputs()
            ]
            try:
                declared = compare.flatten(list(self._program(*fakes)))
                pairs = zip(declared, self.eager.outputs, strict=True)
                return any(
                    compare.strides_of(fake) != compare.strides_of(real)
                    for fake, real in pairs
                    if isinstance(real, Tensor) and fake.shape == real.shape
                )
            except RuntimeError:  # data decides more than fake tensors follow
                return False

    def check(self, ours: Results) -> None:
        """Raises compare.Mismatch."""
        if ours.shared != self.eager.shared:
            raise compare.Mismatch(f"aliases: {ours.shared}, eager has {self.eager.shared}")
        self._check_values(ours)
        self._check_strides(ours)

    def _check_values(self, ours: Results) -> None:
        try:
            return self._check(ours, self.eager, None)
        except compare.Mismatch as mismatch:
            found = mismatch
        reference = self._reference()
        if reference is not None:
            try:
                return self._check(ours, self.eager, reference)
            except compare.Mismatch as mismatch:
                found = mismatch  # what came before it was rounding
        if not self._excused(ours, reference):
            raise found

    def _check_strides(self, ours: Results) -> None:
        for number, (mine, theirs) in enumerate(zip(ours.outputs, self.eager.outputs, strict=True)):
            if isinstance(mine, Tensor) and isinstance(theirs, Tensor):
                compare.check_strides(f"output {number}", mine, theirs)

    def _check(self, ours: Results, eager: Results, exact: Results | None) -> None:
        for what in ("outputs", "arguments", "gradients"):
            groups = [getattr(r, what) for r in (ours, eager, exact or eager)]
            if len({len(group) for group in groups}) != 1:
                raise compare.Mismatch(f"{what}: {len(groups[0])}, eager has {len(groups[1])}")
            for number, (mine, theirs, truth) in enumerate(zip(*groups, strict=True)):
                name = f"{what.removesuffix('s')} {number}"
                if mine is None or theirs is None:
                    if mine is not theirs and (largest([mine]) or largest([theirs])):
                        raise compare.Mismatch(f"{name}: {mine}, eager has {theirs}")
                    continue
                magnitude = max(1.0, largest([theirs])) if _is_float(theirs) else 1.0
                compare.check(name, mine, theirs, truth, magnitude=magnitude, strides=False)

    def _reference(self) -> Results | None:
        """In float64; None where float64 gives other shapes or dtypes or does not run."""
        try:
            arguments = _map_storages(self._inputs(), lambda whole: whole.double())
            with default_dtype(torch.float64):
                if self._wide is not None:
                    result = _run(self._wide, arguments)
                else:
                    with _Widen():
                        result = _run(self._program, arguments)
        except (RuntimeError, IndexError, TypeError):
            return None
        pairs = zip(result.outputs, self.eager.outputs, strict=True)
        return result if all(_shape(a) == _shape(b) for a, b in pairs) else None

    def _excused(self, ours: Results, reference: Results | None) -> bool:
        """True where eager's own results, rounded otherwise, are as far away, tensor by tensor.
        Elements of which roundings decide whether they are finite say nothing."""
        others = [reference] if reference is not None else []
        for number in range(SHAKEN_RUNS):
            arguments = self._inputs()  # which may seed the generator
            torch.manual_seed(number)
            with Shake():
                others.append(_run(self._program, arguments))
        for what in ("outputs", "arguments", "gradients"):
            groups = [getattr(r, what) for r in (ours, self.eager, *others)]
            for mine, theirs, *shaken in zip(*groups, strict=True):
                if mine is None or theirs is None:
                    continue
                if not isinstance(mine, Tensor) or not isinstance(theirs, Tensor):
                    if mine != theirs:
                        return False
                    continue
                if (mine.shape, mine.dtype) != (theirs.shape, theirs.dtype):
                    return False
                present = [s for s in shaken if s is not None]
                finite = [torch.isfinite(s) for s in (theirs, *present)]
                silent = torch.zeros_like(finite[0])
                for other in finite[1:]:
                    silent |= other != finite[0]
                allowed = max((_distance(s, theirs, silent) for s in present), default=0.0)
                least = 0.0
                if theirs.is_floating_point():
                    relative, absolute = compare.TOLERANCE.get(theirs.dtype, (0.0, 0.0))
                    least = absolute + relative * max(1.0, largest([theirs[finite[0]]]))
                if not _distance(mine, theirs, silent) <= max(
                    compare.EAGER_FACTOR * allowed, least
                ):
                    return False
        return True


def attempt(
    program: Program, judges: Sequence[Judge], backend: Backend, dynamic: bool | None
) -> Outcome:
    """Compiles a program and compares a call for each judge, which differ in their arguments."""
    torch._dynamo.reset()
    compiled = torch.compile(program, backend=backend, fullgraph=True, dynamic=dynamic)
    for judge in judges:
        try:
            ours = judge.compiled(compiled)
        except Exception as error:
            trace = "".join(traceback.format_exception(error))
            return Outcome("failed", cause_of(error), trace[-3000:])
        try:
            judge.check(ours)
        except compare.Mismatch as problem:
            return Outcome("wrong", _cause_of_mismatch(str(problem)), str(problem))
    return Outcome("right")


def is_upstream(program: Program, judges: Sequence[Judge], outcome: Outcome, **how: Any) -> bool:
    """True where torch's own backend aot_eager fails in the same way; of strides also where torch
    declares some that eager's results do not have, be it that aot_eager fails at what it declares.
    how: as `attempt` has it."""
    reference = attempt(program, judges, "aot_eager", **how)
    if outcome.is_like(reference):
        return True
    if outcome.cause != "strides":
        return False
    if reference.kind == "failed" or any(judge.is_misdeclared() for judge in judges):
        return True
    declared = DeclaredStrides()
    attempt(program, judges, declared, **how)
    return declared.are_others


def cause_of(error: BaseException) -> str:
    """The innermost message, without numbers and names."""
    while error.__cause__ is not None:
        error = error.__cause__
    text = f"{type(error).__name__}: {getattr(error, 'msg', None) or error}"
    text = text.split("raised:\n", 1)[-1].strip().split("\n")[0]
    text = text.removeprefix("BackendFailedError: ")  # what it holds says more
    text = re.sub(r" \(the graph was kept as [^)]*\)", "", text)
    text = re.sub(r"'[^']*'|\"[^\"]*\"", "'...'", text)
    return re.sub(r"0x[0-9a-f]+|\d+", "N", text)[:200]


def _cause_of_mismatch(what: str) -> str:
    cause = f"value of {what.split(' ')[0].removesuffix(':')}"
    for word in ("aliases", "strides", "torch."):
        if word in what.split("eager has")[0]:
            cause = {"torch.": "dtype or shape"}.get(word, word)
    return cause


def gradients_of(outputs: Sequence[Any], arguments: Sequence[Any]) -> list[Tensor | None]:
    """Gradients of the weighted sum of all outputs; of no use when nothing requires any."""
    total = torch.zeros((), dtype=torch.float64, device="cpu")
    for output in outputs:
        if isinstance(output, Tensor) and output.requires_grad and output.is_floating_point():
            weight = torch.arange(output.numel(), dtype=torch.float64, device=output.device)
            weight = (weight % 7 - 2.5).reshape(output.shape)
            total = total + (output.double() * weight).sum().cpu()
    if total.requires_grad:
        total.backward()
    tensors = [a for a in arguments if isinstance(a, Tensor)]
    return [t.grad for t in tensors if t.requires_grad and t.is_leaf]


def _run(function: Program, arguments: list[Any]) -> Results:
    outputs = compare.flatten(list(function(*arguments)))
    found = gradients_of(outputs, arguments)
    everything = [*outputs, *arguments]
    if any(isinstance(value, Tensor) and value.is_cuda for value in everything):
        torch.cuda.synchronize()  # what a kernel fails at is this run's failure
    places = [_place(value, -i - 1) for i, value in enumerate(everything)]
    shared = [(i, j) for j, b in enumerate(places) for i in range(j) if places[i] == b]
    return Results(_detached(outputs), _detached(arguments), found, shared)


def _detached(values: Sequence[Any]) -> list[Any]:
    return [value.detach() if isinstance(value, Tensor) else value for value in values]


def _place(value: Any, otherwise: int) -> int:
    if isinstance(value, Tensor) and value.layout is torch.strided and value.numel():
        return value.untyped_storage()._cdata
    return otherwise


def _map_storages(arguments: list[Any], change: Callable[[Tensor], Tensor]) -> list[Any]:
    """Copies whose floating-point storages are changed; layouts and aliases stay."""
    bases: dict[int, Tensor] = {}
    result: list[Any] = []
    for old in arguments:
        if not isinstance(old, Tensor):
            result.append(old)
            continue
        storage = old.untyped_storage()
        if storage._cdata not in bases:
            whole = whole_of(old)
            bases[storage._cdata] = change(whole) if old.is_floating_point() else whole.clone()
        base = bases[storage._cdata]
        new = base.as_strided(old.shape, old.stride(), old.storage_offset())
        result.append(new.detach().requires_grad_(old.requires_grad))
    return result


class Shake(TorchDispatchMode):
    """Rounds every floating-point result that an operator computes, in new memory or in place, at
    random; not within the bodies of higher-order ones.

    By one unit in the last place; a reduction by one for each level of a tree of its terms, which
    is what sums of another order may differ by (Higham, The accuracy of floating point summation,
    1993): equal terms round alike, so it is no rare case.
    """

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if isinstance(func, torch._ops.HigherOrderOperator):
            return result
        if isinstance(result, Tensor) and result.is_floating_point():
            alias = func._schema.returns[0].alias_info
            is_computed = alias is None or alias.is_write
            if is_computed and all(
                n < 2 or s for n, s in zip(result.shape, result.stride(), strict=True)
            ):
                with _disable_current_modes():
                    noise = torch.rand_like(result, dtype=torch.float64) * 2 - 1
                    noise *= torch.finfo(result.dtype).eps * _roundings(func, args, result)
                    result.copy_(result.double() * (1 + noise))
        return result


def _roundings(func: Any, args: Sequence[Any], result: Tensor) -> float:
    """How often the operator rounds on the way to an element of its result."""
    if torch.Tag.reduction not in func.tags or result.numel() == 0:
        return 1.0
    return 1.0 + math.log2(max(1.0, args[0].numel() / result.numel()))


class _Widen(TorchDispatchMode):
    """Operators that are told to make a narrow floating-point tensor make a wide one; not within
    the bodies of higher-order ones."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def widened(value: Any) -> Any:
            return torch.float64 if value in _NARROW else value

        args, kwargs = (
            tree_map(lambda v: widened(v) if isinstance(v, torch.dtype) else v, given)
            for given in (args, kwargs or {})
        )
        return func(*args, **kwargs)


@contextlib.contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """torch.get_default_dtype() within the block."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, Tensor) else type(value)


def _is_float(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def largest(found: Sequence[Any]) -> float:
    """The largest magnitude."""
    present = [g for g in found if isinstance(g, Tensor) and g.numel()]
    return max((g.double().abs().max().item() for g in present), default=0.0)


def _distance(a: Tensor, b: Tensor, silent: Tensor) -> float:
    """The largest difference where `silent` is false; NaN where only one has NaN."""
    difference = (a.double() - b.double()).abs()
    same = (a == b) | (a.isnan() & b.isnan())
    difference = torch.where(silent | same, 0.0, difference)
    return difference.max().item() if difference.numel() else 0.0
