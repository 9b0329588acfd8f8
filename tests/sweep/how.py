# SPDX-License-Identifier: Apache-2.0
"""How an operator ran, from the launch plans that the client loads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

# From the best to the least; `view`: there was nothing to compute.
KINDS = ("view", "kernel", "kernels", "library", "call-back")
# Calls that make or move memory without computing: allocations and views of the plan itself.
_PLUMBING = ("aten::as_strided", "aten::alias", "aten::detach", "aten::empty_strided")


@dataclass
class Recording:
    """What was compiled inside a block: the programs that were loaded (tensord.v1.Artifact), in
    order, and the operators that run in Python beside them."""

    artifacts: list[Any] = field(default_factory=list)
    in_python: list[str] = field(default_factory=list)


@contextlib.contextmanager
def recorded() -> Iterator[Recording]:
    """Records what is compiled inside the block."""
    import tensord
    from tensord.bridge import runtime
    from tensord.v1 import artifact_pb2

    recording = Recording()
    load, before = runtime.load_program, tensord.stats()["call_back_reasons"]

    def loading(artifact: bytes, blob_folder: Any) -> Any:
        recording.artifacts.append(artifact_pb2.Artifact.FromString(artifact))
        return load(artifact, blob_folder)

    runtime.load_program = loading
    try:
        yield recording
    finally:
        runtime.load_program = load
        for reason, count in tensord.stats()["call_back_reasons"].items():
            if count > before.get(reason, 0):
                name = reason.split(": ")[0]
                recording.in_python.append(name if "::" in name else "tensord::call_back")


def _draws_seed(call: Any) -> bool:
    """True for the one number that a graph draws from torch's generator for its own streams."""
    bounds = [argument.integer.constant for argument in call.args[:2]]
    return call.op == "aten::randint" and bounds[:1] == [-(2**63)]


def describe(recording: Recording) -> dict[str, Any]:
    """The kind, how many kernels were launched, and which operators were not ours."""
    launches, library, back = 0, [], list(recording.in_python)
    for artifact in recording.artifacts:
        for step in artifact.steps:
            kind = step.WhichOneof("kind")
            if kind == "launch":
                launches += 1
            elif kind == "call":
                call = step.call
                if _draws_seed(call):
                    continue
                name = call.op + (f".{call.overload}" if call.overload else "")
                if call.op.startswith("aten::"):
                    if call.op not in _PLUMBING:
                        library.append(name)
                elif name != "tensord::call_back":  # in_python says what it runs
                    back.append(name)
            elif kind not in ("free", "zero_fill"):
                back.append(str(kind))
    if back:
        kind = "call-back"
    elif library:
        kind = "library"
    else:
        kind = ("view", "kernel", "kernels")[min(launches, 2)]
    return {"kind": kind, "launches": launches, "calls": sorted(set(library + back))}
