# SPDX-License-Identifier: Apache-2.0
"""The state of process and thread that every capture depends on (ProcessState).

Torch's own GlobalStateGuard compares most of it; what it holds is written as typed fields and
handed to it again as its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

import torch

from .. import torch_compat
from ..v1 import frame_pb2
from . import names, native, object_digests
from .errors import UnfitError, UnrecordableError

# GlobalStateGuard's names for what ProcessState calls otherwise.
_FIELDS = {
    "grad_mode": "grad_mode",
    "torch_function": "torch_function",
    "torch_function_all_disabled": "torch_function_all_disabled",
    "deterministic_algorithms": "deterministic",
    "deterministic_algorithms_warn_only": "deterministic_warn_only",
    "allow_tf32": "allow_tf32",
    "allow_fp16_reduce": "allow_fp16_reduction",
    "allow_bf16_reduce": "allow_bf16_reduction",
    "num_threads": "threads",
}
# c10::ScalarType's numbers of what can be a default or be cast to.
_DTYPES = {5: "float16", 6: "float32", 7: "float64", 15: "bfloat16", 11: "bool", 9: "complex64",
           10: "complex128", 23: "float8_e5m2", 24: "float8_e4m3fn"}  # fmt: skip
_NUMBERS = {name: number for number, name in _DTYPES.items()}
# In the order of at::autocast's list of devices.
_AUTOCAST_DEVICES = (
    "cpu", "cuda", "mtia", "maia", "xpu", "ipu", "hpu", "xla", "privateuseone", "mps",
)  # fmt: skip


def write(state_json: str, modes: Sequence[Any]) -> frame_pb2.ProcessState:
    """state_json: GlobalStateGuard's; modes: of torch functions, outermost first.

    Raises UnrecordableError for state that a newer torch has.
    """
    held = json.loads(state_json)
    autocast = held.pop("autocast_state")
    state = frame_pb2.ProcessState(
        default_dtype=_dtype(held.pop("default_dtype")),
        autocast_cache=autocast["cached_enabled"],
        inference_mode=torch.is_inference_mode_enabled(),
    )
    for name, value in held.items():
        if name not in _FIELDS:
            raise UnrecordableError(f"the process's state has {name}")
        setattr(state, _FIELDS[name], value)
    if len(autocast["enabled"]) != len(_AUTOCAST_DEVICES):
        raise UnrecordableError("autocast knows other devices")
    for device, enabled, dtype in zip(
        _AUTOCAST_DEVICES, autocast["enabled"], autocast["dtype"], strict=True
    ):
        state.autocast.add(device=device, enabled=enabled, dtype=_dtype(dtype))
    for mode in modes:
        state.function_modes.append(object_digests.name_of_class(type(mode)))
    return state


def _dtype(number: int) -> str:
    if number not in _DTYPES:
        raise UnrecordableError(f"a data type of number {number} in the process's state")
    return _DTYPES[number]


def check(state: frame_pb2.ProcessState) -> Callable[[], bool]:
    """Whether the state is that; raises UnfitError for what this torch cannot compare."""
    guard = torch_compat.global_state_guard()
    held = json.loads(guard.__getstate__())
    for name in list(held):
        if name in _FIELDS:
            held[name] = type(held[name])(getattr(state, _FIELDS[name]))
        elif name not in ("autocast_state", "default_dtype"):
            raise UnfitError(f"the process's state has {name}")
    try:
        held["default_dtype"] = _NUMBERS[state.default_dtype]
        held["autocast_state"] = {
            "cached_enabled": state.autocast_cache,
            "enabled": [one.enabled for one in state.autocast],
            "dtype": [_NUMBERS[one.dtype] for one in state.autocast],
        }
    except KeyError as error:
        raise UnfitError(f"there is no data type {error}") from error
    if [one.device for one in state.autocast] != list(_AUTOCAST_DEVICES):
        raise UnfitError("autocast knows other devices")
    guard.__setstate__(json.dumps(held))
    holds: Callable[[], bool] = guard.check
    return holds


def has_saved_tensor_hooks() -> bool:
    return bool(native.module().thread_state() & 2)


def thread_state(state: frame_pb2.ProcessState) -> int:
    """As the native check has it: nothing beside inference mode and the number of modes."""
    return int(state.inference_mode) + 8 * len(state.function_modes)


def check_modes(state: frame_pb2.ProcessState) -> Callable[[], bool]:
    """Whether the modes of torch functions are of those classes."""
    expected = [names.find(name) for name in state.function_modes]

    def holds() -> bool:
        return [type(mode) for mode in torch_compat.function_mode_stack()] == expected

    return holds
