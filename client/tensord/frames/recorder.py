# SPDX-License-Identifier: Apache-2.0
"""What grows while the guards of a capture are written."""

from __future__ import annotations

import types
from typing import Any

from .. import torch_compat
from ..v1 import frame_pb2
from . import digests, inlined, object_digests
from .errors import UnrecordableError
from .sources import SourceTable


class Recorder:
    """The guards of one capture, each once."""

    def __init__(self, capture: torch_compat.Capture) -> None:
        self.capture = capture
        self.table = SourceTable(capture)
        self.guards: list[frame_pb2.FrameGuard] = []
        # Digests of the codes that some guard compares.
        self.covered: set[bytes] = set()
        # Tensors of which no two may be one: number of the source to its name.
        self.tensors: dict[int, str] = {}
        # Objects that were copied, each once: number of the source to the object. Their addresses.
        self.copied: dict[int, Any] = {}
        self.addresses: set[int] = set()
        self._seen: set[bytes] = set()
        self._classes: dict[type, frame_pb2.ClassFacts] = {}

    def name(self, source: Any) -> str:
        """As Dynamo calls it: "L['x'].weight"."""
        name = source.name
        return str(name() if callable(name) else name) or "the process"

    def module_of(self, source: Any) -> str | None:
        """The name of the module that the source is; None for another source."""
        kind = type(source).__name__
        if kind == "ImportSource":
            return str(source.module_name)
        if kind == "GlobalSource" and source.global_name in self.capture.imported:
            return self.capture.imported[source.global_name]
        if kind in ("GlobalSource", "AttrSource"):
            try:
                value = self.capture.value(source)
            except (AttributeError, KeyError):
                return None  # a guard asks whether it is there
            return value.__name__ if isinstance(value, types.ModuleType) else None
        return None

    def add(self, source: int | None, text: str, **check: Any) -> None:
        guard = frame_pb2.FrameGuard(source=0 if source is None else source + 1, **check)
        key = guard.SerializeToString(deterministic=True)
        if key not in self._seen:
            self._seen.add(key)
            guard.text = text
            self.guards.append(guard)

    def class_facts(self, cls: type) -> frame_pb2.ClassFacts:
        known = self._classes.get(cls)
        if known is None:
            name = object_digests.name_of_class(cls)
            digest = self._digest(object_digests.of_class, cls)
            known = frame_pb2.ClassFacts(name=name, digest=digest)
            self._classes[cls] = known
            for base in cls.__mro__ if known.digest else ():
                for member in vars(base).values():
                    self.cover(member)
        return known

    def function_facts(self, function: types.FunctionType) -> frame_pb2.FunctionFacts:
        self.cover(function)
        return frame_pb2.FunctionFacts(
            name=frame_pb2.NamedObject(
                module=function.__module__ or "?", qualified_name=function.__qualname__
            ),
            digest=self._digest(object_digests.of_function, function),
        )

    def code_identity(self, code: types.CodeType) -> frame_pb2.CodeIdentity:
        identity: frame_pb2.CodeIdentity = self._digest(lambda one: digests.identity(one, ""), code)
        self.covered.update(map(inlined.digest_of, inlined.nested(code)))
        return identity

    def cover(self, value: Any) -> None:
        """Notes that a guard compares the codes of the value, if it is a function or wraps one."""
        self.covered.update(map(inlined.digest_of, inlined.codes_within(value)))

    def same_as(self, one: Any, other: Any) -> None:
        text = f"{self.name(other)} is {self.name(one)}"
        self.add(self.table.number(one), text, same_as=self.table.number(other) + 1)

    @staticmethod
    def _digest(digest: Any, value: Any) -> Any:
        try:
            return digest(value)
        except ValueError as error:
            shown = getattr(value, "__qualname__", None) or value.co_name
            raise UnrecordableError(f"{shown} has {error}") from error
