# SPDX-License-Identifier: Apache-2.0
"""Has a daemon compile a small graph, without torch: `ask.py cpu` or `ask.py cuda`; TENSORD_ADDRESS
says which daemon. Prints what came of it, and ends with 1 where that is an error."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "faults"))

import graphs
from tensord.errors import TensordError
from tensord.v1 import artifact_pb2, graph_pb2, requests_pb2
from tensord.wire import rpc

H200 = {"sm": 90, "multiprocessors": 132, "shared_bytes_per_block": 232448, "l2_bytes": 60 << 20,
        "registers_per_multiprocessor": 65536}  # fmt: skip


def on_gpu(graph: graph_pb2.Graph) -> graph_pb2.Graph:
    """The same graph, of tensors of a GPU."""
    for tensor in (*(i.tensor for i in graph.inputs), *(o for n in graph.nodes for o in n.outputs)):
        tensor.device = graph_pb2.DEVICE_TYPE_CUDA
    return graph


def main() -> int:
    request = graphs.request(graphs.small(1))
    if sys.argv[1:] == ["cuda"]:
        on_gpu(request.graph)
        request.target.CopyFrom(artifact_pb2.Target(cuda=H200))
    try:
        reply = rpc.client().compile(request).wait()
    except TensordError as error:
        print(error)
        return 1
    print(requests_pb2.CompileReply.Outcome.Name(reply.outcome))
    return 0


if __name__ == "__main__":
    sys.exit(main())
