# SPDX-License-Identifier: Apache-2.0
"""Runs compiled programs in this process: the way from Python to libtensord_runtime.

`load_program` gives a callable for an artifact: the native extension (`tensord._native`) where that
is built, else `Program` below, which needs no compiler: ctypes, and torch's own capsules for
tensors.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from tensord import _native, library
from tensord.bridge import loaded_programs
from tensord.bridge.call_backs import run_step
from tensord.bridge.values import (
    INT,
    TENSOR,
    OperatorFn,
    Value,
    as_values,
    call_operator,
    from_handles,
    to_handles,
)
from tensord.counters import STATS

_ABI = 9

CODES = {
    1: "INVALID",
    2: "CORRUPT",
    3: "UNAVAILABLE",
    4: "OPERATOR",
    5: "OUT_OF_MEMORY",
    6: "INDEX",
}
INVALID, CORRUPT, UNAVAILABLE, OPERATOR, OUT_OF_MEMORY, INDEX = 1, 2, 3, 4, 5, 6
_BEFORE_ANY_STEP = frozenset({INVALID, CORRUPT, UNAVAILABLE})


class TensordRuntimeError(RuntimeError):
    """A program could not be loaded or run. `code` is a TensordError (see CODES)."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


class IndexOutOfRange(IndexError, RuntimeError):
    """An index in a tensor is out of range. Eager raises an IndexError for some operators and a
    RuntimeError for others."""


def runtime_error(message: str, code: int) -> Exception:
    """The exception for a failure of the runtime: torch's own where it has one."""
    if code == OUT_OF_MEMORY:
        return torch.OutOfMemoryError(message)
    if code == INDEX:
        return IndexOutOfRange(message)
    return TensordRuntimeError(message, code)


def find_runtime_library() -> Path:
    """The runtime library's file; TensordRuntimeError where there is none."""
    try:
        return library.find()
    except FileNotFoundError as error:
        raise TensordRuntimeError(str(error), UNAVAILABLE) from error


class _Library:
    """libtensord_runtime, loaded once."""

    _lock = threading.Lock()
    _instance: _Library | None = None

    @classmethod
    def get(cls) -> _Library:
        if cls._instance is None:
            with cls._lock:
                if cls._instance is None:
                    cls._instance = cls()
        return cls._instance

    def __init__(self) -> None:
        path = find_runtime_library()
        try:
            self.lib = ctypes.CDLL(str(path))
        except OSError as error:
            raise TensordRuntimeError(f"cannot load {path}: {error}", UNAVAILABLE) from error
        lib = self.lib
        lib.tensord_last_error.restype = ctypes.c_char_p
        lib.tensord_runtime_version.restype = ctypes.c_char_p
        lib.tensord_set_error.argtypes = [ctypes.c_char_p]
        lib.tensord_set_error.restype = None
        lib.tensord_set_operator_caller.argtypes = [OperatorFn, ctypes.c_void_p]
        lib.tensord_set_operator_caller.restype = None
        lib.tensord_program_load.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_void_p),
        ]
        lib.tensord_program_release.argtypes = [ctypes.c_void_p]
        lib.tensord_program_release.restype = None
        lib.tensord_program_workspace.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(Value),
            ctypes.c_size_t,
            ctypes.POINTER(ctypes.c_int64),
            ctypes.POINTER(ctypes.c_int64),
        ]
        for count in (lib.tensord_program_num_inputs, lib.tensord_program_num_outputs):
            count.argtypes = [ctypes.c_void_p]
            count.restype = ctypes.c_size_t
        lib.tensord_program_released_inputs.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(ctypes.POINTER(ctypes.c_uint32)),
        ]
        lib.tensord_program_released_inputs.restype = ctypes.c_size_t
        lib.tensord_program_number.argtypes = [ctypes.c_void_p]
        lib.tensord_program_number.restype = ctypes.c_uint64
        lib.tensord_program_run.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(Value),
            ctypes.c_size_t,
            ctypes.POINTER(Value),
            ctypes.c_size_t,
        ]
        lib.tensord_lend_workspace.argtypes = [ctypes.c_void_p, ctypes.c_int64]
        lib.tensord_lend_workspace.restype = None
        abi = lib.tensord_runtime_abi()
        if abi != _ABI:
            raise TensordRuntimeError(
                f"{path} has ABI {abi}, this client needs {_ABI}", UNAVAILABLE
            )
        self.path = path
        torch_lib = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
        self.shim = ctypes.CDLL(str(torch_lib))
        self._caller = OperatorFn(self._operator)
        lib.tensord_set_operator_caller(self._caller, None)

    def _operator(self, _context: int, call: Any) -> int:
        try:
            call_operator(self.lib, self.shim, call.contents)
        except Exception as error:  # whatever it is, the runtime reports it
            self.lib.tensord_set_error(f"{error}".encode())
            return OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError) else OPERATOR
        return 0

    def error(self, code: int) -> Exception:
        return runtime_error(self.lib.tensord_last_error().decode(errors="replace"), code)


class Program:
    """A compiled program, through ctypes. Inputs and outputs are tensors, ints and None.

    Called with the inputs themselves or with one list, which it clears (AOTAutograd's boxed
    convention): what only the list held goes as soon as the program needs it no more. A call that
    fails before its first step leaves the list as it was. It hands over to the native extension
    when that gets built while the job runs.
    """

    _CHECK_SECONDS = 0.5  # between two looks for the extension

    def __init__(self, artifact: bytes, blob_folder: str | os.PathLike[str]) -> None:
        self._handle = ctypes.c_void_p()
        self._native: Any = None
        self._look_at = 0.0  # when to look for the extension again
        self._upgrade: tuple[bytes, str] | None = None
        self._library = _Library.get()
        self._lib = self._library.lib
        code = self._lib.tensord_program_load(
            artifact, len(artifact), os.fsencode(blob_folder), ctypes.byref(self._handle)
        )
        if code:
            raise self._library.error(code)
        self.number = self._lib.tensord_program_number(self._handle)  # what profiles know it by
        self.num_inputs = self._lib.tensord_program_num_inputs(self._handle)
        self.num_outputs = self._lib.tensord_program_num_outputs(self._handle)
        numbers = ctypes.POINTER(ctypes.c_uint32)()
        count = self._lib.tensord_program_released_inputs(self._handle, ctypes.byref(numbers))
        self._released = numbers[:count]

    @classmethod
    def load(cls, artifact: bytes, blob_folder: str | os.PathLike[str]) -> Program:
        return cls(artifact, blob_folder)

    def __del__(self) -> None:
        handle = getattr(self, "_handle", None)
        if handle:
            self._lib.tensord_program_release(handle)

    def __call__(self, *args: Any) -> list[Any]:
        if self._upgrade is not None:
            self._look_for_native()
        if self._native is not None:
            return self._native(*args)
        if len(args) != 1 or not isinstance(args[0], list):
            return self._run(args, ())
        values = args[0].copy()
        args[0].clear()
        try:
            return self._run(values, self._released)
        except TensordRuntimeError as error:
            if error.code in _BEFORE_ANY_STEP:
                args[0][:] = values
            raise

    def _look_for_native(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._CHECK_SECONDS
        if self._upgrade is not None and (module := native_extension()) is not None:
            self._native = module.Program(*self._upgrade)
            self._upgrade = None
            loaded_programs.renumber(self.number, self._native.number)
            self.number = self._native.number

    def workspace_bytes(self, values: Sequence[Any]) -> tuple[int, int]:
        """What a call with these inputs takes as workspace, and what of it is there all the time;
        0 on the CPU."""
        if self._native is not None:
            return self._native.workspace_bytes(values)
        whole, least = ctypes.c_int64(), ctypes.c_int64()
        with as_values(values) as inputs:
            code = self._lib.tensord_program_workspace(
                self._handle, inputs, len(values), ctypes.byref(whole), ctypes.byref(least)
            )
        if code:
            raise self._library.error(code)
        return whole.value, least.value

    def _run(self, values: Sequence[Any], given: Sequence[int]) -> list[Any]:
        outputs = (Value * max(1, self.num_outputs))()
        with as_values(values, given) as inputs:
            code = self._lib.tensord_program_run(
                self._handle, inputs, len(values), outputs, self.num_outputs
            )
        if code:
            raise self._library.error(code)
        made = iter(from_handles([o.tensor for o in outputs if o.kind == TENSOR]))
        return [
            next(made) if o.kind == TENSOR else o.integer if o.kind == INT else None
            for o in outputs[: self.num_outputs]
        ]


def native_extension() -> Any:
    """The native extension, ready for use; None where it is not built."""
    if os.environ.get("TENSORD_NATIVE") == "0":
        return None
    return _native.load(find_runtime_library(), runtime_error, run_step)


@contextlib.contextmanager
def lent_workspace(tensor: torch.Tensor) -> Iterator[None]:
    """A block whose first call of a CUDA program takes `tensor` (uint8) as its workspace, for all
    of it or for what is there all the time, where that is large enough."""
    native = native_extension()
    if native is not None:
        native.lend_workspace(tensor)
        try:
            yield
        finally:
            native.lend_workspace(None)
        return
    lib, handles = _Library.get().lib, to_handles([tensor])
    lib.tensord_lend_workspace(handles[0], tensor.numel())
    try:
        yield
    finally:
        lib.tensord_lend_workspace(None, 0)
        from_handles(handles)


def load_program(artifact: bytes, blob_folder: str | os.PathLike[str]) -> Any:
    """A callable for a serialised tensord.v1.Artifact whose blobs lie in `blob_folder`.

    Raises TensordRuntimeError; so does the callable, and torch.OutOfMemoryError. Where the native
    extension is not built yet, its build starts in the background and the ctypes bridge serves
    until it is there. TENSORD_NATIVE=0 forbids both.
    """
    native = native_extension()
    if native is not None:
        return native.Program(artifact, os.fspath(blob_folder))
    STATS.add("slow_bridge")
    program = Program(artifact, blob_folder)
    if os.environ.get("TENSORD_NATIVE") != "0" and _native.build_in_background():
        program._upgrade = (artifact, os.fspath(blob_folder))
    return program
