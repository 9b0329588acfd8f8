# SPDX-License-Identifier: Apache-2.0
"""Objects by the names under which modules have them."""

from __future__ import annotations

import enum
import sys
import types
from collections.abc import Iterator
from typing import Any

from ..v1 import frame_pb2
from .errors import UnfitError, UnrecordableError

# What cannot be imported where a frame is used: it is what the frame spares.
NOT_TO_IMPORT = ("torch._dynamo", "torch._inductor", "torch.fx.experimental", "sympy")


def is_within(module: str, packages: tuple[str, ...]) -> bool:
    """Whether the module is one of those packages or lies in one."""
    return any(module == one or module.startswith(one + ".") for one in packages)


def name_of(value: Any) -> frame_pb2.NamedObject:
    """The module and the name in it by which the value is found; raises UnrecordableError when none
    is known or another object is found there."""
    for module, path in _candidates(value):
        name = frame_pb2.NamedObject(module=module, qualified_name=path)
        try:
            if is_same(find(name), value):
                return name
        except UnfitError:
            continue
    kind = type(value)
    raise UnrecordableError(
        f"no module has a name for {getattr(value, '__qualname__', None) or kind.__qualname__}"
    )


def is_scope_of_named_tuple(globals: Any) -> bool:
    """Whether these are the globals of a constructor that collections.namedtuple has made."""
    name = globals.get("__name__") if type(globals) is dict else None
    return isinstance(name, str) and name.startswith("namedtuple_")


def is_same(one: Any, other: Any) -> bool:
    """Whether two are one object. A class's method is made anew whenever it is looked up."""
    if isinstance(one, types.MethodType) and isinstance(other, types.MethodType):
        return one.__self__ is other.__self__ and one.__func__ is other.__func__
    return one is other


# Where functions of C lie that say no module, and types of the interpreter's own such as NoneType.
_MODULES_OF_C = ("torch", "torch._C._nn", "torch._C", "builtins", "types")


def _candidates(value: Any) -> Iterator[tuple[str, str]]:
    """Where the value may be found, module and path."""
    kind = type(value)
    if isinstance(value, types.ModuleType):
        yield value.__name__, ""
        package, _, rest = value.__name__.partition(".")
        yield package, rest  # of torch.ops, which makes modules that nobody imports
        return
    if kind.__module__ == "torch._ops":  # OpOverload: "aten::relu", "aten.relu.default"
        yield "torch", "ops." + str(value).replace("::", ".")
    special = getattr(value, "_name", None)
    if kind.__module__ == "typing" and isinstance(special, str):
        yield "typing", special  # "Any", "Optional": what typing makes is of no name otherwise
    member = getattr(value, "name", None)
    if isinstance(member, str) and (isinstance(value, enum.Enum) or hasattr(kind, member)):
        # A member of an enumeration, or a value of one of C++, which its class has as an attribute.
        for place in (kind.__module__, "torch._C"):
            yield place, f"{kind.__qualname__}.{member}"
    if isinstance(value, types.MethodType) and isinstance(value.__self__, type):
        of_class = value.__self__
        yield of_class.__module__, f"{of_class.__qualname__}.{value.__name__}"
        return
    module = getattr(value, "__module__", None)
    owner = getattr(value, "__objclass__", None) or getattr(value, "__self__", None)
    for path in (getattr(value, "__qualname__", None), getattr(value, "__name__", None)):
        if not isinstance(path, str):
            continue
        if isinstance(module, str):
            yield module, path
        yield kind.__module__, path
        if isinstance(owner, types.ModuleType):
            yield owner.__name__, path
        elif isinstance(owner, type):
            yield owner.__module__, path
        for other in _MODULES_OF_C:
            yield other, path


def find(name: frame_pb2.NamedObject) -> Any:
    """The object of that name in a module that is loaded; raises UnfitError."""
    found: Any = sys.modules.get(name.module)
    if found is None:
        raise UnfitError(f"module {name.module} is not loaded")
    for part in name.qualified_name.split(".") if name.qualified_name else ():
        try:
            found = getattr(found, part)
        except AttributeError:
            raise UnfitError(f"there is no {name.module}.{name.qualified_name}") from None
    return found


def find_own(name: frame_pb2.NamedObject) -> Any:
    """The object of that name, which is to call itself so: another put in its place does not.
    Raises UnfitError."""
    found = find(name)
    if name.qualified_name == "__dict__":  # of the module, which is found as it is called
        return found
    if (name.module, name.qualified_name) not in _candidates(found):
        raise UnfitError(f"{shown(name)} is another object")
    return found


def find_native(name: frame_pb2.NamedObject) -> Any:
    """The same, of what is no function of Python's, which could be anything, and no class."""
    found = find_own(name)
    if isinstance(found, (types.FunctionType, types.MethodType, type)):
        raise UnfitError(f"{shown(name)} is another object")
    return found


def shown(name: frame_pb2.NamedObject) -> str:
    return f"{name.module}.{name.qualified_name}" if name.qualified_name else name.module
