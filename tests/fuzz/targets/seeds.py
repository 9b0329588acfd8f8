#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the seeds of tests/fuzz/corpus: what torch captures of small functions, and its artifacts,
frames, records and exports, of a daemon of its own.

    .venv/bin/python tests/fuzz/targets/seeds.py    # after a build; files are named seed-*

Findings stand beside them by other names and stay. What inputs are the targets say: `graph` reads a
CompileJob, `worker` replies behind their lengths, `record` and `archive` a letter and
the file.
"""

from __future__ import annotations

import hashlib
import os
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
CORPUS = ROOT / "tests" / "fuzz" / "corpus"
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
os.environ.update(TENSORD_STRICT="1", TENSORD_AUTOSTART="0", TENSORD_ISA="scalar")

import tensord  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # noqa: E402
from real_daemon import RealDaemon  # noqa: E402
from tensord.v1 import artifact_pb2, requests_pb2  # noqa: E402
from tensord.wire import rpc  # noqa: E402

# Functions of x [4, 6] and y [4, 6] of float32, i [4] of int64 below 4 and b [4, 6] of bool.
Function = Callable[..., Any]
FUNCTIONS: dict[str, Function] = {
    "pointwise": lambda x, y, i, b: F.gelu(x) * y.exp(),
    "softmax": lambda x, y, i, b: F.layer_norm(x.softmax(-1) + y, (6,)),
    "reductions": lambda x, y, i, b: (x.sum(0), y.amax(1), x.var(), (x > y).any(), x.argmax(1)),
    "views": lambda x, y, i, b: (x.t()[1:3].reshape(-1), y.unfold(1, 2, 2).permute(2, 0, 1)),
    "indexing": lambda x, y, i, b: (x[i], y.index_add(0, i, x), x.gather(0, i[None].expand(2, 4))),
    "products": lambda x, y, i, b: F.relu(torch.addmm(y[:, :4].sum(1), x, y.t())) @ x,
    "scans": lambda x, y, i, b: (x.cumsum(0), y.cumprod(1), x.cummax(0)[0], i.cumsum(0)),
    "bits": lambda x, y, i, b: ((i & 3) | (i << 1), ~b ^ (x > 0), i // 3 % 2),
    "conversions": lambda x, y, i, b: (x.half().float(), i.to(torch.uint8), b.int(), y.bfloat16()),
    "joined": lambda x, y, i, b: (torch.cat([x, y], 1), torch.stack([x, y]), F.pad(x, (1, 2))),
    "choices": lambda x, y, i, b: (torch.where(b, x, y), x.masked_fill(b, 1.0), x.clamp(-1, 1)),
    "made": lambda x, y, i, b: torch.arange(6) * x + torch.full((6,), 2.5) + torch.zeros_like(y),
    "random": lambda x, y, i, b: F.dropout(x, 0.5) + torch.rand(4, 6),
    "pooling": lambda x, y, i, b: F.max_pool2d(x[None, None], 2) + F.avg_pool2d(y[None, None], 2),
    "convolution": lambda x, y, i, b: F.conv1d(x[None], y[:, :4, None]).tanh(),
    "complex": lambda x, y, i, b: torch.view_as_real(torch.complex(x, y) * 2j).sum(-1),
    "losses": lambda x, y, i, b: F.cross_entropy(x, i) + F.mse_loss(x, y),
    "special": lambda x, y, i, b: torch.special.i0(x) + torch.lgamma(y.abs() + 1).round(),
    "sorted": lambda x, y, i, b: (x.sort(1)[0], y.topk(2)[1], torch.searchsorted(x[0], y[0])),
    "changed": lambda x, y, i, b: x.add_(1).mul_(y)[:, 0],
    "empty": lambda x, y, i, b: (x[:0].sum(), y[:, 2:2] * 2),
    "norms": lambda x, y, i, b: F.group_norm(x[None], 2) + F.instance_norm(y[None]),
}  # fmt: skip
DYNAMIC = ("pointwise", "reductions", "views", "joined", "scans")


def _inputs() -> list[Any]:
    draw = torch.Generator().manual_seed(1)
    x, y = (torch.randn(4, 6, generator=draw) for _ in range(2))
    return [x, y, torch.tensor([1, 0, 3, 2]), x > 0]


def _write(target: str, name: str, data: bytes) -> None:
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"seed-{name}").write_bytes(data)


class _Requests:
    """What is sent, under the name that is set; the first request of each."""

    def __init__(self) -> None:
        self.name = ""
        self.made: dict[str, Any] = {}
        start = rpc._start

        def keep(method: str, request: bytes, *rest: Any) -> Any:
            if method.startswith("Compile") and self.name:
                self.made.setdefault(self.name, requests_pb2.CompileRequest.FromString(request))
            return start(method, request, *rest)

        rpc._start = keep


def _framed(replies: list[Any]) -> bytes:
    data = [reply.SerializeToString() for reply in replies]
    return b"".join(struct.pack("<I", len(one)) + one for one in data)


def _worker_reply() -> type[Any]:
    """The message, which the client has not: workers are the daemon's alone."""
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run(
            ["protoc", f"-I{ROOT}/proto", f"-o{file.name}", "tensord/v1/worker.proto"],
            check=True,
        )
        files = descriptor_pb2.FileDescriptorSet.FromString(Path(file.name).read_bytes())
    pool = descriptor_pool.Default()
    for one in files.file:
        pool.Add(one)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("tensord.v1.WorkerReply"))


def _worker_seeds() -> None:
    reply = _worker_reply()
    compiled, jitted, short, fewer = (reply() for _ in range(4))
    for number in range(3):
        compiled.compiled.artifact.modules.add()
        launch = compiled.compiled.artifact.steps.add().launch
        launch.module, launch.function = number, "f"
        unit = compiled.compiled.units.add(source=f"// {number}", description=f"unit {number}")
        unit.functions.append("f")
        unit.nodes.append(f"n{number}")
        jitted.jitted.binaries.append(f"binary {number}".encode())
        jitted.jitted.resources.add(registers=7)
    compiled.compiled.stages.add(stage="lower", nanoseconds=5)
    jitted.jitted.kind = artifact_pb2.Module.SHARED_OBJECT
    short.CopyFrom(jitted)
    short.jitted.binaries[1] = b""
    short.jitted.failures.add(unit=1, log="does not compile")
    fewer.CopyFrom(compiled)
    del fewer.compiled.units[2:], fewer.compiled.artifact.modules[2:]
    refused = reply(code=3, message="node 'n0' (aten::relu): what is it")
    _write("worker", "compiled", _framed([compiled, jitted]))
    _write("worker", "a-unit-fails", _framed([compiled, short, fewer, jitted]))
    _write("worker", "refused", _framed([refused]))
    _write("worker", "cut-short", _framed([compiled])[:-5])
    _write("worker", "too-long", b"\xff\xff\xff\xff" + b"x" * 20)


def _record_seeds(store: Path) -> None:
    """Signed by the target, which knows no key but its own."""
    kinds = {"manifests": "program", "kernels": "kernel", "frames": "frame"}
    for folder, name in kinds.items():
        files = sorted((store / folder).glob("*/*"), key=lambda path: path.stat().st_size)
        for number, path in enumerate(files[:2]):
            _write("record", f"{name}-{number}", b"s" + path.read_bytes())
            _write("record", f"{name}-{number}-unsigned", b"r" + path.read_bytes())
    _write("record", "key", b"k" + hashlib.sha256(b"key").digest())
    _write("record", "old-keys", b"o" + hashlib.sha256(b"old").digest() * 3)


def _archive_seeds(store: Path) -> None:
    """The smallest program and frame; manifests are signed by the target, as those above."""
    with tempfile.TemporaryDirectory() as folder:
        key, file = f"{folder}/key", Path(folder) / "file"
        tensorctl = str(ROOT / "build" / "bin" / "tensorctl")
        quiet = {"check": True, "stdout": subprocess.DEVNULL}
        subprocess.run([tensorctl, "fleet-key", key, "key"], **quiet)
        flags = [f"--store={store}", f"--fleet-sign-key={key}", "--config=/dev/null"]
        for kind in ("manifests", "frames"):
            files = sorted((store / kind).glob("*/*"), key=lambda path: path.stat().st_size)
            subprocess.run([tensorctl, "export", file, files[0].name, *flags], **quiet)
            _write("archive", kind, b"s" + file.read_bytes())
            _write("archive", f"{kind}-unsigned", b"r" + file.read_bytes())


def _profile_seeds() -> None:
    """Calls of a program with a step of each kind; with as little as there can be."""
    request = requests_pb2.PutProfileRequest()
    request.caller.pid = 1
    profile = request.profile
    profile.calls.extend([9000, 7000, 8000])
    profile.gaps.extend([100, 0, 50])
    _write("profile", "no-steps", request.SerializeToString())
    profile.function, profile.device, profile.copy_rate = "step", "CPU", 10**10
    profile.programs.add(key=hashlib.sha256(b"program").digest(), label="forward", runs=3)
    profile.lines.add(source="model.py:1 in forward", text="return x + 1")
    for kind in (1, 2, 3, 4):
        row = profile.rows.add(program=0, kind=kind, name="kernel 0", runs=3, step=0)
        row.operators.append("add"), row.lines.append(0)
        row.nanoseconds.extend([1000, 2000, 1500])
        row.bytes_read, row.bytes_written, row.flops = 4096, 4096, 10**6
    _write("profile", "steps", request.SerializeToString())


def main() -> None:
    """Replaces all seeds."""
    for old in CORPUS.glob("*/seed-*"):
        old.unlink()
    requests = _Requests()
    daemon = RealDaemon()
    os.environ["TENSORD_ADDRESS"] = daemon.address
    try:
        for name, function in FUNCTIONS.items():
            for dynamic in (False, True) if name in DYNAMIC else (False,):
                requests.name = name + ("-dynamic" if dynamic else "")
                torch._dynamo.reset()
                torch.compile(function, backend="tensord", dynamic=dynamic)(*_inputs())
        requests.name = ""
        for name, request in requests.made.items():
            # Of a CompileJob these are the same fields (request_bytes.cc).
            job = requests_pb2.CompileRequest(
                graph=request.graph, target=request.target, options=request.options
            )
            _write("graph", name, job.SerializeToString())
            if len(request.SerializeToString()) < 1500:
                _write("request", name, request.SerializeToString())
            reply = rpc.client().compile(request).wait()
            _write("artifact", name, reply.artifact.SerializeToString())
        for name in ("pointwise", "views", "changed"):
            tensord.compile(FUNCTIONS[name])(*_inputs())
        most = 12
        for row in rpc.client().call("ListFrames", requests_pb2.ListFramesRequest()).frames[:most]:
            found = rpc.client().call("GetFrame", requests_pb2.GetFrameRequest(key_prefix=row.key))
            name = row.code.qualified_name.strip("<>") + row.key.hex()[:4]
            _write("frame", name, found.frame.SerializeToString())
        _record_seeds(daemon.store)
        _archive_seeds(daemon.store)
    finally:
        daemon.close()
    _worker_seeds()
    _profile_seeds()


if __name__ == "__main__":
    main()
