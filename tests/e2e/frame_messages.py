# SPDX-License-Identifier: Apache-2.0
"""Frames as messages, for tests of the service: whole ones that nothing could run."""

from __future__ import annotations

import hashlib
from typing import Any

from tensord.frames.environment import FORMAT
from tensord.v1 import frame_pb2, requests_pb2
from tensord.wire import rpc


def digest(name: str) -> bytes:
    """The digest of a code or of options that a test calls so."""
    return hashlib.sha256(name.encode()).digest()


def environment(torch: str = "2.13.0+cpu") -> frame_pb2.FrameEnvironment:
    """What two jobs of a test have alike."""
    return frame_pb2.FrameEnvironment(
        format=FORMAT, python="3.11.2", torch=torch, options=digest("options")
    )


def _identity(name: str) -> frame_pb2.CodeIdentity:
    return frame_pb2.CodeIdentity(digest=digest(name), module="tests", qualified_name=name)


def _program(inputs: list[int], arguments: int) -> frame_pb2.FrameProgram:
    program = frame_pb2.FrameProgram(inputs=inputs, arguments=arguments)
    for number in inputs:
        program.graph.inputs.add(name=f"x{number}")
    return program


def frame(
    code: str = "forward", variant: str = "", guards: int = 4, padding: int = 0
) -> frame_pb2.Frame:
    """A frame of a code.

    variant: tells it from others of the code. guards: how many, at least 3. padding: bytes of
    bytecode.
    """
    made = frame_pb2.Frame(code=_identity(code), environment=environment())
    made.inlined.add(code=_identity(code + ".helper"), path=["helper", "()"])
    step = frame_pb2.FrameSource
    made.sources.add(step=step.LOCAL, name="x")
    made.sources.add(step=step.LOCAL, name="self")
    made.sources.add(step=step.ATTRIBUTE, base=2, name="flag")
    made.sources.add(
        step=step.ITEM, base=3, constant=frame_pb2.FrameConstant(text="a key" + variant)
    )
    made.sources.add(step=step.SIZE, base=1, number=0)
    tensor = made.guards.add(source=1, text="x is a float32 tensor of 4 by any").tensor
    tensor.type.module, tensor.type.qualified_name = "torch", "Tensor"
    tensor.dtype, tensor.device, tensor.has_sizes = "float32", "cpu", True
    tensor.sizes.add(value=4), tensor.sizes.add()
    tensor.strides.add(), tensor.strides.add(value=1)
    for number in range(guards - 3):
        equals = made.guards.add(source=4, text=f"self.flag['a key{variant}'] is {number}").equals
        equals.integer = str(number)
    made.guards.add(text="gradients are recorded").state.default_dtype = "float32"
    relation = made.guards.add(text="4 <= x.size(0)").relation
    relation.expression = "4 <= s0"
    relation.symbols.append("s0"), relation.sources.append(5)
    graph = made.graphs.add(name="__compiled_fn_0", results=2, tangents=[0])
    graph.forward.CopyFrom(_program([0, 2], 3))
    for _ in range(graph.results):
        graph.forward.graph.outputs.add()
    graph.backward.CopyFrom(_program([0], 2))
    graph.result_is_argument.extend([0, 3])
    graph.has_gradient.extend([True, False, True])
    made.result.code.bytecode, made.result.code.name = b"bytecode" + b"." * padding, code
    made.result.globals.add(name="torch", module="torch")
    continuation = made.result.globals.add(name="__resume_at_8").continuation
    continuation.code.bytecode, continuation.code.name = b"more bytecode", "resume"
    continuation.of.CopyFrom(_identity(code + ".resume"))
    return made


def find(
    code: str = "forward",
    known: tuple[bytes, ...] = (),
    captures: bool = False,
    wait_s: float = 0.0,
    pid: int = 0,
    timeout_s: float = 60.0,
) -> Any:
    """A FindFramesReply."""
    request = requests_pb2.FindFramesRequest(
        environment=environment(),
        code=digest(code),
        known=known,
        captures=captures,
        wait_milliseconds=int(wait_s * 1000),
        caller=requests_pb2.Caller(pid=pid),
    )
    return rpc.client().call("FindFrames", request, timeout_s)


def put(message: frame_pb2.Frame, behind: str = "", capture: int = 0) -> bytes:
    """Puts a frame, and gives its key."""
    request = requests_pb2.PutFrameRequest(
        frame=message, behind=digest(behind) if behind else b"", capture=capture
    )
    key: bytes = rpc.client().call("PutFrame", request, 60.0).key
    return key


def end(capture: int, reason: str = "a test says so") -> None:
    """Ends a capture without a frame."""
    rpc.client().call("EndCapture", requests_pb2.EndCaptureRequest(capture=capture, reason=reason))
