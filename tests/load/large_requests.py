# SPDX-License-Identifier: Apache-2.0
"""What the daemon's memory grows to under large requests that come at once.

    python tests/load/large_requests.py [--requests 8] [--mebibytes 60] [--shape text|nodes]

`text` is one node with one long text, `nodes` a great many small nodes, which take several times
their bytes on the wire when they are parsed. Every request is another one, and none of them can be
compiled: what counts is that they are received, checked, queued and handed to workers. Prints a
line for each shape: the daemon's resident size before, its peak, and how the requests ended.
"""

from __future__ import annotations

import argparse
import collections
import pathlib
import sys
import threading

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "bench"))

from private_daemon import PrivateDaemon
from tensord.v1 import graph_pb2, requests_pb2
from tensord.wire import address, target, transport

MEBIBYTE = 1 << 20
TIMEOUT_S = 300.0


def request_of(shape: str, size: int) -> bytes:
    """A serialised CompileRequest of about `size` bytes."""
    request = requests_pb2.CompileRequest(target=target.detect(None), label="inference")
    if shape == "text":
        node = request.graph.nodes.add(op="tensord::unknown", name="long")
        node.args.add().text = "x" * size
        return request.SerializeToString()
    one = graph_pb2.Graph()
    node = one.nodes.add(op="aten::add", overload="Tensor", name="node")
    for _ in range(2):
        node.args.add().value.value = 1
    node.outputs.add(dtype=graph_pb2.DTYPE_FLOAT32).sizes.add().constant = 4
    # Messages that stand side by side are one: the graph has all of their nodes.
    graph = one.SerializeToString()
    many = requests_pb2.CompileRequest(
        graph=graph_pb2.Graph.FromString(graph * (size // len(graph)))
    )
    return request.SerializeToString() + many.SerializeToString()


def distinct(request: bytes, number: int) -> bytes:
    """The request with one more node."""
    more = requests_pb2.CompileRequest()
    more.graph.nodes.add(op=f"tensord::unknown_{number}", name="distinct")
    return request + more.SerializeToString()


def send_all(request: bytes, count: int) -> collections.Counter[str]:
    """Sends `count` different requests at once; how they ended, by the code's name."""
    ends: collections.Counter[str] = collections.Counter()
    lock = threading.Lock()
    path = address.resolve().path
    gate = threading.Barrier(count)

    def send(number: int) -> None:
        message = distinct(request, number)
        gate.wait()
        try:
            method = "/tensord.v1.Compiler/CompileLarge"
            transport.Call(path, method, message, TIMEOUT_S).message()
            end = "OK"
        except transport.CallError as error:
            end = error.code
        with lock:
            ends[end] += 1

    threads = [threading.Thread(target=send, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ends


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--requests", type=int, default=8, help="sent at once")
    parser.add_argument("--mebibytes", type=int, default=60, help="size of each")
    parser.add_argument("--shape", choices=("text", "nodes"), action="append")
    parser.add_argument(
        "--flag", action="append", default=[], help="of the daemon, such as --workers=1"
    )
    options = parser.parse_args()
    for shape in options.shape or ("text", "nodes"):
        request = request_of(shape, options.mebibytes * MEBIBYTE)
        with PrivateDaemon(*options.flag) as daemon:
            before = daemon.resident_bytes()
            ends = send_all(request, options.requests)
            print(
                f"{options.requests} requests of {len(request) / MEBIBYTE:.0f} MiB ({shape}): "
                f"resident {before / MEBIBYTE:.0f} MiB before, "
                f"{daemon.peak_resident_bytes() / MEBIBYTE:.0f} MiB at most, "
                f"{daemon.resident_bytes() / MEBIBYTE:.0f} MiB after; "
                + ", ".join(f"{count} {code}" for code, count in sorted(ends.items())),
                flush=True,
            )


if __name__ == "__main__":
    main()
