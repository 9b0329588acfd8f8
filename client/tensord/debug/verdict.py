# SPDX-License-Identifier: Apache-2.0
"""What a minified script calls."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import Any

import torch

from .judge import Backend, Judge, Outcome, Program, attempt, cause_of


class DifferenceError(AssertionError):
    """A compiled program that differs from eager, or fails."""


def show(
    program: Program,
    inputs: Callable[[], list[Any]],
    *,
    backend: Backend = "tensord",
    dynamic: bool | None = None,
) -> None:
    """Compiles a program, calls it on what `inputs` makes and compares with eager, in strict mode.

    Raises DifferenceError where it differs or fails.
    """
    outcome = judge(program, inputs, backend, dynamic)
    if outcome.bad:
        raise DifferenceError(f"{outcome.kind}: {outcome.message}")
    print(f"{outcome.kind}: no difference from eager was seen")


def judge(
    program: Program, inputs: Callable[[], list[Any]], backend: Backend, dynamic: bool | None
) -> Outcome:
    """As `show`, but gives what came of it. Random results are right whatever they are."""
    os.environ["TENSORD_STRICT"] = "1"
    state = torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            referee = Judge(program, inputs)
        except Exception as error:
            return Outcome("invalid", cause_of(error), str(error))
        finally:
            _restore(*state)  # a program may have lost the end of what it began
        outcome = attempt(program, [referee], backend, dynamic)
        _restore(*state)
        if outcome.kind == "wrong" and referee.is_random():
            outcome = Outcome("right", "random")
        if outcome.cause == "strides" and referee.is_misdeclared():
            outcome.kind = "upstream"
        _restore(*state)
    torch._dynamo.reset()
    return outcome


def _restore(gradients: bool, autocast: bool) -> None:
    torch.set_grad_enabled(gradients)
    torch.set_autocast_enabled("cpu", autocast)
