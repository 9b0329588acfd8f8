# SPDX-License-Identifier: Apache-2.0
"""What the daemon knows of a program's steps: their operators, their lines of the model, and what
they must move."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from ..errors import DaemonTimeoutError, DaemonUnavailableError, TensordError
from ..v1 import artifact_pb2, compile_pb2, profile_pb2, requests_pb2
from ..wire import rpc
from ..wire.expressions import evaluate
from . import kinds

log = logging.getLogger("tensord")

Row = profile_pb2.ProfileRow
_TIMEOUT_S = 10.0
_ANY_KERNEL = "tensord_kernel"


@dataclass(frozen=True)
class StepFacts:
    """A step as rows of a profile have it. operators: without views, where it has others. lines:
    source and text, the one with most of the operators first. is_first: of a kernel's launches this
    one is the first."""

    kind: Row.Kind
    name: str
    step: int | None = None
    is_first: bool = True
    operators: tuple[str, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    work: compile_pb2.StepWork = field(default_factory=compile_pb2.StepWork)

    def row_key(self) -> tuple[int, int | str]:
        """Steps with the same one are one row of their program."""
        return (self.kind, self.name if self.step is None else self.step)

    def work_at(self, symbols: Sequence[int]) -> tuple[int, int, int]:
        """Bytes read and written, and floating-point operations, for a run with these symbols; 0:
        not known."""
        parts = (self.work.bytes_read, self.work.bytes_written, self.work.flops)
        try:
            read, written, flops = (max(0, evaluate(part, symbols)) for part in parts)
        except ValueError as error:  # of a newer daemon
            log.debug("tensord: what a step of a profile must do is not known: %s", error)
            return 0, 0, 0
        return read, written, flops


MEMORY = StepFacts(Row.MEMORY, "memory")


class ProgramFacts:
    """A program's steps, by how the runtime numbers them."""

    def __init__(self, key: bytes, detail: requests_pb2.ProgramDetail | None) -> None:
        """detail: None where the daemon has none."""
        self.key = key
        self.label = detail.summary.label if detail is not None else ""
        self._steps: dict[tuple[int, int], StepFacts] = {}
        if detail is not None:
            self._read(detail)

    def _read(self, detail: requests_pb2.ProgramDetail) -> None:
        part_of = {
            planned: number
            for number, step in enumerate(detail.fusion.steps)
            for planned in step.plan_steps
        }
        counts: Counter[int] = Counter()
        for planned, step in enumerate(detail.artifact.steps):
            kind = kinds.OF_PLANNED.get(step.WhichOneof("kind") or "")
            if kind is None:
                continue
            counts[kind] += 1
            facts = StepFacts(kind, _name_of(step))
            if (number := part_of.get(planned)) is not None:
                facts = _of_fusion(facts, detail.fusion, number, planned)
            self._steps[kind, counts[kind] - 1] = facts

    def step(self, kind: Row.Kind, number: int) -> StepFacts:
        """Step `number` of its kind, as the runtime counts them."""
        if kind == Row.MEMORY:
            return MEMORY
        known = self._steps.get((kind, number))
        return known or StepFacts(kind, f"{Row.Kind.Name(kind).lower().replace('_', ' ')} {number}")


def _name_of(step: artifact_pb2.Step) -> str:
    """As profilers have it, too; of a kernel on the CPU, where all are called the same, "kernel"
    with its number, as `tensorctl kernel` takes it."""
    if step.HasField("call"):
        return step.call.op
    if not step.HasField("launch"):
        return "zero fill"
    launch = step.launch
    return launch.function if launch.function != _ANY_KERNEL else f"kernel {launch.module}"


@functools.cache
def _is_view(op: str) -> bool:
    """Whether an operator of torch's computes nothing: its result is memory of its argument."""
    namespace, _, name = op.partition("::")
    packet = getattr(getattr(torch.ops, namespace), name, None) if name else None
    overloads = packet.overloads() if isinstance(packet, torch._ops.OpOverloadPacket) else []
    # Some have others beside, of lists and texts.
    return any(getattr(packet, each).is_view for each in overloads)


def _of_fusion(
    facts: StepFacts, fusion: compile_pb2.FusionGraph, number: int, planned: int
) -> StepFacts:
    """The same with what the fusion graph says of its step `number`."""
    step = fusion.steps[number]
    nodes = [fusion.nodes[node] for node in step.nodes if node < len(fusion.nodes)]
    working = [node for node in nodes if not _is_view(node.op)]
    lines = Counter(
        node.line
        for node in working or nodes
        if node.HasField("line") and node.line < len(fusion.lines)
    )
    return StepFacts(
        facts.kind,
        facts.name,
        number,
        planned == step.plan_steps[0],
        tuple((node.op or node.name).rpartition("::")[2] for node in working or nodes),
        tuple((fusion.lines[i].source, fusion.lines[i].text) for i, _ in lines.most_common()),
        step.work,
    )


class Asked:
    """What the daemon says of the programs of one profile. One that does not answer is not asked
    again."""

    def __init__(self) -> None:
        self._is_silent = False

    def facts_of(self, key: bytes) -> ProgramFacts:
        """Of a loaded program; without the daemon's word where it does not answer or has it no
        more. key: empty where there is none."""
        detail = None
        if key and not self._is_silent:
            request = requests_pb2.GetProgramRequest(key_prefix=key)
            try:
                detail = rpc.client().call("GetProgram", request, _TIMEOUT_S)
            except TensordError as error:
                silence = (DaemonTimeoutError, DaemonUnavailableError)
                self._is_silent = isinstance(error, silence)
                log.info("tensord: a profile has no lines of program %s: %s", key.hex()[:12], error)
        return ProgramFacts(key, detail)
