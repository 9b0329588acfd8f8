# SPDX-License-Identifier: Apache-2.0
"""How an operator ran, from the launch plans that the client loads."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

# From the best to the least; `view`: there was nothing to compute.
KINDS = ("view", "kernel", "kernels", "library", "call-back")
# Calls that make or move memory without computing: allocations and views of the plan itself.
_PLUMBING = ("aten::as_strided", "aten::alias", "aten::detach", "aten::empty_strided")


@contextlib.contextmanager
def recorded() -> Iterator[list[Any]]:
    """The artifacts (tensord.v1.Artifact) that are loaded inside the block, in order."""
    from tensord.bridge import runtime
    from tensord.v1 import artifact_pb2

    loaded: list[Any] = []
    load = runtime.load_program

    def recording(artifact: bytes, blob_folder: Any) -> Any:
        loaded.append(artifact_pb2.Artifact.FromString(artifact))
        return load(artifact, blob_folder)

    runtime.load_program = recording
    try:
        yield loaded
    finally:
        runtime.load_program = load


def _draws_seed(call: Any) -> bool:
    """True for the one number that a graph draws from torch's generator for its own streams."""
    bounds = [argument.integer.constant for argument in call.args[:2]]
    return call.op == "aten::randint" and bounds[:1] == [-(2**63)]


def describe(artifacts: list[Any]) -> dict[str, Any]:
    """The kind, how many kernels were launched, and which library operators were called."""
    launches, library, back = 0, [], []
    for artifact in artifacts:
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
                else:
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
