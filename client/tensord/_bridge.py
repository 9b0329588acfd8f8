"""Runs compiled programs in this process: the way from Python to libtensord_runtime.

`load_program` gives a callable for an artifact: the native extension (`tensord._native`) where that
is built, else `Program` below, which needs no compiler: ctypes, and torch's own capsules for
tensors.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from tensord import _native
from tensord.counters import STATS

_ABI = 2
_LIBRARY = "libtensord_runtime.so"

CODES = {1: "INVALID", 2: "CORRUPT", 3: "UNAVAILABLE", 4: "OPERATOR", 5: "OUT_OF_MEMORY"}
INVALID, CORRUPT, UNAVAILABLE, OPERATOR, OUT_OF_MEMORY = 1, 2, 3, 4, 5


class TensordRuntimeError(RuntimeError):
    """A program could not be loaded or run. `code` is a TensordError (see CODES)."""

    def __init__(self, message: str, code: int = 0) -> None:
        super().__init__(message)
        self.code = code


def runtime_error(message: str, code: int) -> Exception:
    """The exception for a failure of the runtime: torch's own where it has one."""
    if code == OUT_OF_MEMORY:
        return torch.OutOfMemoryError(message)
    return TensordRuntimeError(message, code)


class _Payload(ctypes.Union):
    _fields_ = [
        ("tensor", ctypes.c_void_p),
        ("integer", ctypes.c_int64),
        ("real", ctypes.c_double),
        ("text", ctypes.c_char_p),
        ("items", ctypes.c_void_p),
    ]


class _Value(ctypes.Structure):
    _anonymous_ = ("payload",)
    _fields_ = [("kind", ctypes.c_int), ("payload", _Payload), ("size", ctypes.c_size_t)]


class _OperatorCall(ctypes.Structure):
    _fields_ = [
        ("op", ctypes.c_char_p),
        ("overload", ctypes.c_char_p),
        ("args", ctypes.POINTER(_Value)),
        ("num_args", ctypes.c_size_t),
        ("results", ctypes.POINTER(ctypes.c_void_p)),
        ("num_results", ctypes.c_size_t),
    ]


_OperatorFn = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(_OperatorCall))

# TensordKind.
_NONE, _TENSOR, _INT, _DOUBLE, _BOOL, _STRING, _DTYPE, _DEVICE, _FORMAT, _LAYOUT, _LIST = range(11)

# c10::ScalarType, DeviceType, MemoryFormat and Layout by number.
_DTYPES = {
    0: torch.uint8,
    1: torch.int8,
    2: torch.int16,
    3: torch.int32,
    4: torch.int64,
    5: torch.float16,
    6: torch.float32,
    7: torch.float64,
    9: torch.complex64,
    10: torch.complex128,
    11: torch.bool,
    15: torch.bfloat16,
    23: torch.float8_e5m2,
    24: torch.float8_e4m3fn,
    27: torch.uint16,
    28: torch.uint32,
    29: torch.uint64,
}
_DEVICES = {0: "cpu", 1: "cuda"}
_FORMATS = {
    0: torch.contiguous_format,
    1: torch.preserve_format,
    2: torch.channels_last,
    3: torch.channels_last_3d,
}

_VIEW_TRACKING = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)

_to_pointers = torch._C._aoti.unsafe_alloc_void_ptrs_from_tensors
_from_pointers = torch._C._aoti.alloc_tensors_by_stealing_from_void_ptrs

# Typed copies, so that other users of ctypes.pythonapi keep theirs.
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
_new_capsule = ctypes.PYFUNCTYPE(
    ctypes.py_object, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p
)(("PyCapsule_New", ctypes.pythonapi))


def _to_handles(tensors: list[torch.Tensor]) -> list[int]:
    """New owned handles (at::Tensor*), one per tensor."""
    return [_capsule_pointer(capsule, None) for capsule in _to_pointers(tensors)]


def _from_handles(handles: list[int]) -> list[torch.Tensor]:
    """The tensors of owned handles, which are used up."""
    return _from_pointers([_new_capsule(handle, None, None) for handle in handles])


def find_runtime_library() -> Path:
    """TENSORD_RUNTIME_LIB, the bundle's lib/, or the build folder of a source tree."""
    override = os.environ.get("TENSORD_RUNTIME_LIB")
    if override:
        return Path(override)
    here = Path(__file__).resolve().parent
    candidates = [here / "lib" / _LIBRARY, here.parents[1] / "build" / "lib" / _LIBRARY]
    for candidate in candidates:
        if candidate.exists():
            return candidate
    tried = ", ".join(str(candidate) for candidate in candidates)
    raise TensordRuntimeError(
        f"{_LIBRARY} not found (tried {tried}; set TENSORD_RUNTIME_LIB)", UNAVAILABLE
    )


def _call_operator(library: ctypes.CDLL, shim: ctypes.CDLL, call: _OperatorCall) -> None:
    """Runs an operator through torch.ops and stores new handles of its results."""

    def convert(value: _Value) -> Any:
        kind = value.kind
        if kind == _TENSOR:
            handle = ctypes.c_void_p()
            if shim.aoti_torch_new_tensor_handle(
                ctypes.c_void_p(value.tensor), ctypes.byref(handle)
            ):
                raise RuntimeError("cannot share a tensor")
            return _from_handles([handle.value])[0]
        if kind == _INT:
            return value.integer
        if kind == _DOUBLE:
            return value.real
        if kind == _BOOL:
            return bool(value.integer)
        if kind == _STRING:
            return value.text.decode()
        if kind == _DTYPE:
            return _DTYPES[value.integer]
        if kind == _DEVICE:
            device = _DEVICES[value.integer]
            return torch.device(device, value.size) if device == "cuda" else torch.device(device)
        if kind == _FORMAT:
            return _FORMATS[value.integer]
        if kind == _LAYOUT:
            return torch.strided
        if kind == _LIST:
            items = ctypes.cast(value.items, ctypes.POINTER(_Value))
            return [convert(items[i]) for i in range(value.size)]
        return None

    namespace, name = call.op.decode().split("::")
    packet = getattr(getattr(torch.ops, namespace), name)
    op = getattr(packet, call.overload.decode() or "default")
    args, kwargs = [], {}
    for i, parameter in enumerate(op._schema.arguments[: call.num_args]):
        value = convert(call.args[i])
        if parameter.kwarg_only:
            kwargs[parameter.name] = value
        else:
            args.append(value)
    # Below autograd and view tracking: a view of a parameter would say that it requires a gradient.
    with (
        torch._C._DisableAutocast(),
        torch._C._AutoDispatchBelowAutograd(),
        torch._C._ExcludeDispatchKeyGuard(_VIEW_TRACKING),
    ):
        results = op(*args, **kwargs)
    flat: list[Any] = []
    for result in results if isinstance(results, tuple | list) else [results]:
        flat.extend(result if isinstance(result, tuple | list) else [result])
    for i in range(call.num_results):
        result = flat[i] if i < len(flat) else None
        # Fused attention also returns sizes, which the graph has as numbers.
        is_tensor = isinstance(result, torch.Tensor)
        call.results[i] = _to_handles([result])[0] if is_tensor else None


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
        lib.tensord_set_operator_caller.argtypes = [_OperatorFn, ctypes.c_void_p]
        lib.tensord_set_operator_caller.restype = None
        lib.tensord_program_load.argtypes = [
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            ctypes.POINTER(ctypes.c_void_p),
        ]
        lib.tensord_program_release.argtypes = [ctypes.c_void_p]
        lib.tensord_program_release.restype = None
        for count in (lib.tensord_program_num_inputs, lib.tensord_program_num_outputs):
            count.argtypes = [ctypes.c_void_p]
            count.restype = ctypes.c_size_t
        lib.tensord_program_run.argtypes = [
            ctypes.c_void_p,
            ctypes.POINTER(_Value),
            ctypes.c_size_t,
            ctypes.POINTER(_Value),
            ctypes.c_size_t,
        ]
        abi = lib.tensord_runtime_abi()
        if abi != _ABI:
            raise TensordRuntimeError(
                f"{path} has ABI {abi}, this client needs {_ABI}", UNAVAILABLE
            )
        self.path = path
        torch_lib = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
        self.shim = ctypes.CDLL(str(torch_lib))
        self._caller = _OperatorFn(self._operator)
        lib.tensord_set_operator_caller(self._caller, None)

    def _operator(self, _context: int, call: Any) -> int:
        try:
            _call_operator(self.lib, self.shim, call.contents)
        except Exception as error:  # whatever it is, the runtime reports it
            self.lib.tensord_set_error(f"{error}".encode())
            return OUT_OF_MEMORY if isinstance(error, torch.OutOfMemoryError) else OPERATOR
        return 0

    def error(self, code: int) -> Exception:
        return runtime_error(self.lib.tensord_last_error().decode(errors="replace"), code)


class Program:
    """A compiled program, through ctypes. Inputs and outputs are tensors, ints and None.

    Called with one list (which it clears: AOTAutograd's boxed convention) or with the inputs
    themselves. It hands over to the native extension when that gets built while the job runs.
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
        self.num_inputs = self._lib.tensord_program_num_inputs(self._handle)
        self.num_outputs = self._lib.tensord_program_num_outputs(self._handle)

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
        if len(args) == 1 and isinstance(args[0], list):
            values: Sequence[Any] = list(args[0])
            args[0].clear()
        else:
            values = args
        return self._run(values)

    def _look_for_native(self) -> None:
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + self._CHECK_SECONDS
        if (module := _load_native()) is not None:
            self._native = module.Program(*self._upgrade)
            self._upgrade = None

    def _run(self, values: Sequence[Any]) -> list[Any]:
        inputs = (_Value * max(1, len(values)))()
        tensors = [value for value in values if isinstance(value, torch.Tensor)]
        # The handles are ours, and made into tensors again to drop them.
        handles = _to_handles(tensors)
        try:
            position = 0
            for slot, value in zip(inputs, values, strict=False):
                if isinstance(value, torch.Tensor):
                    slot.kind = _TENSOR
                    slot.tensor = handles[position]
                    position += 1
                elif isinstance(value, int):
                    slot.kind = _INT
                    slot.integer = value
            outputs = (_Value * max(1, self.num_outputs))()
            code = self._lib.tensord_program_run(
                self._handle, inputs, len(values), outputs, self.num_outputs
            )
        finally:
            _from_handles(handles)
        if code:
            raise self._library.error(code)
        made = iter(_from_handles([o.tensor for o in outputs if o.kind == _TENSOR]))
        return [
            next(made) if o.kind == _TENSOR else o.integer if o.kind == _INT else None
            for o in outputs[: self.num_outputs]
        ]


def _load_native() -> Any:
    """The native extension, ready for use; None where it is not built."""
    if os.environ.get("TENSORD_NATIVE") == "0":
        return None
    return _native.load(find_runtime_library(), runtime_error)


def load_program(artifact: bytes, blob_folder: str | os.PathLike[str]) -> Any:
    """A callable for a serialised tensord.v1.Artifact whose blobs lie in `blob_folder`.

    Raises TensordRuntimeError; so does the callable, and torch.OutOfMemoryError. Where the native
    extension is not built yet, its build starts in the background and the ctypes bridge serves
    until it is there. TENSORD_NATIVE=0 forbids both.
    """
    native = _load_native()
    if native is not None:
        return native.Program(artifact, os.fspath(blob_folder))
    STATS.add("slow_bridge")
    program = Program(artifact, blob_folder)
    if os.environ.get("TENSORD_NATIVE") != "0" and _native.build_in_background():
        program._upgrade = (artifact, os.fspath(blob_folder))
    return program
