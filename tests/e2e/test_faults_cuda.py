# SPDX-License-Identifier: Apache-2.0
"""What goes wrong around CUDA kernels where a daemon makes them; needs no GPU.

What goes wrong where they run: tests/unit/runtime/cuda_errors_test.cc (a fake driver) and
test_client_fallback.py (a fake runtime).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from real_daemon import RealDaemon
from tensord.errors import HostSetupError
from tensord.v1 import artifact_pb2, requests_pb2
from tensord.wire import export, rpc
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

HERE = Path(__file__).resolve().parent
pytestmark = pytest.mark.skipif(
    os.environ.get("TENSORD_NO_CUDA_TESTS") == "1", reason="TENSORD_NO_CUDA_TESTS=1"
)


def _request(sm: int = 90) -> Any:
    with FakeTensorMode():
        x = torch.empty(64, 48, device="cuda")
        module = make_fx(lambda x: [torch.ops.aten._softmax(x.sin(), 1, False)])(x)
    target = artifact_pb2.Target()
    target.cuda.sm = sm
    target.cuda.multiprocessors = 108
    target.cuda.shared_bytes_per_block = 99 << 10
    target.cuda.l2_bytes = 40 << 20
    target.cuda.registers_per_multiprocessor = 65536
    graph = export.export(module).graph
    return requests_pb2.CompileRequest(graph=graph, target=target, label="inference")


def _compile(request: Any) -> Any:
    return rpc.client().compile(request).wait()


def _old_nvrtc(folder: Path) -> str:
    library = folder / "libnvrtc.so.11"
    source = HERE.parent / "unit" / "jit" / "nvrtc_fake.cc"
    subprocess.run(["c++", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    return str(library)


@pytest.mark.parametrize("kind", ["missing", "no library", "old"])
def test_nvrtc_that_does_not_serve(
    start: Callable[..., RealDaemon], tmp_path: Path, kind: str
) -> None:
    path = tmp_path / "libnvrtc.so.13"
    if kind == "no library":
        path.write_text("not a library")
    nvrtc = _old_nvrtc(tmp_path) if kind == "old" else str(path)
    start(TENSORD_NVRTC=nvrtc)
    with pytest.raises(HostSetupError, match="NVRTC"):
        _compile(_request())
    # The CPU's programs do not need it.
    x = torch.randn(7)
    compiled = torch.compile(lambda x: x.sin() + 1, backend="tensord")
    torch.testing.assert_close(compiled(x), x.sin() + 1)


def test_each_architecture_has_its_cubin(tensord_daemon: RealDaemon) -> None:
    """A store that serves GPUs of several kinds never gives one the other's kernels."""
    replies = {sm: _compile(_request(sm)) for sm in (80, 90, 100)}
    assert len({reply.program_key for reply in replies.values()}) == 3
    seen = set()
    for sm, reply in replies.items():
        assert reply.outcome == requests_pb2.CompileReply.COMPILED
        for module in reply.artifact.modules:
            assert module.kind == artifact_pb2.Module.CUBIN
            digest = module.sha256.hex()
            data = (Path(reply.blob_folder) / digest[:2] / digest).read_bytes()
            assert data[:4] == b"\x7fELF"
            assert sm in _architectures(data)
            assert digest not in seen
            seen.add(digest)
        assert _compile(_request(sm)).outcome == requests_pb2.CompileReply.HIT


def _architectures(cubin: bytes) -> set[int]:
    """The header's flags have it in their lowest byte, or from CUDA 13 on in the one above."""
    flags = int.from_bytes(cubin[48:52], "little")
    return {flags & 0xFF, flags >> 8 & 0xFF}
