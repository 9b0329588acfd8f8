# SPDX-License-Identifier: Apache-2.0
"""Where Dynamo says that a value comes from (torch._dynamo.source), as FrameSource messages.

Dynamo's classes are known by their names: nothing of Dynamo is imported.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import torch

from .. import torch_compat
from ..v1 import frame_pb2
from . import constants, names
from .errors import UnrecordableError

Step = frame_pb2.FrameSource

# What stands for its base: it says of what kind Dynamo takes a module to be.
_WRAPPERS = frozenset(
    ("NNModuleSource", "UnspecializedNNModuleSource", "UnspecializedBuiltinNNModuleSource",
     "FSDPNNModuleSource", "OptimizerSource", "SkipGuardSource")
)  # fmt: skip


class SourceTable:
    """The sources of one capture, bases first, each once.

    capture: torch_compat.Capture, by which values are found.
    """

    def __init__(self, capture: torch_compat.Capture) -> None:
        self.sources: list[frame_pb2.FrameSource] = []
        self.bases: dict[int, Any] = {}  # number of a source to its value, where a step follows
        self._capture = capture
        self._by_source: dict[Any, int] = {}
        self._by_step: dict[bytes, int] = {}

    def number(self, source: Any) -> int:
        """Of Dynamo's source, added with its bases; raises UnrecordableError."""
        known = self._by_source.get(source)
        if known is None:
            known = self._by_source[source] = self._write(source)
        return known

    def add(self, step: int, base: int | None = None, **fields: Any) -> int:
        """The number of the source that is that step."""
        source = frame_pb2.FrameSource(
            step=step,  # type: ignore[arg-type]
            base=0 if base is None else base + 1,
            **fields,
        )
        key = source.SerializeToString(deterministic=True)
        if key not in self._by_step:
            self._by_step[key] = len(self.sources)
            self.sources.append(source)
        return self._by_step[key]

    def _write(self, source: Any) -> int:
        kind = type(source).__name__
        if kind in _WRAPPERS:
            return self.number(source.base)
        writer = _WRITERS.get(kind)
        if writer is None:
            raise UnrecordableError(f"it is found by a {kind}, which no frame can say")
        return writer(self, source)

    def value(self, source: Any) -> Any:
        return self._capture.value(source)

    def base(self, source: Any) -> int:
        number = self.number(source.base)
        if number not in self.bases:
            self.bases[number] = self.value(source.base)
        return number

    def global_(self, source: Any) -> int:
        name = source.global_name
        if name == self._capture.builtins_name:
            return self.add(Step.BUILTINS)
        module = self._capture.imported.get(name)
        if module is not None:
            return self.add(Step.MODULE, name=module)
        if name in self._capture.installed:
            value = self.value(source)
            if isinstance(value, types.ModuleType):
                return self.add(Step.MODULE, name=names.name_of(value).module)
            raise UnrecordableError(f"Dynamo found it by a name of its own, {name}")
        return self.add(Step.GLOBAL, name=name)

    def attribute(self, source: Any) -> int:
        """By getattr; where a module has it in one of its dictionaries, from there: its own
        `__getattr__` is slow."""
        base, name = self.base(source), source.member
        value = self.value(source.base)
        if isinstance(value, torch.nn.Module) and type(value).__getattribute__ is _plain:
            own = vars(value)
            if name in own and not _is_shadowed(value, name):
                return self.add(Step.OWN_ATTRIBUTE, base, name=name)
            for place in ("_parameters", "_buffers", "_modules"):
                if name in own.get(place, ()) and not hasattr(type(value), name):
                    found = self.add(Step.OWN_ATTRIBUTE, base, name=place)
                    return self.add(Step.DICTIONARY_ITEM, found, constant=constants.write(name))
        return self.add(Step.ATTRIBUTE, base, name=name)

    def item(self, source: Any) -> int:
        index = source.unpack_slice() if source.index_is_slice else source.index
        return self.add(Step.ITEM, self.base(source), constant=constants.write(index))

    def dictionary_item(self, source: Any) -> int:
        base = self.base(source)
        if type(source.index).__name__ == "ConstDictKeySource":
            return self.add(Step.ITEM_OF_KEY, base, number=source.index.index)
        return self.add(Step.DICTIONARY_ITEM, base, constant=constants.write(source.index))

    def default(self, source: Any) -> int:
        base = self.base(source)
        if source.is_kw:
            return self.add(Step.KEYWORD_DEFAULT, base, name=source.idx_key)
        return self.add(Step.DEFAULT, base, number=source.idx_key)

    def tensor_property(self, source: Any) -> int:
        step = Step.Step.Value(source.prop.name)
        return self.add(step, self.base(source), number=source.idx or 0)

    def function_mode(self, source: Any) -> int:
        return self.add(Step.FUNCTION_MODE, number=torch_compat.place_of_function_mode(source))

    def item_of_tensor(self, source: Any) -> int:
        """Of a tensor that Dynamo makes of a number to leave its value open, which is that number
        (2.11); of another it is data."""
        if type(source.base).__name__ != "FloatTensorSource":
            raise UnrecordableError("it is an item of a tensor")
        return self.number(source.base.base)

    def own_attribute(self, source: Any) -> int:
        if _is_shadowed(self.value(source.base), source.member):
            raise UnrecordableError(f"its class takes {source.member} for itself")
        return self.add(Step.OWN_ATTRIBUTE, self.base(source), name=source.member)


def _is_shadowed(value: Any, name: str) -> bool:
    """Whether the class gives the attribute although the object's dictionary has one so called."""
    if name not in getattr(value, "__dict__", ()):
        return False
    for base in type(value).__mro__:
        if name in vars(base):
            return hasattr(type(vars(base)[name]), "__set__")
    return False


_plain = object.__getattribute__

_Writer = Callable[[SourceTable, Any], int]


def _step(step: int) -> _Writer:
    return lambda table, source: table.add(step, table.base(source))


def _unrecordable(why: str) -> _Writer:
    def refuse(table: SourceTable, source: Any) -> int:
        raise UnrecordableError(why)

    return refuse


_WRITERS: dict[str, _Writer] = {
    "LocalSource": lambda table, source: table.add(Step.LOCAL, name=source.local_name),
    "GlobalSource": SourceTable.global_,
    "ImportSource": lambda table, source: table.add(Step.MODULE, name=source.module_name),
    "AttrSource": SourceTable.attribute,
    "CellContentsSource": SourceTable.attribute,
    "ParamBufferSource": SourceTable.attribute,
    "UnspecializedParamBufferSource": SourceTable.attribute,
    "GenericAttrSource": SourceTable.own_attribute,
    "NamedTupleFieldsSource": lambda table, source: table.add(
        Step.ATTRIBUTE, table.base(source), name="_fields"
    ),
    "GetItemSource": SourceTable.item,
    "ListGetItemSource": SourceTable.item,
    "DictGetItemSource": SourceTable.dictionary_item,
    "DictSubclassGetItemSource": SourceTable.dictionary_item,
    "ConstDictKeySource": lambda table, source: table.add(
        Step.KEY, table.base(source), number=source.index
    ),
    "TupleIteratorGetItemSource": lambda table, source: table.add(
        Step.TUPLE_ITEM_OF_ITERATOR, table.base(source), number=source.index
    ),
    "DefaultsSource": SourceTable.default,
    "TensorPropertySource": SourceTable.tensor_property,
    "TypeSource": _step(Step.TYPE),
    "TypeDictSource": _step(Step.TYPE_DICTIONARY),
    "TypeMROSource": _step(Step.METHOD_ORDER),
    "CodeSource": _step(Step.CODE),
    "ClosureSource": _step(Step.CLOSURE),
    "GradSource": _step(Step.GRADIENT),
    "WeakRefCallSource": _step(Step.CALL),
    "CallMethodItemSource": SourceTable.item_of_tensor,
    "TorchFunctionModeStackSource": SourceTable.function_mode,
    "NumpyTensorSource": _step(Step.TENSOR_OF),
    "GlobalWeakRefSource": _unrecordable("it is found by its address"),
    "NonSerializableSetGetItemSource": _unrecordable(
        "it is an item of a set, whose order is another in each process"
    ),
}
