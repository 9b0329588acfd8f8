# SPDX-License-Identifier: Apache-2.0
"""What functions of torch say of the process, which a capture took for constants.

Dynamo guards on some of them. Others it takes for the same as long as the process runs: which rank
it is, how many there are, whether there is a GPU. Another process may be another rank, so that a
frame says what they were wherever code that was followed into names one of them.
"""

from __future__ import annotations

import dis
import itertools
import types
from collections.abc import Callable, Iterable
from typing import Any

import torch

from ..v1 import frame_pb2
from . import constants, names
from .errors import UnfitError, UnrecordableError
from .recorder import Recorder

# Which Dynamo guards on, by module and name.
_GUARDED = (
    ("torch.accelerator", "current_accelerator"), ("torch.accelerator", "current_device_index"),
    ("torch.cuda", "current_device"), ("torch.cuda", "is_initialized"),
    ("torch.xpu", "current_device"), ("torch.xpu", "is_initialized"),
    ("torch", "get_device_module"),
)  # fmt: skip
# Which it does not: by the name that code has for it, what is asked instead. Properties of a device
# are those of its name.
_C10D = "torch.distributed.distributed_c10d"
_DEVICE = (("torch.cuda", "get_device_name"), ("torch.cuda", "get_device_capability"))
_CONSTANT = {
    "is_available": tuple(
        (f"torch.{kind}", "is_available") for kind in ("accelerator", "cuda", "xpu")
    ),
    "get_rank": ((_C10D, "get_rank"),),
    "get_world_size": ((_C10D, "get_world_size"),),
    "is_initialized": ((_C10D, "is_initialized"),),
    "get_device_capability": _DEVICE[1:],
    "get_device_name": _DEVICE[:1],
    "get_device_properties": _DEVICE,
}
# Each call of which says another thing, where a capture keeps what it said once.
_DRAWN = ("seed",)
_ALLOWED = frozenset(_GUARDED).union(*_CONSTANT.values())


def is_asked(source: Any) -> bool:
    """Whether a source of Dynamo's is what a function without arguments returns."""
    return type(source).__name__ == "CallFunctionNoArgsSource"


def write_asked(recorder: Recorder, guard: Any) -> None:
    """A guard on what such a function returns. Raises UnrecordableError."""
    source = guard.originating_source
    function = names.name_of(recorder.capture.value(source.base))
    if (function.module, function.qualified_name) not in _GUARDED:
        raise UnrecordableError(f"it is what {names.shown(function)} returns")
    _add(recorder, function, recorder.capture.value(source), once=False)


def write_constants(recorder: Recorder, codes: Iterable[types.CodeType]) -> None:
    """What the codes may have asked: those of users, for torch's own say the same on each rank, or
    do what they do by guards. Raises UnrecordableError."""
    own = [code for code in codes if not _is_torchs(code)]
    for code in own:
        if drawn := _drawn(code):
            raise UnrecordableError(f"{code.co_name} keeps what torch.{drawn}() drew")
    named = {name for code in own for name in code.co_names}
    for place in dict.fromkeys(
        place for name in sorted(named) for place in _CONSTANT.get(name, ())
    ):
        if place in _DEVICE and not torch.cuda.is_initialized():
            continue  # nor was it asked, which makes it so
        function = frame_pb2.NamedObject(module=place[0], qualified_name=place[1])
        try:
            value = names.find(function)()
        except (UnfitError, RuntimeError, ValueError):
            continue  # it was not called: there is no such module, or no process group
        _add(recorder, function, value, once=True)


def _drawn(code: types.CodeType) -> str | None:
    """The function of torch among _DRAWN that the code calls by that name."""
    if "torch" not in code.co_names or not any(name in code.co_names for name in _DRAWN):
        return None
    read = [one.argval for one in dis.get_instructions(code) if one.argval in code.co_names]
    calls = itertools.pairwise(read)
    return next((name for module, name in calls if module == "torch" and name in _DRAWN), None)


def _add(recorder: Recorder, function: frame_pb2.NamedObject, value: Any, once: bool) -> None:
    called = frame_pb2.CalledFunction(function=function, result=constants.write(value), once=once)
    recorder.add(None, f"{names.shown(function)}() is {value!r}", called=called)


_TORCH = torch.__file__.removesuffix("__init__.py")


def _is_torchs(code: types.CodeType) -> bool:
    return code.co_filename.startswith(_TORCH)


def check(called: frame_pb2.CalledFunction) -> Callable[[], bool] | None:
    """What asks at each call; None where the answer is that already, and stays. Raises
    UnfitError."""
    if (called.function.module, called.function.qualified_name) not in _ALLOWED:
        raise UnfitError(f"no guard calls {names.shown(called.function)}")
    function, expected = names.find_own(called.function), constants.read(called.result)

    def holds() -> bool:
        value = function()
        return type(value) is type(expected) and bool(value == expected)

    if not called.once:
        return holds
    try:
        same = holds()
    except (RuntimeError, ValueError):  # there is no process group
        same = False
    if not same:
        raise UnfitError(f"{names.shown(called.function)}() is not {expected!r}")
    return None
