# SPDX-License-Identifier: Apache-2.0
"""The guards of a capture as messages that hold in another process: `record`.

Dynamo says guards by methods of its GuardBuilder, each with a line in guard_table.py. What has no
form is an UnrecordableError with the guard in its text: no guard is left out but those that the
environment of a frame already says.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from .. import torch_compat
from ..torch_compat.dispatch import WithoutTorchFunctions
from ..v1 import frame_pb2
from . import constants, guard_table, inlined, names, process_facts, process_state
from .errors import UnfitError, UnrecordableError
from .recorder import Recorder
from .sources import Step


@dataclass
class RecordedGuards:
    """What a frame has of a capture's guards.

    addresses: of objects that copy.deepcopy asked for. A frame whose code or graphs have one of
    these numbers among their constants is good for this process only.
    """

    sources: list[frame_pb2.FrameSource] = field(default_factory=list)
    guards: list[frame_pb2.FrameGuard] = field(default_factory=list)
    inlined: list[frame_pb2.InlinedFunction] = field(default_factory=list)
    addresses: frozenset[int] = frozenset()


def record(code: Any, output_graph: Any) -> RecordedGuards:
    """The guards of a capture as Dynamo has just made them (torch_compat.told_of_guards).

    Raises UnrecordableError with the reason that a user reads.
    """
    try:
        # A mode of torch functions that somebody has pushed is to see none of it.
        with WithoutTorchFunctions():
            return _record(code, torch_compat.Capture(output_graph))
    except UnrecordableError:
        raise
    except UnfitError as error:  # of what this process itself lacks
        raise UnrecordableError(str(error)) from error
    except Exception as error:  # of what user's objects do when they are read, or of another torch
        raise UnrecordableError(f"{type(error).__name__} while recording: {error}") from error


def _record(code: Any, capture: torch_compat.Capture) -> RecordedGuards:
    recorder = Recorder(capture)
    for guard in capture.guards():
        _write(recorder, guard)
    _write_order_of_dictionaries(recorder)
    _write_relations(recorder)
    _write_aliases(recorder)
    _write_state(recorder)
    recorder.covered.update(map(inlined.digest_of, inlined.nested(code)))
    process_facts.write_constants(recorder, [code, *capture.traced_codes()])
    followed = [other for other in capture.traced_codes() if other is not code]
    functions = inlined.write(followed, recorder.covered)
    return RecordedGuards(
        recorder.table.sources, recorder.guards, functions, frozenset(recorder.addresses)
    )


def _write(recorder: Recorder, guard: Any) -> None:
    kind = torch_compat.check_name(guard)
    try:
        source = guard.originating_source
        if _is_of_dynamo(recorder, source) or _is_of_a_named_tuple(recorder, source):
            return
        if process_facts.is_asked(guard.originating_source):
            process_facts.write_asked(recorder, guard)
            return
        writer = guard_table.WRITERS.get(kind)
        if writer is None:
            raise UnrecordableError("no frame can say it")
        writer(recorder, guard)
    except UnrecordableError as error:
        name = recorder.name(guard.originating_source)
        raise UnrecordableError(f"guard {kind} on {name}: {error}") from error


def _is_of_dynamo(recorder: Recorder, source: Any) -> bool:
    """Whether it lies in a module of Dynamo, which a process that only uses frames does not import:
    its functions are those of the version of torch. Its settings are another thing."""
    for one in torch_compat.chain(source):
        module = recorder.module_of(one)
        if module is None or not names.is_within(module, names.NOT_TO_IMPORT):
            continue
        if module.endswith("config") or ".config" in recorder.name(source):
            raise UnrecordableError("it is a setting of torch.compile itself")
        return True
    return False


def _is_of_a_named_tuple(recorder: Recorder, source: Any) -> bool:
    """Whether it lies among the globals that collections.namedtuple makes for a constructor, which
    are no module's: what they do, the class says."""
    *_, root = torch_compat.chain(source)
    name = getattr(root, "global_name", None)
    return name in recorder.capture.installed and names.is_scope_of_named_tuple(
        recorder.capture.value(root)
    )


def _write_order_of_dictionaries(recorder: Recorder) -> None:
    """Of dictionaries whose order the code has looked at: all keys, for Dynamo's own guard knows
    their places and how many there are."""
    ordered = {}
    for source in recorder.capture.sources_of_ordered_dictionaries():
        value = recorder.capture.value(source)
        if isinstance(value, dict):
            ordered[id(value)] = recorder.name(source)
    for number, value in list(recorder.table.bases.items()):
        if id(value) in ordered:
            text = f"{ordered[id(value)]} has the keys {list(dict.keys(value))!r}"
            recorder.add(number, text, keys=constants.write_all(dict.keys(value)))


def _write_relations(recorder: Recorder) -> None:
    symbols: dict[Any, str] = {}

    def name_of(source: Any) -> str:
        return symbols.setdefault(source, f"v{len(symbols)}")

    expressions = recorder.capture.size_guards(name_of)
    if not expressions:
        return
    # Sources only of what is named in an expression: torch asks for more names than it uses.
    for expression in expressions:
        used = guard_table.names_in(expression)
        relation = frame_pb2.Relation(expression=expression)
        shown = expression
        for source, symbol in sorted(symbols.items(), key=lambda item: -len(item[1])):
            if symbol in used:
                relation.symbols.append(symbol)
                try:
                    relation.sources.append(recorder.table.number(source) + 1)
                except UnrecordableError as error:
                    raise UnrecordableError(f"guard on sizes, {expression}: {error}") from error
                shown = shown.replace(symbol, recorder.name(source))
        recorder.add(None, shown, relation=relation)


def _write_aliases(recorder: Recorder) -> None:
    for what, numbers in (("tensor", recorder.tensors), ("copied object", recorder.copied)):
        if len(numbers) > 1:
            sources = frame_pb2.FrameSources(sources=[number + 1 for number in sorted(numbers)])
            recorder.add(None, f"no two of {len(numbers)} are one {what}", distinct=sources)
    for guard in recorder.capture.aliased_inputs():
        if type(guard).__name__ != "DuplicateInputs":
            raise UnrecordableError("arguments that are changed share their storage")
        one, other = guard.input_source_a, guard.input_source_b
        recorder.same_as(one, other)


def _write_state(recorder: Recorder) -> None:
    capture = recorder.capture
    state = process_state.write(capture.global_state(), capture.function_modes())
    recorder.add(None, "the process's state is what it was", state=state)
    if capture.is_transformed:
        raise UnrecordableError("it was captured within a transform of functorch")
    if process_state.has_saved_tensor_hooks():
        raise UnrecordableError("it was captured under hooks of saved tensors")
    if any(isinstance(value, torch.nn.Module) for value in recorder.table.bases.values()):
        _write_hooks_of_all_modules(recorder)
    for module, attribute, value in (
        ("torch.autograd.forward_ad", "_current_level", capture.forward_level),
        ("torch.utils._device", "CURRENT_DEVICE", capture.default_device),
    ):
        base = recorder.table.add(Step.MODULE, name=module)
        number = recorder.table.add(Step.ATTRIBUTE, base, name=attribute)
        recorder.add(number, f"{module}.{attribute} is {value!r}", equals=constants.write(value))


def _write_hooks_of_all_modules(recorder: Recorder) -> None:
    """That there are none: Dynamo does not look."""
    base = recorder.table.add(Step.MODULE, name=torch.nn.modules.module.__name__)
    for attribute, hooks in vars(torch.nn.modules.module).items():
        if attribute.startswith("_global_") and attribute.endswith("_hooks"):
            if hooks:
                raise UnrecordableError(f"there are hooks of all modules, {attribute}")
            number = recorder.table.add(Step.ATTRIBUTE, base, name=attribute)
            recorder.add(number, f"len({attribute}) == 0", length=0)
