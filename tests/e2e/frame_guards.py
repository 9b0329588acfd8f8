# SPDX-License-Identifier: Apache-2.0
"""Captures a call under the recorder of guards and reads the guards back from their bytes."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from tensord import torch_compat
from tensord.frames import digests, guard_checks, record_guards, words
from tensord.frames.errors import UnfitError, UnrecordableError
from tensord.v1 import frame_pb2

# What checks guards: the native extension, and Python on a host that has none.
BRIDGES = ("native", "python")


@contextmanager
def bridge(name: str) -> Iterator[None]:
    """A block in which it is that one that checks guards which are loaded."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TENSORD_NATIVE", "1" if name == "native" else "0")
        yield


@dataclass
class Recorded:
    """The guards of a frame as another process would get them; or why there are none."""

    code: Any
    data: bytes = b""
    globals: dict[str, Any] | None = None
    locals: dict[str, Any] | None = None
    reason: str = ""

    def frame(self) -> frame_pb2.Frame:
        return frame_pb2.Frame.FromString(self.data)

    def load(self) -> Any:
        assert not self.reason, self.reason
        assert self.globals is not None
        return guard_checks.load(self.frame(), self.globals)

    def trees(self) -> dict[str, Any]:
        """Loaded by each of BRIDGES."""
        found = {}
        for name in BRIDGES:
            with bridge(name):
                found[name] = self.load()
        return found


def captures(run: Callable[[], object]) -> list[Recorded]:
    """What is recorded of the frames that Dynamo captures while `run` runs."""
    found: list[Recorded] = []

    def take(code: Any, output_graph: Any) -> None:
        recorded = Recorded(code, globals=output_graph.global_scope)
        recorded.locals = dict(output_graph.local_scope)
        try:
            guards = record_guards.record(code, output_graph)
        except UnrecordableError as error:
            recorded.reason = str(error)
        else:
            frame = frame_pb2.Frame(
                code=digests.identity(code, output_graph.global_scope["__name__"]),
                sources=guards.sources,
                guards=guards.guards,
                inlined=guards.inlined,
            )
            recorded.data = frame.SerializeToString()
        found.append(recorded)

    torch._dynamo.reset()
    torch_compat.told_of_guards(take)
    try:
        with torch_compat.guards_on_defaults():
            run()
    finally:
        torch_compat.no_longer_told_of_guards(take)
    return found


def capture(function: Callable[..., Any], *arguments: Any, **options: Any) -> Recorded:
    """Of a call that is one frame."""
    compiled = torch.compile(function, backend="eager", fullgraph=True, **options)
    (recorded,) = captures(lambda: compiled(*arguments))
    return recorded


def locals_of(function: Callable[..., Any], arguments: tuple[Any, ...]) -> dict[str, Any]:
    """What the frame of such a call has: arguments with defaults, and its closure's contents."""
    bound = inspect.signature(function).bind(*arguments)
    bound.apply_defaults()
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    return {**bound.arguments, **{name: cell.cell_contents for name, cell in cells}}


def why_not(recorded: Recorded, function: Callable[..., Any], arguments: tuple[Any, ...]) -> str:
    """Why a process that loads the guards does not use them for the call; "" if it does. With and
    without the native extension it is the same."""
    native, python = (_why_not(recorded, function, arguments, name) for name in BRIDGES)
    malformed = "unfit: its guards are malformed"  # where Python itself is another, and says why
    assert native == python or (native.startswith(malformed) and python.startswith(malformed))
    return native


def _why_not(
    recorded: Recorded, function: Callable[..., Any], arguments: tuple[Any, ...], name: str
) -> str:
    try:
        called = locals_of(function, arguments)
        with bridge(name):
            tree = recorded.load()
        failure = words.failure(recorded.frame(), tree, called)
    except UnfitError as error:
        return f"unfit: {error}"
    return failure or ""
