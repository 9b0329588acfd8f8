# SPDX-License-Identifier: Apache-2.0
"""How long the steps of programs take: what the runtime notes while this process is profiled.

The functions are called through ctypes whichever bridge runs the programs: it is one library.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

from .runtime import find_runtime_library, runtime_error

# TensordStepKind of runtime/include/tensord/runtime.h.
LAUNCH, CALL, ZERO_FILL, MEMORY = 1, 2, 3, 4


class StepTime(NamedTuple):
    """A step of one run. number: of its kind among the plan's steps. Nanoseconds, begin from the
    run's begin on."""

    kind: int
    number: int
    begin: int
    nanoseconds: int


class RunTimes(NamedTuple):
    """A run of a program. begin, end: by time.monotonic_ns. device: of CUDA, whose clock the steps'
    times are of; -1: the host."""

    program: int
    begin: int
    end: int
    device: int
    symbols: tuple[int, ...]
    steps: Sequence[StepTime]


class _Step(ctypes.Structure):
    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("number", ctypes.c_uint32),
        ("begin", ctypes.c_uint64),
        ("nanoseconds", ctypes.c_uint64),
    )


class _Run(ctypes.Structure):
    _fields_ = (
        ("program", ctypes.c_uint64),
        ("begin", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("symbols", ctypes.POINTER(ctypes.c_int64)),
        ("num_symbols", ctypes.c_size_t),
        ("steps", ctypes.POINTER(_Step)),
        ("num_steps", ctypes.c_size_t),
        ("device", ctypes.c_int32),
    )


@functools.cache
def _library() -> Any:
    lib = ctypes.CDLL(str(find_runtime_library()))
    lib.tensord_last_error.restype = ctypes.c_char_p
    lib.tensord_profile_take.argtypes = [
        ctypes.POINTER(ctypes.POINTER(_Run)),
        ctypes.POINTER(ctypes.c_size_t),
        ctypes.POINTER(ctypes.c_uint64),
    ]
    lib.tensord_profile_kept.restype = ctypes.c_size_t
    lib.tensord_profile_end.restype = None
    return lib


def _check(code: int) -> None:
    if code:
        raise runtime_error(_library().tensord_last_error().decode(errors="replace"), code)


def begin() -> None:
    """Every run in this process is timed from here on. TensordRuntimeError: they are already."""
    _check(_library().tensord_profile_begin())


def kept() -> int:
    """How many steps a `take` would give. Beyond 2**18 runs have no room; waits for nothing."""
    return int(_library().tensord_profile_kept())


def take() -> tuple[list[RunTimes], int]:
    """The runs since the last take, in the order of their ends, once devices have done them; and
    how many more there were that have no times."""
    runs, count, dropped = ctypes.POINTER(_Run)(), ctypes.c_size_t(), ctypes.c_uint64()
    _check(
        _library().tensord_profile_take(
            ctypes.byref(runs), ctypes.byref(count), ctypes.byref(dropped)
        )
    )
    return [_copied(runs[i]) for i in range(count.value)], dropped.value


def _copied(run: _Run) -> RunTimes:
    steps = [
        StepTime(one.kind, one.number, one.begin, one.nanoseconds)
        for one in run.steps[: run.num_steps]
    ]
    symbols = tuple(run.symbols[: run.num_symbols])
    return RunTimes(run.program, run.begin, run.end, run.device, symbols, steps)


def end() -> None:
    """Nothing is timed any more. Does nothing where nothing is."""
    _library().tensord_profile_end()
