# SPDX-License-Identifier: Apache-2.0
"""What the service itself costs: a cached look-up, an idle daemon."""

from __future__ import annotations

import time
from typing import Any

import torch
from kernel_cases import CASES
from private_daemon import PrivateDaemon
from timing import summary


def _captured_request(case_name: str) -> Any:
    """The CompileRequest that compiling this case sends."""
    from tensord.wire import rpc

    sent: list[Any] = []
    original = rpc.Client.compile

    def record(self: Any, request: Any) -> Any:
        sent.append(request)
        return original(self, request)

    rpc.Client.compile = record  # type: ignore[method-assign]
    try:
        case = next(case for case in CASES if case.name == case_name)
        torch._dynamo.reset()
        torch.compile(case.function, backend="tensord")(*case.arguments())
    finally:
        rpc.Client.compile = original  # type: ignore[method-assign]
    return sent[0]


def lookup(count: int) -> dict[str, Any]:
    """Seconds of a Compile call that the store answers: seen from Python, and inside the daemon."""
    import grpc
    import tensord
    from tensord.v1 import requests_pb2
    from tensord.wire import address

    request = _captured_request(CASES[1].name)
    with grpc.insecure_channel(f"unix:{address.resolve().path}") as channel:
        call = channel.unary_unary(
            "/tensord.v1.Compiler/Compile",
            request_serializer=requests_pb2.CompileRequest.SerializeToString,
            response_deserializer=requests_pb2.CompileReply.FromString,
        )
        before = tensord.daemon_stats()
        samples = []
        for _ in range(count):
            start = time.perf_counter()
            reply = call(request)
            samples.append(time.perf_counter() - start)
            assert reply.outcome == requests_pb2.CompileReply.HIT
        after = tensord.daemon_stats()
    hits = after["hits"] - before["hits"]
    return {
        "round trip from Python": summary(samples),
        "inside the daemon": (after["lookup_nanoseconds"] - before["lookup_nanoseconds"])
        / max(1, hits)
        / 1e9,
        "calls": count,
    }


def idle(daemon: PrivateDaemon, seconds: float) -> dict[str, float]:
    """The daemon with nothing to do: resident bytes, and the share of one core."""
    time.sleep(1.5)  # the last connection closes
    before = daemon.cpu_seconds()
    time.sleep(seconds)
    return {
        "resident_bytes": daemon.resident_bytes(),
        "cpu_percent": 100 * (daemon.cpu_seconds() - before) / seconds,
        "seconds": seconds,
    }
