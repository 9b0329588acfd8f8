# SPDX-License-Identifier: Apache-2.0
"""A daemon within the test process: it records requests and answers as told, compiling nothing.

Its programs are run by `FakeBridge`, which looks the graph up by key and interprets it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import Any

import grpc
import interpreter
from tensord.v1 import requests_pb2, service_pb2, stats_pb2

# What the daemon claims to lower, unless a test says otherwise.
OPERATORS = (
    "aten::add.Tensor",
    "aten::mul.Tensor",
    "aten::gelu",
    "aten::_softmax",
    "aten::native_layer_norm",
    "aten::relu",
    "aten::sum.dim_IntList",
)


class FakeDaemon:
    """Serves tensord.v1.Compiler on a Unix socket.

    requests: CompileRequests in order of arrival. fail: called with a request; a (code, message)
    that it returns is the answer. delay_s: before each compile's answer.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.requests: list[Any] = []
        self.hellos = 0
        self.fail: Callable[[Any], tuple[grpc.StatusCode, str] | None] = lambda request: None
        self.kernel_failures: list[str] = []  # what replies say of kernels
        self.delay_s = 0.0
        self.hello_s = 0.0  # what a greeting takes
        self.protocol = 1
        self.stopping_hellos = 0  # of so many it says that it stops
        self.takes_spans = False  # what it says; it does not know PutSpans
        self.operators: tuple[str, ...] = OPERATORS
        self.in_flight = 0
        self.most_in_flight = 0
        self.graphs: dict[bytes, Any] = {}
        self._lock = threading.Lock()
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self._handlers(),))
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def stop(self) -> None:
        self._server.stop(None).wait()

    def graph(self, label: str) -> Any:
        """The last graph with that label."""
        return next(r.graph for r in reversed(self.requests) if r.label == label)

    def _handlers(self) -> grpc.GenericRpcHandler:
        methods = {
            "Hello": (self._hello, requests_pb2.HelloRequest),
            "Compile": (self._compile, requests_pb2.CompileRequest),
            "GetStats": (self._stats, service_pb2.GetStatsRequest),
        }
        return grpc.method_handlers_generic_handler(
            "tensord.v1.Compiler",
            {
                name: grpc.unary_unary_rpc_method_handler(
                    function,
                    request_deserializer=request.FromString,
                    response_serializer=lambda reply: reply.SerializeToString(),
                )
                for name, (function, request) in methods.items()
            },
        )

    def _hello(self, request: Any, context: Any) -> Any:
        self.hellos += 1
        time.sleep(self.hello_s)
        if self.hellos <= self.stopping_hellos:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the daemon is stopping")
        return requests_pb2.HelloReply(
            daemon_version="fake",
            protocol=self.protocol,
            operators=self.operators,
            takes_spans=self.takes_spans,
        )

    def _stats(self, request: Any, context: Any) -> Any:
        return stats_pb2.Stats(version="fake", requests=len(self.requests))

    def _compile(self, request: Any, context: Any) -> Any:
        with self._lock:
            self.requests.append(request)
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            time.sleep(self.delay_s)
            failure = self.fail(request)
            if failure is not None:
                context.abort(*failure)
        finally:
            with self._lock:
                self.in_flight -= 1
        key = hashlib.sha256(interpreter.canonical(request.graph)).digest()
        known = key in self.graphs
        self.graphs[key] = request.graph
        reply = requests_pb2.CompileReply(
            program_key=key,
            blob_folder="/",
            outcome=requests_pb2.CompileReply.HIT if known else requests_pb2.CompileReply.COMPILED,
            kernels=len(request.graph.nodes),
        )
        reply.artifact.modules.add(kernel_key=key)
        reply.kernel_failures.extend(self.kernel_failures)
        return reply


class BridgeError(RuntimeError):
    """As the real bridge's: `code` is a TensordError number of runtime.h."""

    def __init__(self, code: int, message: str = "told to fail") -> None:
        super().__init__(message)
        self.code = code


class FakeBridge:
    """Stands in for tensord.bridge.runtime."""

    def __init__(self, daemon: FakeDaemon) -> None:
        self.daemon = daemon
        self.loads = 0
        self.runs = 0
        self.load_codes: list[int] = []  # failures of the next loads
        self.run_codes: list[int | Exception] = []  # failures of the next runs

    def load_program(self, artifact: bytes, blob_folder: str) -> Callable[[list[Any]], list[Any]]:
        from tensord.v1 import artifact_pb2

        self.loads += 1
        if self.load_codes:
            raise BridgeError(self.load_codes.pop(0))
        key = artifact_pb2.Artifact.FromString(artifact).modules[0].kernel_key
        graph = self.daemon.graphs[key]

        def run(arguments: list[Any]) -> list[Any]:
            values = list(arguments)
            arguments.clear()
            if self.run_codes:
                failure = self.run_codes.pop(0)
                if failure in (1, 2, 3):  # before the first step: the list is as it was
                    arguments[:] = values
                raise failure if isinstance(failure, Exception) else BridgeError(failure)
            self.runs += 1
            return interpreter.run(graph, values)

        run.number = -self.loads  # type: ignore[attr-defined]  # none of the runtime's own
        return run
