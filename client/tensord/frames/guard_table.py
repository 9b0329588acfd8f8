# SPDX-License-Identifier: Apache-2.0
"""How each of Dynamo's guards is written: methods of torch._dynamo.guards.GuardBuilder by name."""

from __future__ import annotations

import ast
import copy
import enum
import inspect
import re
import sys
import types
from collections.abc import Callable
from typing import Any

import torch

from .. import torch_compat
from ..v1 import frame_pb2
from . import code_objects, constants, names, tensor_facts
from .errors import UnrecordableError
from .recorder import Recorder
from .sources import Step

_Writer = Callable[[Recorder, Any], None]


def _look(recorder: Recorder, guard: Any) -> tuple[int, Any, str]:
    """Of the guard's source the number, the value and the name."""
    source = guard.originating_source
    return recorder.table.number(source), recorder.capture.value(source), recorder.name(source)


def _constant(recorder: Recorder, guard: Any) -> None:
    number, value, name = _look(recorder, guard)
    if isinstance(value, types.CodeType):
        identity = recorder.code_identity(value)
        recorder.add(number, f"{name} is the code of {identity.qualified_name}", code=identity)
    else:
        _equals(recorder, guard)


def _equals(recorder: Recorder, guard: Any) -> None:
    number, value, name = _look(recorder, guard)
    if isinstance(value, type):
        _identity(recorder, guard)
    elif type(value) in (float, complex) and value != value:
        _type(recorder, guard)
        recorder.add(number, f"{name} is not a number", is_nan=True)
    else:
        recorder.add(number, f"{name} == {value!r}", equals=constants.write(value))


def _type(recorder: Recorder, guard: Any) -> None:
    number, value, name = _look(recorder, guard)
    _add_type(recorder, number, type(value), name)


def _add_type(recorder: Recorder, number: int, cls: type, name: str) -> None:
    facts = recorder.class_facts(cls)
    recorder.add(number, f"type({name}) is {_as_it_was(cls, facts)}", type=facts)


def _as_it_was(cls: type, facts: frame_pb2.ClassFacts) -> str:
    return f"{cls.__qualname__} as it was" if facts.digest else cls.__qualname__


# Classes of objects that do what their name says, whichever process they are in.
_NAMED = (
    types.BuiltinFunctionType, types.MethodDescriptorType, types.WrapperDescriptorType,
    types.MethodWrapperType, types.ClassMethodDescriptorType, types.GetSetDescriptorType,
    types.MemberDescriptorType, types.ModuleType, type(torch.nn.functional.gelu),
    type(torch.ops.aten.relu), type(torch.ops.aten.relu.default), type(torch.strided),
)  # fmt: skip
_PLAIN = (int, float, complex, str, bytes)
_CONSTANT_OBJECTS = (type(None), bool, type(Ellipsis), type(NotImplemented), torch.dtype)


# Who asks for an address only to see whether they meet an object again: signatures of functions do
# it in a module of its own from Python 3.14 on, which inspect has imported.
_BY_ADDRESS = tuple(
    module.__file__
    for module in (copy, inspect, sys.modules.get("annotationlib"))
    if module is not None
)


def _is_of_typing(value: Any) -> bool:
    """Any, Optional, List and the like: objects of which there is one each."""
    return type(value).__module__ == "typing"


def _identity(recorder: Recorder, guard: Any) -> None:
    """An object that is to be the very same: what it is in another process depends on its kind."""
    number, value, name = _look(recorder, guard)
    if type(guard.originating_source).__name__ == "TypeSource":
        base = guard.originating_source.base
        _add_type(recorder, recorder.table.number(base), value, recorder.name(base))
    elif (value is id or value is hash) and not _finds_again(recorder, guard, value.__name__):
        # An address, or what follows from one or from PYTHONHASHSEED. Dynamo takes it for a
        # constant, and of None, of classes and of what is hashed no guard says so.
        raise UnrecordableError(f"{value.__name__}(), which answers otherwise in another process")
    elif isinstance(value, type):
        facts = recorder.class_facts(value)
        recorder.add(number, f"{name} is class {_as_it_was(value, facts)}", same_class=facts)
    elif isinstance(value, types.FunctionType):
        text = f"{name} is function {value.__qualname__}"
        recorder.add(number, text, same_function=recorder.function_facts(value))
    elif type(value) in _CONSTANT_OBJECTS:
        recorder.add(number, f"{name} is {value!r}", equals=constants.write(value))
    elif isinstance(value, enum.Enum):
        _add_type(recorder, number, type(value), name)  # which says what its members are
        _add_named(recorder, number, value, name)
    elif isinstance(value, re.Pattern):
        for attribute in ("pattern", "flags"):
            part = recorder.table.add(Step.ATTRIBUTE, number, name=attribute)
            found = getattr(value, attribute)
            recorder.add(part, f"{name}.{attribute} == {found!r}", equals=constants.write(found))
        _add_type(recorder, number, re.Pattern, name)
    elif isinstance(value, _NAMED) or _is_of_typing(value) or type(value).__qualname__ == "ufunc":
        _add_named(recorder, number, value, name)
    elif isinstance(getattr(value, "__wrapped__", None), types.FunctionType) and callable(value):
        # functools.lru_cache and the like: the object by name, and what it wraps.
        _add_named(recorder, number, value, name)
        inner = recorder.table.add(Step.ATTRIBUTE, number, name="__wrapped__")
        text = f"{name} wraps {value.__wrapped__.__qualname__}"
        recorder.add(inner, text, same_function=recorder.function_facts(value.__wrapped__))
    elif _is_copied(guard):
        _add_copied(recorder, number, value, name)
    else:
        raise UnrecordableError(
            f"an object of class {type(value).__qualname__} that is known by its address alone"
        )


def _finds_again(recorder: Recorder, guard: Any, asks: str) -> bool:
    """Whether only `_BY_ADDRESS` ask. Dynamo notes who did first: others may share that guard."""
    if torch_compat.asked_by(guard) not in _BY_ADDRESS:
        return False
    return not any(
        code.co_filename not in _BY_ADDRESS and asks in code_objects.looked_up(code)
        for code in recorder.capture.traced_codes()
    )


def _is_copied(guard: Any) -> bool:
    """Whether the address was asked for by copy.deepcopy, which finds by it what it has copied."""
    asked = torch_compat.asked_by(guard)
    return asked is not None and asked == copy.__file__


def _add_copied(recorder: Recorder, number: int, value: Any, name: str) -> None:
    """Of an object that was copied only its place counts, and which others are the same object."""
    if type(value) in _PLAIN:
        recorder.add(number, f"{name} == {value!r}", equals=constants.write(value))
        return
    _add_type(recorder, number, type(value), name)
    recorder.addresses.add(id(value))
    for other, known in recorder.copied.items():
        if known is value:
            recorder.add(number, f"{name} is another's copy too", same_as=other + 1)
            return
    recorder.copied[number] = value


def _add_named(recorder: Recorder, number: int, value: Any, name: str) -> None:
    found = names.name_of(value)
    recorder.add(number, f"{name} is {names.shown(found)}", same_object=found)


def _closure(recorder: Recorder, guard: Any) -> None:
    """A function by its code: what its closure holds has guards of its own."""
    number, value, name = _look(recorder, guard)
    if not isinstance(value, types.FunctionType):
        _identity(recorder, guard)
        return
    identity = recorder.code_identity(value.__code__)
    code = recorder.table.add(Step.CODE, number)
    recorder.add(code, f"{name} runs the code of {identity.qualified_name}", code=identity)


def _length(recorder: Recorder, guard: Any) -> None:
    number, value, name = _look(recorder, guard)
    if not isinstance(value, dict):
        _type(recorder, guard)
    recorder.add(number, f"len({name}) == {len(value)}", length=len(value))


def _keys(recorder: Recorder, guard: Any) -> None:
    """Whether their order counts is written with the other dictionaries of which it does. Nodes of
    pytree are such a dictionary too: a class that it has is not registered again."""
    number, value, name = _look(recorder, guard)
    keys = list(dict.keys(value))
    written = sorted(constants.write_all(keys).items, key=lambda key: key.SerializeToString())
    recorder.table.bases[number] = value
    recorder.add(
        number,
        f"{name} has the keys {keys!r}, in any order",
        keys_unordered=frame_pb2.FrameConstants(items=written),
    )


def _mapping_keys(recorder: Recorder, guard: Any) -> None:
    """Of a types.MappingProxyType, in order."""
    number, value, name = _look(recorder, guard)
    _type(recorder, guard)
    recorder.add(number, f"len({name}) == {len(value)}", length=len(value))
    for key in value:
        recorder.add(number, f"{key!r} is in {name}", contains=constants.write(key))
    if len(value) > 1:
        raise UnrecordableError("the order of the keys of a mapping")


def _key(field: str, words: str) -> _Writer:
    """A key that a dictionary or set has, or has not."""

    def write(recorder: Recorder, guard: Any) -> None:
        number, _, name = _look(recorder, guard)
        key = torch_compat.check_arguments(guard)["key"]
        recorder.add(number, f"{key!r} {words} {name}", **{field: constants.write(key)})

    return write


def _has_attribute(recorder: Recorder, guard: Any) -> None:
    asked = torch_compat.asked_attribute(guard)
    if asked is None:
        return
    source, attribute = asked
    number, name = recorder.table.number(source), recorder.name(source)
    has = hasattr(recorder.capture.value(source), attribute)
    text = f"{name} has {'an' if has else 'no'} attribute {attribute}"
    recorder.add(number, text, **{"has_attribute" if has else "lacks_attribute": attribute})


def _lacks_own(recorder: Recorder, guard: Any) -> None:
    number, _, name = _look(recorder, guard)
    attribute = torch_compat.check_arguments(guard)["attr"]
    recorder.add(number, f"{attribute} is not in {name}.__dict__", lacks_own=attribute)


def _same_as(recorder: Recorder, guard: Any) -> None:
    """Nothing of what Dynamo itself does not compare: parameters of an optimiser, and what it was
    told not to guard."""
    other = torch_compat.check_arguments(guard)["source_b"]
    sources = [*torch_compat.chain(guard.originating_source), *torch_compat.chain(other)]
    kinds = {type(source).__name__ for source in sources}
    if not kinds & {"SkipGuardSource", "OptimizerSource"}:
        recorder.same_as(guard.originating_source, other)


def _not_none(recorder: Recorder, guard: Any) -> None:
    number, _, name = _look(recorder, guard)
    recorder.add(number, f"{name} is not None", not_none=True)


def _tuple_iterator(recorder: Recorder, guard: Any) -> None:
    number, value, name = _look(recorder, guard)
    left = value.__length_hint__()
    recorder.add(number, f"{name} has {left} items left", iterator_length=left)


def _range_iterator(recorder: Recorder, guard: Any) -> None:
    number, value, name = _look(recorder, guard)
    left = constants.range_left(value)
    parts = constants.write_all((left.start, left.stop, left.step))
    recorder.add(number, f"{name} has {left!r} left", range_left=parts)


def _module(recorder: Recorder, guard: Any) -> None:
    raise UnrecordableError("a module that is known by its address alone")


def _of_state(recorder: Recorder, guard: Any) -> None:
    """The process's state, written once for each frame (record_guards)."""


def _of_number(recorder: Recorder, guard: Any) -> None:
    """A subclass of a number or a text: by the value that it stands for, if it has a name."""
    _add_named(recorder, *_look(recorder, guard))


WRITERS: dict[str, _Writer] = {
    "AUTOGRAD_SAVED_TENSORS_HOOKS": _of_state,
    "BOOL_MATCH": _equals,
    "BUILTIN_MATCH": _identity,
    "CLASS_MATCH": _identity,
    "CLOSURE_MATCH": _closure,
    "CONSTANT_MATCH": _constant,
    "CONSTANT_SUBCLASS_MATCH": _of_number,
    "DEFAULT_DEVICE": _of_state,
    "DETERMINISTIC_ALGORITHMS": _of_state,
    "DICT_CONTAINS": _key("contains", "is in"),
    "DICT_KEYS_MATCH": _keys,
    "DICT_NOT_CONTAINS": _key("lacks", "is not in"),
    "DUAL_LEVEL": _of_state,
    "DUPLICATE_INPUT": _same_as,
    # Dynamo leaves these out by default; a hook that is added is to be seen all the same.
    "EMPTY_NN_MODULE_HOOKS_DICT": _length,
    "EQUALS_MATCH": _equals,
    # Dynamo has it in the process's state.
    "FSDP_TRAINING_STATE": _of_state,
    "FUNCTION_MATCH": _identity,
    "FUNCTORCH_STACK_MATCH": _of_state,
    "GLOBAL_STATE": _of_state,
    "GRAD_MODE": _of_state,
    "HASATTR": _has_attribute,
    "ID_MATCH": _identity,
    "MAPPING_KEYS_CHECK": _mapping_keys,
    "MODULE_MATCH": _identity,
    "NAME_MATCH": _identity,
    "NN_MODULE": _module,
    "NONE_MATCH": _equals,
    "NOT_NONE_MATCH": _not_none,
    "NOT_PRESENT_IN_GENERIC_DICT": _lacks_own,
    "RANGE_ITERATOR_MATCH": _range_iterator,
    "SEQUENCE_LENGTH": _length,
    "SET_CONTAINS": _key("contains", "is in"),
    "SET_NOT_CONTAINS": _key("lacks", "is not in"),
    "SHAPE_ENV": _of_state,  # written as relations (record_guards)
    "TENSOR_MATCH": tensor_facts.write,
    "TORCH_FUNCTION_STATE": _of_state,
    "TUPLE_ITERATOR_LEN": _tuple_iterator,
    "TYPE_MATCH": _type,
    "WEAKREF_ALIVE": _not_none,
}


def names_in(expression: str) -> set[str]:
    """Names that an expression of Python has."""
    return {node.id for node in ast.walk(ast.parse(expression)) if isinstance(node, ast.Name)}
