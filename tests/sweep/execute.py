# SPDX-License-Identifier: Apache-2.0
"""Runs one case and says what came of each of its samples.

Samples go through one compiled graph in groups, which costs one capture and one compile a group.
A group that fails is halved until the samples at fault are alone; of those each is diagnosed with
eager and aot_eager, which use nothing of this project after Dynamo.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Any

import excuses
import how
import judge
import torch
from case_outcome import Outcome, cause
from entries import Case, Entry
from inputs import Sample, is_plain, samples, tensors
from raised import (
    chain,
    innermost,
    is_device_assertion,
    is_ours,
    loses_device,
    message_of,
    our_error,
)
from tensord.debug.judge import default_dtype
from torch.utils import _pytree as pytree

# Samples of one graph.
GROUP = {False: 24, True: 6}  # by whether sizes are dynamic
# So many samples with one cause are taken apart; a group that fails for it again is not.
ENOUGH = 3

# Dynamo's settings, but for the sweep's own (worker.py).
CUTS = {"capture_dynamic_output_shape_ops": False, "capture_scalar_outputs": False}

Calls = list[tuple[tuple[Any, ...], dict[str, Any]]]
Say = Callable[[str], None]


@dataclass
class Result:
    """Of one call: what it returned, the gradients of its inputs, what it made of its inputs, and
    which of them it changed. `error`: what it raised instead."""

    value: Any = None
    gradients: list[Any] = field(default_factory=list)
    inputs: list[torch.Tensor] = field(default_factory=list)
    changed: list[bool] = field(default_factory=list)
    error: Exception | None = None
    random: bool = False


class DeviceLostError(Exception):
    """A kernel's assertion failed in eager: this process can do nothing more on the GPU."""

    def __init__(self, sample: int) -> None:
        super().__init__(f"eager fails an assertion on the device at sample {sample}")
        self.sample = sample


def cotangent(tensor: torch.Tensor) -> torch.Tensor:
    """What a result's gradient is taken with: small numbers of both signs."""
    weights = torch.arange(tensor.numel(), device=tensor.device) % 7 - 2.5
    if tensor.is_complex():
        weights = torch.complex(weights, weights.flip(0))
    return weights.to(tensor.dtype).reshape(tensor.shape)


def results(run: Callable[[Calls], list[Any]], group: list[Sample]) -> list[Result]:
    """All calls of a group, on copies of their inputs."""
    calls = [sample.fresh() for sample in group]
    inputs = [tensors(call) for call in calls]
    before = [[_state(t) for t in some] for some in inputs]
    values = run(calls)
    found = []
    roots: list[torch.Tensor] = []
    leaves: list[list[torch.Tensor]] = []
    for sample, value, some, states in zip(group, values, inputs, before, strict=True):
        result = Result(value)
        for tensor, state in zip(some, states, strict=True):
            result.inputs.append(tensor.detach())
            result.changed.append(not torch.equal(state, _state(tensor)))
        own = [t for t in tensors(sample.finish(value)) if t.requires_grad]
        roots += own
        # A sample without results (parts of nothing) has no gradients, alone and in company.
        leaves.append([t for t in some if t.requires_grad] if own else [])
        found.append(result)
    if of := list(itertools.chain(*leaves)):
        gradients = iter(
            torch.autograd.grad(roots, of, [cotangent(t) for t in roots], allow_unused=True)
        )
        for result, its_leaves in zip(found, leaves, strict=True):
            result.gradients = list(itertools.islice(gradients, len(its_leaves)))
    return found


def _state(tensor: torch.Tensor) -> torch.Tensor:
    """What is another one when the tensor has changed: its bytes, or its version where they cannot
    be had. (Some operators of eager change tensors and leave the version as it was.)"""
    if not is_plain(tensor):
        return torch.tensor(tensor._version)
    return tensor.detach().clone().reshape(-1).view(torch.uint8)


def device_is_lost(device: str) -> bool:
    """Whether a kernel failed in this process, after which every call fails."""
    if device != "cuda":
        return False
    try:
        torch.cuda.synchronize()
    except RuntimeError as error:
        return loses_device(error)
    return False


def _rng(device: str) -> torch.Tensor:
    """The states of all generators that a call may draw from."""
    host = torch.get_rng_state()
    return torch.cat([host, torch.cuda.get_rng_state()]) if device == "cuda" else host


class Runner:
    """One case under way."""

    def __init__(self, entry: Entry, case: Case, say: Say, spoiled: bool = False) -> None:
        """say: told what is about to run. spoiled: results are made wrong, to prove that this is
        seen."""
        self._case, self._tell, self._spoiled = case, say, spoiled
        self._doing = ""
        self._pointwise = type(entry.info).__name__ in ("UnaryUfuncInfo", "BinaryUfuncInfo")
        self._undefined = excuses.undefined(entry.name)
        self._outcome = Outcome(case.key)
        self._causes: Counter[str] = Counter()
        self._categories: dict[str, str] = {}  # of causes, as diagnosed
        self._samples: list[Sample] = []
        self._eager: list[Result] = []
        self._entry = entry

    def run(self, only: int | None = None, most: int = 0, without: Collection[int] = ()) -> Outcome:
        """only: the number of the one sample to run. most: that many, spread evenly; 0: all.
        without: samples that are left out, since eager loses the device at them.

        Raises DeviceLostError at a sample of which that was not known.
        """
        start = time.monotonic()
        try:
            self._samples = samples(self._entry, self._case)
        except Exception as error:
            self._outcome.note = f"no samples: {type(error).__name__}: {error}"[:400]
        else:
            self._run(only, most, without)
            if device_is_lost(self._case.device):  # what was said since then means nothing
                self._outcome = Outcome(self._case.key)
                self._outcome.add("crash", -1, f"an assertion on the device at {self._doing}")
        self._outcome.seconds = round(time.monotonic() - start, 3)
        return self._outcome

    def fails_alike(self, number: int) -> Outcome:
        """Of a sample at which eager lost the device: the compiled function must fail an assertion
        there, too, or raise that an index is out of range. Leaves a process without the device."""
        self._samples = samples(self._entry, self._case)
        self._say(f"sample {number}, at which eager fails an assertion on the device")
        failed = "eager fails an assertion on the device; here"
        try:
            self._compiled([number], whole=False)
        except Exception as error:
            index = any(isinstance(one, IndexError) for one in chain(error))
            if index or is_device_assertion(error):
                self._outcome.add("right", number)
            else:
                self._add("refused", number, f"{failed}: {message_of(error)}")
            return self._outcome
        if device_is_lost(self._case.device):
            self._outcome.add("right", number)
        else:
            self._add("silent", number, f"{failed} nothing fails")
        return self._outcome

    def _say(self, what: str) -> None:
        self._doing = what
        self._tell(what)

    def _run(self, only: int | None, most: int, without: Collection[int]) -> None:
        numbers = list(range(len(self._samples))) if only is None else [only]
        if 0 < most < len(numbers):
            numbers = [numbers[i * len(numbers) // most] for i in range(most)]
        numbers = [number for number in numbers if number not in without]
        self._say("eager")
        self._eager = [
            self._in_eager(number) if number in numbers else Result()
            for number in range(len(self._samples))
        ]
        raising = [i for i in numbers if self._eager[i].error is not None]
        others = [i for i in numbers if self._eager[i].error is None]
        if others:
            self._first(max(others, key=lambda i: self._samples[i].elements()), others)
        for number in raising:
            self._raises(number)

    def _first(self, first: int, others: list[int]) -> None:
        """The largest sample alone, which shows how the operator runs; then all others."""
        with how.recorded() as recording:
            self._group([first])
        if not self._case.gradient and self._outcome.category in ("right", "random", "undefined"):
            self._outcome.how = how.describe(recording)
        rest = [i for i in others if i != first]
        size = GROUP[self._case.dynamic]
        for start in range(0, len(rest), size):
            self._group(rest[start : start + size])

    # -- running ------------------------------------------------------------------------------

    def _in_eager(self, number: int) -> Result:
        sample = self._samples[number]
        before = _rng(self._case.device)
        try:
            result = results(_together(sample.function), [sample])[0]
        except Exception as error:
            result = Result(error=error)
        if device_is_lost(self._case.device):
            raise DeviceLostError(number) from result.error
        result.random = not torch.equal(before, _rng(self._case.device))
        return result

    def _compiled(
        self, group: list[int], backend: str = "tensord", whole: bool = True
    ) -> list[Result]:
        """A group through one compiled function. whole: Dynamo must not break the graph."""
        torch._dynamo.reset()
        chosen = [self._samples[i] for i in group]
        run = torch.compile(
            _together(chosen[0].function), backend=backend, fullgraph=whole,
            dynamic=self._case.dynamic,
        )  # fmt: skip
        found = results(run, chosen)
        if self._spoiled and backend == "tensord":
            for result in found:
                result.value = pytree.tree_map_only(torch.Tensor, _spoil, result.value)
        return found

    def _in_float64(self, number: int, device: str) -> Result:
        self._say(f"sample {number} in eager, in float64 on {device}")
        sample = self._samples[number].wide(device)
        with default_dtype(torch.float64):  # what integers become
            return results(_together(sample.function), [sample])[0]

    def _difference(self, number: int, ours: Result, eager: Result | None = None) -> str:
        """What is unlike eager in one sample's results, gradients or changed inputs."""
        eager = eager or self._eager[number]
        if self._undefined or eager.random:
            return judge.unlike_random(ours.value, eager.value, means=not self._undefined)
        wide: list[Result] = []

        def reference() -> Result:
            if not wide:
                try:
                    wide.append(self._in_float64(number, "cpu"))
                except Exception:
                    if self._case.device == "cpu":
                        raise
                    wide.append(self._in_float64(number, self._case.device))
            return wide[0]

        # An input that only one of them changed may be what it was but for rounding.
        either = [a or b for a, b in zip(ours.changed, eager.changed, strict=True)]

        def part(name: str, result: Result) -> Any:
            if name != "inputs":
                return getattr(result, name)
            changes = zip(result.inputs, either, strict=True)
            return [tensor if changed else None for tensor, changed in changes]

        for name, strides in (("value", True), ("gradients", False), ("inputs", True)):
            found = judge.difference(
                part(name, ours), part(name, eager), lambda name=name: part(name, reference()),
                pointwise=self._pointwise and name != "gradients", strides=strides,
            )  # fmt: skip
            if found:
                return found if name == "value" else f"{name}: {found}"
        return ""

    # -- groups -------------------------------------------------------------------------------

    def _group(self, group: list[int]) -> None:
        self._say(f"samples {group[0]}-{group[-1]}" if len(group) > 1 else f"sample {group[0]}")
        try:
            found = self._compiled(group)
        except Exception as error:
            if len(group) == 1:
                self._failed(group[0], error)
            elif self._causes[cause(message_of(error))] >= ENOUGH:
                category = self._categories[cause(message_of(error))]
                self._add(category, group[0], message_of(error), more=len(group) - 1)
            else:
                half = len(group) // 2
                self._group(group[:half])
                self._group(group[half:])
            return
        for number, ours in zip(group, found, strict=True):
            difference = self._difference(number, ours)
            if not difference:
                self._passed(number)
            elif len(group) == 1:
                self._differs(number, ours, difference)
            else:
                self._alone(number, difference)

    def _alone(self, number: int, difference: str) -> None:
        """A sample that differs in company, once more by itself."""
        if self._causes[cause(difference)] >= ENOUGH:
            self._add(self._categories[cause(difference)], number, difference)
            return
        try:
            ours = self._compiled([number])[0]
        except Exception as error:
            self._failed(number, error)
            return
        alone = self._difference(number, ours)
        if alone:
            self._differs(number, ours, alone)
        elif self._eager_differs(number):
            self._add("eager", number, difference)
        else:
            self._add("wrong", number, f"only together with other samples: {difference}")

    # -- diagnoses ----------------------------------------------------------------------------

    def _passed(self, number: int) -> None:
        random = self._eager[number].random
        self._outcome.add(
            "undefined" if self._undefined else "random" if random else "right", number
        )

    def _add(self, category: str, number: int, message: str, more: int = 0) -> None:
        self._causes[cause(message)] += 1
        self._categories[cause(message)] = category
        self._outcome.add(category, number, message, self._samples[number].text())
        self._outcome.problems[-1].more = more
        self._outcome.counts[category] += more

    def _eager_differs(self, number: int) -> str:
        again = self._in_eager(number)
        if again.error is not None:
            return f"eager raised at its second call: {message_of(again.error)}"
        return self._difference(number, again)

    def _differs(self, number: int, ours: Result, difference: str) -> None:
        if itself := self._eager_differs(number):
            self._add("eager", number, itself)
            return
        try:
            theirs = self._compiled([number], "aot_eager")[0]
        except Exception:
            self._add("wrong", number, difference)
            return
        same = self._difference(number, theirs) and not self._difference(number, ours, theirs)
        self._add("capture" if same else "wrong", number, difference)

    def _failed(self, number: int, error: Exception) -> None:
        """A single sample raised, and eager does not."""
        try:
            self._compiled([number], "aot_eager")
        except Exception as theirs:
            self._broken(number, theirs)
            return
        self._add("refused", number, message_of(error))

    def _broken(self, number: int, theirs: Exception) -> None:
        """No backend has the call as one graph; in several, as torch.compile cuts them by itself,
        it must be right."""
        try:
            with torch._dynamo.config.patch(**CUTS):
                ours = self._compiled([number], whole=False)[0]
        except Exception as error:
            try:
                with torch._dynamo.config.patch(**CUTS):
                    self._compiled([number], "aot_eager", whole=False)
            except Exception:
                self._add("capture", number, message_of(theirs))
                return
            self._add("refused", number, message_of(error))
            return
        if difference := self._difference(number, ours):
            self._differs(number, ours, difference)
        else:
            self._add("break", number, message_of(theirs))

    def _raises(self, number: int) -> None:
        """Eager raises: so must the compiled function, and with no error of the compiler's own."""
        self._say(f"sample {number}, at which eager raises")
        eager = self._eager[number].error
        assert eager is not None
        raised = f"eager raises {message_of(eager)[:250]}; "
        try:
            self._compiled([number], whole=False)
        except Exception as error:
            # An index in a tensor that a kernel finds out of range is an IndexError of ours.
            is_index = isinstance(our_error(error), IndexError) and isinstance(
                eager, (IndexError, RuntimeError)
            )
            if is_ours(error) and not is_index and not self._is_of_tracing(number, error):
                self._add("refused", number, f"{raised}here: {message_of(error)}")
            else:
                self._outcome.add("right", number)
            return
        try:
            self._compiled([number], "aot_eager", whole=False)
        except Exception:
            self._add("silent", number, f"{raised}here nothing is raised")
            return
        self._add("capture", number, f"{raised}aot_eager raises nothing")

    def _is_of_tracing(self, number: int, error: Exception) -> bool:
        """True for what torch itself raises when it traces the call, whatever the backend."""
        try:
            self._compiled([number], "aot_eager", whole=False)
        except Exception as theirs:
            # Dynamo adds hints of its own below.
            said = (str(innermost(one)).split("\n")[0] for one in (theirs, error))
            return len(set(said)) == 1
        return False


def _together(function: Callable[..., Any]) -> Callable[[Calls], list[Any]]:
    def run(calls: Calls) -> list[Any]:
        return [function(*args, **kwargs) for args, kwargs in calls]

    return run


def _spoil(tensor: torch.Tensor) -> torch.Tensor:
    return ~tensor if tensor.dtype is torch.bool else tensor + 1
