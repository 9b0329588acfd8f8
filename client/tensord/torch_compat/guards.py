# SPDX-License-Identifier: Apache-2.0
"""Dynamo's guards of a capture, as they are when it makes its own checks of them."""

from __future__ import annotations

import functools
import logging
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from . import dispatch

_log = logging.getLogger("tensord")
_told: list[Callable[[Any, Any], None]] = []


def told_of_guards(callback: Callable[[Any, Any], None]) -> None:
    """Has Dynamo call `callback(code, output_graph)` when it has made the guards of a capture and
    found that they hold; once, however often this is called. What it raises is logged: no capture
    fails by it.

    2.11 to 2.13: torch._dynamo.guards.CheckFunctionManager is made for each capture.
    """
    from torch._dynamo.guards import CheckFunctionManager

    if callback not in _told:
        _told.append(callback)
    make = CheckFunctionManager.__init__
    if getattr(make, "_tells", False):
        return

    @functools.wraps(make)
    def make_and_tell(self: Any, f_code: Any, output_graph: Any, *rest: Any, **named: Any) -> None:
        make(self, f_code, output_graph, *rest, **named)
        for told in list(_told):
            try:
                told(f_code, output_graph)
            except Exception:
                _log.warning("a capture's guards were not recorded", exc_info=True)

    make_and_tell._tells = True  # type: ignore[attr-defined]
    CheckFunctionManager.__init__ = make_and_tell  # type: ignore[method-assign]


def no_longer_told_of_guards(callback: Callable[[Any, Any], None]) -> None:
    if callback in _told:
        _told.remove(callback)


class Capture:
    """What Dynamo's output graph knows of a capture, as guards need it."""

    def __init__(self, output_graph: Any) -> None:
        from torch._dynamo.guards import _get_closure_vars

        self._graph = output_graph
        self._scope = {"L": output_graph.local_scope, "G": output_graph.global_scope}
        self._helpers = _get_closure_vars()
        self._values: dict[Any, Any] = {}
        self.builtins_name: str | None = output_graph.name_of_builtins_dict_key_in_fglobals
        # Globals that Dynamo made: name to module's name.
        self.imported: dict[str, str] = dict(getattr(output_graph, "import_sources", {}))
        self.installed: frozenset[str] = frozenset(getattr(output_graph, "installed_globals", ()))

    @property
    def locals(self) -> dict[str, Any]:
        """What the guards see of the frame: arguments and the contents of its closure's cells."""
        scope: dict[str, Any] = self._graph.local_scope
        return scope

    @property
    def globals(self) -> dict[str, Any]:
        scope: dict[str, Any] = self._graph.global_scope
        return scope

    def guards(self) -> list[Any]:
        """In the order in which Dynamo makes them: what others need first."""
        return sorted(self._graph.guards, key=lambda guard: guard.sort_key())

    def value(self, source: Any) -> Any:
        return source.get_value(self._scope, self._helpers, self._values)

    def sources_of_ordered_dictionaries(self) -> list[Any]:
        return list(self._graph.guard_on_key_order)

    def sizes_and_strides(self, source: Any) -> tuple[list[int | None], list[int | None]]:
        """Of a tensor, None where any serves."""
        from torch._dynamo.guards import convert_to_concrete_values

        found = self._graph.input_source_to_sizes_strides[source]
        return (
            convert_to_concrete_values(found["size"]),
            convert_to_concrete_values(found["stride"]),
        )

    def aliased_inputs(self) -> list[Any]:
        """What AOTAutograd adds: guards that two inputs are one, or that their storages overlap."""
        return list(getattr(self._graph, "aotautograd_guards", ()))

    def size_guards(self, name_of: Callable[[Any], str]) -> list[str]:
        """Comparisons in Python of sizes and numbers, each source by what `name_of` calls it.

        2.11 to 2.13: those that torch's own SHAPE_ENV guard runs.
        """
        shapes = self._graph.shape_env
        fakes = shapes.tracked_fakes or []
        (python,) = shapes.produce_guards_verbose(
            [fake.fake for fake in fakes],
            [fake.source for fake in fakes],
            input_contexts=[fake.symbolic_context for fake in fakes],
            equalities_inputs=None,
            source_ref=name_of,
            ignore_static=True,
            langs=("python",),
        )
        return list(python.exprs)

    def traced_codes(self) -> Sequence[Any]:
        """Codes that Dynamo followed into, the frame's own first."""
        context = self._graph.tracing_context
        return list(context.traced_code)

    def global_state(self) -> str:
        """As GlobalStateGuard says it, of when the capture began."""
        state: str = self._graph.global_state_guard.__getstate__()
        return state

    def function_modes(self) -> list[Any]:
        """Modes of torch functions, outermost first."""
        return list(self._graph.torch_function_mode_stack or ())

    @property
    def default_device(self) -> torch.device | None:
        device: torch.device | None = self._graph.current_device
        return device

    @property
    def forward_level(self) -> int:
        """Of forward-mode differentiation; -1: none."""
        return int(self._graph.dual_level)

    @property
    def is_transformed(self) -> bool:
        """Whether functorch's transforms were at work."""
        return bool(self._graph.functorch_layers)


def global_state_guard() -> Any:
    """A comparison with the process's state as it is: `check()`, and its JSON by `__getstate__` and
    `__setstate__`. 2.11 to 2.13: of torch's C++, without Dynamo."""
    return torch._C._dynamo.guards.GlobalStateGuard()


def function_mode_stack() -> list[Any]:
    """Modes of torch functions that are pushed, outermost first."""
    return [dispatch.function_mode_at(place) for place in range(dispatch.function_modes())]


def place_of_function_mode(source: Any) -> int:
    """In function_mode_stack(), of the mode that a source of Dynamo's is (2.11 to 2.13)."""
    return int(source._get_index())


def check_name(guard: Any) -> str:
    """Of a guard's method of GuardBuilder, as 2.13 has them.

    2.11: what a dictionary or set lacks is said by the same method with `invert`.
    """
    name = str(guard.create_fn_name())
    if check_arguments(guard).get("invert"):
        name = name.replace("_CONTAINS", "_NOT_CONTAINS")
    return name


def check_arguments(guard: Any) -> dict[str, Any]:
    """What a guard's check is told beside its source."""
    function = guard.create_fn
    if not isinstance(function, functools.partial):
        return {}
    # Tensors are held weakly.
    return {
        name: value() if type(value).__name__ in ("TensorWeakRef", "ReferenceType") else value
        for name, value in function.keywords.items()
    }


def asked_by(guard: Any) -> str | None:
    """The file whose code made Dynamo guard; None where it does not say."""
    stack = guard.user_stack
    return stack[-1].filename if stack else None


def asked_attribute(guard: Any) -> tuple[Any, str] | None:
    """The source and the attribute that a HASATTR guard asks for; None where that needs no guard.

    2.13 says the attribute beside the source; to 2.12 the source is that of the attribute itself.
    """
    source = guard.originating_source
    if (name := check_arguments(guard).get("attr")) is not None:
        return source, str(name)
    if type(source).__name__.endswith("NNModuleSource"):
        source = source.base
    if type(source).__name__ == "CodeSource":
        return None  # every function has one
    return source.base, str(source.member)


def matches_by_identity(guard: Any) -> bool:
    """Whether Dynamo takes a tensor for the same only when it is the very object."""
    from torch._dynamo.guards import match_on_id_for_tensor

    return bool(match_on_id_for_tensor(guard))


def below_dynamo(function: Any) -> Any:
    """The function of torch.nn.Module that Dynamo's first capture in a process puts one of its own
    in place of, to know of modules that are made while it captures; another value is given back.

    2.11 to 2.13: `__init__` and `__setstate__`, by torch._dynamo.mutation_guard.
    """
    if getattr(function, "__module__", None) != "torch._dynamo.mutation_guard":
        return function
    cells = getattr(function, "__closure__", None) or ()
    inner = [cell.cell_contents for cell in cells]
    return next((value for value in inner if isinstance(value, types.FunctionType)), function)


# What that leaves in the module's class.
LEFT_BY_DYNAMO = "___needs_generation_tag_patch"


def chain(source: Any) -> Iterator[Any]:
    """The source, its base, and so on."""
    while source is not None:
        yield source
        source = getattr(source, "base", None)
