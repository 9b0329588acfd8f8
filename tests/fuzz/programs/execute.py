# SPDX-License-Identifier: Apache-2.0
"""Runs a program compiled and in eager; the package's own judge says what came of it."""

from __future__ import annotations

import warnings
from functools import partial

import torch
from tensord.debug.judge import Backend, Judge, Outcome, attempt, cause_of, is_upstream

from .program import DEVICE_LOST, TRACES_DATA, Program, functions


def run(program: Program, backend: Backend = "tensord") -> Outcome:
    """Compiles and calls the program, and compares all that it gives with eager."""
    plain = functions(program)
    wide = functions(program, wide=True).program
    with warnings.catch_warnings(), torch._dynamo.config.patch(TRACES_DATA):
        warnings.simplefilter("ignore")
        try:
            calls = [program.sizes, *([program.other_sizes] if program.other_sizes else [])]
            judges = [Judge(plain.program, partial(plain.inputs, **s), wide) for s in calls]
        except Exception as error:
            return Outcome("invalid", cause_of(error))
        outcome = attempt(plain.program, judges, backend, program.dynamic)
        how = {"dynamic": program.dynamic}
        lost = outcome.cause.startswith(DEVICE_LOST)
        if outcome.bad and not lost and is_upstream(plain.program, judges, outcome, **how):
            outcome.kind = "upstream"
        torch._dynamo.reset()
    return outcome
