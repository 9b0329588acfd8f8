# SPDX-License-Identifier: Apache-2.0
"""A process that compiles: runs cases of files in eager and compiled, and prints what it saw.

    python frame_runner.py HOW FILE...

Of the cases ONLY those of the environment, WITHOUT those.
HOW: "own" for tensord.compile, "name" for torch.compile(..., backend="tensord"). A case is a
function `case...(compile)` of a file, where `compile(target, **told)` is to be used as
tensord.compile is; what it returns is compared. Prints one line of JSON: cases by name, and what
the process has imported.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import re
import sys
import traceback
from pathlib import Path
from typing import Any

import tensord
import torch

# Relative to the largest number, and absolute, by dtype.
TOLERANCE = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float64: 1e-9}
USUAL_TOLERANCE = 2e-5


def difference(one: Any, other: Any, where: str = "result") -> str:
    """How two results differ in type, structure or numbers; "" where they do not."""
    if type(one).__qualname__ != type(other).__qualname__:  # of two modules of one file
        return f"{where}: {type(one).__name__} is not {type(other).__name__}"
    if isinstance(one, torch.Tensor):
        return _difference_of_tensors(one, other, where)
    if dataclasses.is_dataclass(one):
        one, other = vars(one), vars(other)
    if isinstance(one, dict):
        if list(one) != list(other):
            return f"{where}: keys {list(one)} are not {list(other)}"
        one, other = list(one.values()), list(other.values())
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{where}: {len(one)} items are not {len(other)}"
        pairs = enumerate(zip(one, other, strict=True))
        return next((d for i, (a, b) in pairs if (d := difference(a, b, f"{where}[{i}]"))), "")
    if isinstance(one, float) and isinstance(other, float):
        return "" if abs(one - other) <= 1e-6 * max(1.0, abs(one)) else f"{where}: {one}, {other}"
    return "" if one == other else f"{where}: {one!r} is not {other!r}"


def _difference_of_tensors(one: torch.Tensor, other: torch.Tensor, where: str) -> str:
    for what in ("dtype", "shape", "requires_grad", "is_leaf"):
        if getattr(one, what) != getattr(other, what):
            return f"{where}.{what}: {getattr(one, what)} is not {getattr(other, what)}"
    tolerance = TOLERANCE.get(one.dtype, USUAL_TOLERANCE)
    a, b = _wide(one), _wide(other)
    largest = float(b.abs().max()) if b.numel() else 0.0
    if torch.allclose(a, b, rtol=tolerance, atol=tolerance * max(1.0, largest), equal_nan=True):
        return ""
    return f"{where}: differs by {float((a - b).abs().max())}"


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach()
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double()


def shown(result: Any) -> Any:
    """A result in few words, by which two processes' are told apart."""
    if isinstance(result, torch.Tensor):
        wide = _wide(result)
        return [str(result.dtype), list(result.shape), result.requires_grad,
                f"{float(wide.sum()):.4g}", f"{float((wide * wide).sum()):.4g}"]  # fmt: skip
    if dataclasses.is_dataclass(result):
        return shown(vars(result))
    if isinstance(result, dict):
        return {str(name): shown(value) for name, value in result.items()}
    if isinstance(result, (list, tuple)):
        return [type(result).__name__, *map(shown, result)]
    return repr(result)


_LONGEST_ERROR = 2000
_OF_FRAMES = ("frames_served", "frames_captured", "frames_recorded", "frames_unrecorded",
              "frames_unfit", "fallback_reasons", "calls_in_eager")  # fmt: skip


def _run(file: Path, case: str, compile: Any) -> dict[str, Any]:
    tensord.reset_stats()
    before = has_dynamo()
    torch.manual_seed(0)
    try:
        expected = getattr(_fresh(file), case)(lambda target, **told: target)
    except Exception:
        return {"error": "in eager: " + traceback.format_exc()[-_LONGEST_ERROR:]}
    torch.manual_seed(0)
    said: dict[str, Any] = {"eager": shown(expected), "error": ""}
    try:
        said["error"] = difference(getattr(_fresh(file), case)(compile), expected)
    except Exception:
        said["error"] = traceback.format_exc()[-_LONGEST_ERROR:]
    stats = tensord.stats()
    imported = [name for name in has_dynamo() if name not in before]
    return {**said, **{name: stats[name] for name in _OF_FRAMES}, "imported": imported}


def has_dynamo() -> list[str]:
    """Of what is imported to capture, what this process has imported."""
    return [name for name in ("torch._dynamo", "torch._functorch.aot_autograd", "sympy")
            if name in sys.modules]  # fmt: skip


def by_name(target: Any = None, **told: Any) -> Any:
    """torch.compile with the backend by its name."""
    return torch.compile(target, backend="tensord", **told)


def _fresh(file: Path) -> Any:
    """The file's module as if nothing of it had run: torch.compile counts how often it captures a
    code."""
    for name, module in list(sys.modules.items()):
        own = str(getattr(module, "__file__", None) or "").startswith(str(file.parent) + os.sep)
        if own and name != "__main__":
            del sys.modules[name]
    return importlib.import_module(file.stem)


def _name_of(file: Path, function: str) -> str:
    return file.stem if function == "case" else function.removeprefix("case_")


def case_names(file: Path) -> list[str]:
    """Of a file."""
    functions = re.findall(r"^def (case\w*)\(", file.read_text(), re.MULTILINE)
    return [_name_of(file, function) for function in functions]


def main() -> None:
    how, *files = sys.argv[1:]
    compile = {"own": tensord.compile, "name": by_name}[how]
    left_out, only = (set(os.environ.get(name, "").split(",")) for name in ("WITHOUT", "ONLY"))
    said = {}
    for file in (Path(name).resolve() for name in files):
        sys.path.insert(0, str(file.parent))
        for function in [name for name in vars(_fresh(file)) if name.startswith("case")]:
            name = _name_of(file, function)
            if name not in left_out and (only == {""} or name in only):
                said[name] = _run(file, function, compile)
    print(json.dumps({"cases": said, "dynamo": has_dynamo()}))


if __name__ == "__main__":
    main()
