# SPDX-License-Identifier: Apache-2.0
"""Records a captured graph while it is compiled: its programs and what AOTAutograd decided, as a
GraphCall.

The backend opens a record around AOTAutograd; the compilers that AOTAutograd calls write into it.
Where nobody records, all of it does nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..errors import TensordError
from ..torch_compat.forward_facts import ForwardFacts, NotPlain, forward_facts
from ..v1 import compile_pb2, frame_pb2
from . import view_results
from .errors import UnrecordableError

if TYPE_CHECKING:
    from ..cuda_graphs.plan import Plan
    from ..wire.exporter import Exported

_Programs = dict[str, frame_pb2.FrameProgram]

# Of a node, what is for people and lies in the user's files.
LEFT_OUT = ("source", "line")


class GraphRecord:
    """One captured graph. What cannot be recorded is remembered by its reason, the first."""

    def __init__(self) -> None:
        self._programs: _Programs = {}
        self._facts: ForwardFacts | None = None
        self._absent: tuple[bool, ...] = ()
        self._with_all: frame_pb2.FrameProgram | None = None
        self._reason = ""

    def refuse(self, reason: str) -> None:
        """Nothing of the graph can be recorded."""
        self._reason = self._reason or reason

    def note_forward(self) -> None:
        """Before the forward or inference program: what AOTAutograd knows."""
        try:
            self._facts = forward_facts()
        except NotPlain as error:
            self.refuse(str(error))
        except Exception as error:  # another version of torch
            self.refuse(f"what AOTAutograd decided is not understood: {error!r}")

    def note_program(self, label: str, program: frame_pb2.FrameProgram) -> None:
        """label: "inference", "forward" or "backward"; others are parts of a graph that was cut."""
        if label not in ("inference", "forward", "backward"):
            return self.refuse("a graph is cut into several programs")
        self._programs[label] = program

    def note_absent(
        self,
        tangents: Sequence[int],
        absent: Sequence[int],
        with_all: Callable[[], frame_pb2.FrameProgram],
    ) -> None:
        """The backward program is without some gradients.

        tangents: the backward graph's arguments that are gradients; absent: those of them.
        with_all: exports the program that takes all of them.
        """
        if self._reason:
            return
        try:
            self._with_all = with_all()
        except (TensordError, UnrecordableError) as error:
            self.refuse(str(error))
        self._absent = tuple(argument in absent for argument in tangents)

    def message(self, name: str) -> frame_pb2.GraphCall:
        """Raises UnrecordableError."""
        if self._reason:
            raise UnrecordableError(self._reason)
        facts = self._facts
        if facts is None or not self._programs:
            raise UnrecordableError("a graph has no program of its own")
        call = frame_pb2.GraphCall(
            name=name,
            results=facts.results,
            result_is_argument=facts.is_argument,
            result_is_view=facts.is_view if any(facts.is_view) else (),
            result_is_view_of=facts.is_view_of if any(facts.is_view_of) else (),
            hidden_results=facts.hidden,
            result_requires_grad=facts.requires_grad,
            changed_arguments=facts.changed,
        )
        for label, program in self._programs.items():
            _leave_out_places(program)
            getattr(call, label).CopyFrom(program)
        if "forward" in self._programs:
            self._add_training(call, facts)
        view_results.check(call)
        return call

    def _add_training(self, call: frame_pb2.GraphCall, facts: ForwardFacts) -> None:
        made = len(call.forward.graph.outputs)
        call.saved_numbers = facts.saved_numbers
        call.saved_tensors = made - facts.results - facts.saved_numbers
        if "backward" not in self._programs:
            raise UnrecordableError("a training graph has no backward program")
        if made < facts.results + facts.saved_numbers:
            raise UnrecordableError("the forward program has other results than AOTAutograd says")
        if len(facts.layouts) != len(facts.tangents):
            raise UnrecordableError("the gradients of a graph's results are not one each")
        call.tangents.extend(facts.tangents)
        for layout in facts.layouts:
            call.tangent_layouts.add(
                sizes=layout.sizes, strides=layout.strides, memory_format=layout.memory_format
            )
        if self._with_all is not None:
            if len(self._absent) != len(facts.tangents):
                raise UnrecordableError("backward takes other gradients than AOTAutograd says")
            call.tangent_absent.extend(self._absent)
            call.backward_with_all.CopyFrom(self._with_all)
            _leave_out_places(call.backward_with_all)


def _leave_out_places(program: frame_pb2.FrameProgram) -> None:
    """Where in the user's files a node comes from is another in each checkout, and a field that is
    for people is none that a daemon of the version before has to know in a frame."""
    for node in program.graph.nodes:
        for name in LEFT_OUT:
            node.ClearField(name)


def program_of(exported: Exported, options: compile_pb2.CompileOptions) -> frame_pb2.FrameProgram:
    """An exported graph as part of a frame; raises UnrecordableError."""
    if exported.call_backs or exported.opaque:
        raise UnrecordableError("a graph has nodes that run in Python")
    if exported.extra:
        raise UnrecordableError("a graph has large constants")
    return frame_pb2.FrameProgram(
        graph=exported.graph,
        options=options,
        inputs=exported.kept,
        arguments=exported.num_arguments,
    )


class _Current(threading.local):
    record: GraphRecord | None = None
    wanted = False


_current = _Current()


@contextmanager
def wanted() -> Iterator[None]:
    """A block whose graphs are for a frame: outside of one nothing is recorded."""
    before, _current.wanted = _current.wanted, True
    try:
        yield
    finally:
        _current.wanted = before


@contextmanager
def recording() -> Iterator[GraphRecord | None]:
    """A block in which the graph that is compiled is recorded; None where nobody wants it."""
    before, _current.record = _current.record, GraphRecord() if _current.wanted else None
    try:
        yield _current.record
    finally:
        _current.record = before


def current() -> GraphRecord | None:
    """The record of the graph that is being compiled; None where nobody records."""
    return _current.record


def refuse(reason: str) -> None:
    """The graph that is being compiled cannot be recorded."""
    if _current.record is not None:
        _current.record.refuse(reason)


def note_program(
    exported: Exported, options: compile_pb2.CompileOptions, label: str, plan: Plan | None
) -> None:
    """To be called where a program is asked for."""
    if (record := _current.record) is None:
        return
    if plan is not None:
        return record.refuse("its programs are replayed as CUDA graphs")
    try:
        record.note_program(label, program_of(exported, options))
    except UnrecordableError as error:
        record.refuse(str(error))


_RECORD = "_tensord_record"


def attach(function: Any, record: GraphRecord | None) -> Any:
    """Remembers which graph the function runs, if it was recorded."""
    for one in _wrapped(function):
        with contextlib.suppress(AttributeError):
            setattr(one, _RECORD, record)
    return function


def record_of(function: Any) -> GraphRecord | None:
    """The record attached to a function; None where it has none."""
    found = (getattr(one, _RECORD, None) for one in _wrapped(function))
    return next((record for record in found if record is not None), None)


def _wrapped(function: Any) -> Iterator[Any]:
    """The function and those that it wraps for Dynamo, which drops wrappers and adds its own."""
    while function is not None:
        yield function
        function = getattr(function, "_torchdynamo_orig_callable", None)
